"""A publisher is relocated while it publishes: nothing missing, nothing twice, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.client.moving import (
    Speaker,
    at,
    audience,
    break_connection,
    client,
    door_of,
    live,
    relocated,
)
from tests.serve.mqtt.talk import Raw, on_loop

from gravitate.broker.moves.relocation import SOURCE, State
from gravitate.client import Client
from gravitate.client.states import State as ClientState
from gravitate.wire.mqtt import control
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.control import ClientMark
from gravitate.wire.mqtt.properties import Property, user_properties

CHAIN = ("b1", "b2", "b3", "b4")


@pytest.mark.parametrize("qos", [(0,), (1,), (0, 1)])
def test_ten_relocations_under_500_events_a_second_lose_double_and_reorder_nothing(
    qos: tuple[int, ...],
) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN) as running,
            audience(running, *CHAIN) as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0, qos)
            way = ["b1", "b4", "b2", "b3", "b1", "b2", "b1", "b4", "b3", "b2", "b1"]
            await speaker.reaches(50)
            for source, target in pairwise(way):
                record = await relocated(running, "p", source, target)
                assert (record.outcome, record.reason) == ("done", "")
                await speaker.reaches(20)
                assert at(running, target, publisher)
            assert publisher.moves == 10
            assert publisher.reconnects == 0
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def on_redirect(publisher: Client, then: Callable[[], object]) -> None:
    """Do something at the moment the publisher is told to move, before it answers."""
    keeper = publisher._keeper
    original = keeper.redirected

    def redirected(connection: Any, server: str) -> None:
        keeper.redirected = original  # type: ignore[method-assign]
        then()
        original(connection, server)

    keeper.redirected = redirected  # type: ignore[method-assign]


def test_a_target_that_takes_no_clients_leaves_the_publisher_where_it_is() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b3") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0)
            await speaker.reaches(20)
            door = running.nodes["b2"].doors.pop(0)
            await door.close()
            for _ in range(3):
                record = await relocated(running, "p", "b1", "b2")
                assert (record.outcome, record.reason) == ("rolled back", "'p' came back")
                await speaker.reaches(20)
                assert at(running, "b1", publisher)
            assert (publisher.moves, publisher.reconnects) == (0, 0)
            assert (await relocated(running, "p", "b1", "b3")).outcome == "done"
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_target_that_is_down_is_not_moved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        SOURCE.waits, State.ASKED, SOURCE.waits[State.ASKED]._replace(patience_s=0.2)
    )

    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b2") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0)
            await speaker.reaches(20)
            await running.nodes.pop("b3").close()
            record = await relocated(running, "p", "b1", "b3")
            assert record.outcome == "refused"
            assert record.reason == "the brokers on the path did not all answer within 0.2 s"
            await speaker.reaches(20)
            assert at(running, "b1", publisher)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_target_that_goes_down_under_way_sends_the_publisher_back() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b2") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0)
            await speaker.reaches(20)
            closing: list[asyncio.Task[None]] = []
            node = running.nodes.pop("b3")
            on_redirect(publisher, lambda: closing.append(asyncio.create_task(node.close())))
            record = await relocated(running, "p", "b1", "b3")
            assert (record.outcome, record.reason) == ("rolled back", "'p' came back")
            await asyncio.gather(*closing)
            await speaker.reaches(20)
            assert at(running, "b1", publisher)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_publisher_that_is_not_attached_in_time_goes_back_to_a_source_that_is_cut_off() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b2", "b3") as everybody,
            client(running, "b1", "p", move_s_max=0.2) as publisher,
        ):
            speaker = Speaker(publisher, 500.0)
            await speaker.reaches(20)

            def cut() -> None:
                for one, other in (("b1", "b2"), ("b2", "b1")):
                    running.nodes[one].links.cut(other, 3600.0)

            on_redirect(publisher, cut)
            record = await relocated(running, "p", "b1", "b3")
            assert (record.outcome, record.reason) == ("rolled back", "'p' came back")
            await speaker.reaches(20)
            assert at(running, "b1", publisher)
            assert len(everybody.received["b2"]) < len(everybody.received["b1"])
            for one, other in (("b1", "b2"), ("b2", "b1")):
                running.nodes[one].links.cut(other, 0.0)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_link_that_is_cut_for_a_moment_only_delays_the_arrival() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b2", "b3") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0)
            await speaker.reaches(20)
            on_redirect(publisher, lambda: running.nodes["b1"].links.cut("b2", 0.1))
            assert (await relocated(running, "p", "b1", "b3")).outcome == "done"
            await speaker.reaches(20)
            assert at(running, "b3", publisher)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_connection_lost_while_paused_is_renewed_where_it_was() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2") as running,
            audience(running, "b1", "b2") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0, (1,))
            await speaker.reaches(20)
            on_redirect(publisher, lambda: break_connection(running, "b1", "p"))
            record = await relocated(running, "p", "b1", "b2")
            assert (record.outcome, record.reason) == ("rolled back", "'p' has disconnected")
            async with asyncio.timeout(20):
                while not publisher.reconnects:
                    await speaker.reaches(20)
            assert at(running, "b1", publisher)
            assert (publisher.moves, publisher.reconnects) == (0, 1)
            assert (await relocated(running, "p", "b1", "b2")).outcome == "done"
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_publisher_whose_new_broker_is_gone_for_good_returns_to_the_one_before() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", link_grace_s=0.2) as running,
            audience(running, "b1") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0, (1,))
            await speaker.reaches(20)
            assert (await relocated(running, "p", "b1", "b2")).outcome == "done"
            await speaker.reaches(20)
            assert at(running, "b2", publisher)
            await speaker.pause()
            await everybody.has_all(speaker.published)
            await running.nodes.pop("b2").close()
            speaker.go_on()
            await speaker.reaches(20)
            assert at(running, "b1", publisher)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_connections_that_break_at_random_between_relocations_lose_nothing_acknowledged() -> None:
    random = Random(7)

    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            audience(running, "b1", "b2", "b3") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 500.0, (1,))
            here, outcomes = "b1", set[str]()
            for _ in range(15):
                await speaker.reaches(random.randrange(1, 15))
                target = random.choice([id for id in ("b1", "b2", "b3") if id != here])
                moving = asyncio.create_task(relocated(running, "p", here, target))
                for _ in range(random.randrange(8)):
                    await asyncio.sleep(0)
                break_connection(running, random.choice((here, target)), "p")
                record = await moving
                assert record.outcome is not None
                outcomes.add(record.outcome)
                await speaker.reaches(5)
                (here,) = (id for id in ("b1", "b2", "b3") if at(running, id, publisher))
            await everybody.has_all(await speaker.stop())
            assert "done" in outcomes

    on_loop(body)


def test_a_client_that_does_not_answer_stays_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        SOURCE.waits, State.PAUSING, SOURCE.waits[State.PAUSING]._replace(patience_s=0.2)
    )

    async def body() -> None:
        async with live("b1", "b2") as running, audience(running, "b1", "b2") as everybody:
            door = door_of(running, "b1")
            mark = ClientMark(incarnation=5, attachment=1, follows=True)
            silent = await Raw.connected(
                door, "p", properties={Property.USER_PROPERTY: mark.user_properties()}
            )
            await silent.publish("t/x", b"0", number=1)
            moving = asyncio.create_task(relocated(running, "p", "b1", "b2"))
            told = [await silent.get(p.Publish) for _ in range(2)]
            assert [packet.topic for packet in told] == [control.ATTACHED, control.REDIRECT]
            assert dict(user_properties(told[1].properties))["target"] == "b2"
            await silent.publish("t/x", b"1", number=2)
            record = await moving
            assert record.outcome == "rolled back"
            assert record.reason == "the client did not pause within 0.2 s"
            assert (await silent.get(p.Publish)).topic == control.STAY
            await silent.publish("t/x", b"2", number=3)
            await everybody.has_all(3)
            silent.close()

    on_loop(body)


@pytest.mark.parametrize("subscribes", [True, False])
def test_one_that_subscribes_or_was_told_not_to_stays_connected_where_it_is(
    subscribes: bool,
) -> None:
    async def body() -> None:
        async with (
            live("b1", "b2") as running,
            audience(running, "b1", "b2") as everybody,
            client(running, "b1", "p", follow=subscribes) as publisher,
        ):
            await publisher.publish("t/x", b"0", qos=1)
            if subscribes:
                await publisher.subscribe("other")
            await everybody.has_all(1)
            await relocated(running, "p", "b1", "b2")
            await publisher.publish("t/x", b"1", qos=1)
            assert at(running, "b1", publisher)
            break_connection(running, "b1", "p")
            await publisher.publish("t/x", b"2", qos=1)
            assert running.nodes["b1"].broker.clients.sessions["p"].stays()
            assert (publisher.moves, publisher.reconnects) == (0, 1)
            await everybody.has_all(3)

    on_loop(body)


def test_a_client_that_is_closed_while_it_moves_says_its_last_words_first() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running, audience(running, "b1", "b2") as everybody:
            publisher = client(running, "b1", "p")
            await publisher.connect()
            await publisher.publish("t/x", b"0", qos=1)
            speaking: list[asyncio.Task[None]] = []

            async def last_words() -> None:
                assert publisher._core.state is ClientState.PAUSED
                for number in (1, 2):
                    publisher.publish_nowait("t/x", b"%d" % number, qos=0)
                await publisher.close()

            on_redirect(publisher, lambda: speaking.append(asyncio.create_task(last_words())))
            assert (await relocated(running, "p", "b1", "b2")).outcome == "done"
            await asyncio.gather(*speaking)
            await everybody.has_all(3)

    on_loop(body)


def test_what_is_published_on_the_way_waits_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gravitate.client.client.TAIL_MAX", 10)

    async def body() -> None:
        async with (
            live("b1", "b2") as running,
            audience(running, "b2") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            await publisher.publish("t/x", b"0", qos=1)
            kept: list[int] = []

            async def speak() -> None:
                for number in range(1, 40):
                    await publisher._sendable(number % 2)
                    publisher.publish_nowait("t/x", b"%d" % number, qos=number % 2)
                    kept.append(len(publisher._outgoing))

            speaking: list[asyncio.Task[None]] = []

            def cut() -> None:
                running.nodes["b1"].links.cut("b2", 0.1)
                speaking.append(asyncio.create_task(speak()))

            on_redirect(publisher, cut)
            assert (await relocated(running, "p", "b1", "b2")).outcome == "done"
            await asyncio.gather(*speaking)
            assert max(kept) == 10
            await everybody.has_all(40)

    on_loop(body)
