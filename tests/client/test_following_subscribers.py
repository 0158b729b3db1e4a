"""A subscriber is moved while it receives: nothing missing, nothing twice, in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from tests.client.moving import Speaker, at, break_connection, client, live, reassigned
from tests.serve.mqtt.talk import on_loop

from gravitate.broker.moves.reassignment import SOURCE, State
from gravitate.client import Client, Message
from gravitate.serve.control.network import LiveNetwork

CHAIN = ("b1", "b2", "b3", "b4")
WAY = ("b1", "b4", "b2", "b3", "b1", "b2", "b1", "b4", "b3", "b2", "b1")


class Ear:
    """A subscriber of two topics that writes down what it gets, by topic."""

    def __init__(self, one: Client) -> None:
        self.client = one
        self.got: dict[str, list[int]] = {"t/1": [], "t/4": []}

    async def subscribe(self, qos: int) -> None:
        for topic in self.got:
            subscription = await self.client.subscribe(topic, qos=qos, on_message=self._note)
            await subscription.settled()

    def _note(self, message: Message) -> None:
        self.got[message.topic].append(int(message.payload))

    async def has_all(self, published: dict[str, int]) -> None:
        async with asyncio.timeout(20):
            while any(len(self.got[topic]) < count for topic, count in published.items()):
                await asyncio.sleep(0.002)
        for topic, count in published.items():
            assert self.got[topic] == list(range(count)), topic


class Voices:
    """A publisher at either end of the chain."""

    def __init__(self, speakers: dict[str, Speaker]) -> None:
        self.speakers = speakers

    async def reach(self, number: int) -> None:
        await asyncio.gather(*(one.reaches(number) for one in self.speakers.values()))

    async def stop(self) -> dict[str, int]:
        return {topic: await one.stop() for topic, one in self.speakers.items()}


@contextlib.asynccontextmanager
async def voices(running: LiveNetwork, last: str = "b4") -> AsyncIterator[Voices]:
    async with (
        client(running, "b1", "p1", follow=False) as first,
        client(running, last, "p4", follow=False) as second,
    ):
        yield Voices(
            {
                "t/1": Speaker(first, 300.0, topic="t/1"),
                "t/4": Speaker(second, 300.0, topic="t/4"),
            }
        )


@pytest.mark.parametrize("qos", [0, 1])
def test_ten_moves_of_a_subscriber_under_600_events_a_second(qos: int) -> None:
    async def body() -> None:
        async with live(*CHAIN) as running, client(running, "b1", "s") as one:
            ear = Ear(one)
            await ear.subscribe(qos)
            async with voices(running) as speakers:
                await speakers.reach(20)
                for source, target in pairwise(WAY):
                    record = await reassigned(running, "s", source, target)
                    assert (record.outcome, record.reason) == ("done", "")
                    await speakers.reach(15)
                    assert at(running, target, one)
                assert (one.moves, one.reconnects) == (10, 0)
                await ear.has_all(await speakers.stop())
            left = [b for b, node in running.nodes.items() if node.broker.clients.sessions]
            assert set(left) <= {"b1", "b4"}
            assert all(not len(node.broker.guests) for node in running.nodes.values())

    on_loop(body)


def test_a_target_that_takes_no_clients_leaves_the_subscriber_where_it_is() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, client(running, "b1", "s") as one:
            ear = Ear(one)
            await ear.subscribe(1)
            async with voices(running, "b3") as speakers:
                await speakers.reach(10)
                await running.nodes["b2"].doors.pop(0).close()
                for _ in range(2):
                    record = await reassigned(running, "s", "b1", "b2")
                    assert (record.outcome, record.reason) == ("rolled back", "'s' came back")
                    await speakers.reach(10)
                    assert at(running, "b1", one)
                assert (await reassigned(running, "s", "b1", "b3")).outcome == "done"
                assert (one.moves, one.reconnects) == (1, 0)
                await ear.has_all(await speakers.stop())

    on_loop(body)


def test_a_subscriber_whose_connection_breaks_on_the_way_goes_back() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, client(running, "b1", "s") as one:
            ear = Ear(one)
            await ear.subscribe(1)
            async with voices(running, "b3") as speakers:
                await speakers.reach(10)
                node = running.nodes["b3"]
                claim = node.broker.guests.claim

                def claimed(subscriber: str, incarnation: int) -> object:
                    node.broker.guests.claim = claim  # type: ignore[method-assign]
                    break_connection(running, "b3", subscriber)
                    return claim(subscriber, incarnation)

                node.broker.guests.claim = claimed  # type: ignore[method-assign,assignment]
                record = await reassigned(running, "s", "b1", "b3")
                assert (record.outcome, record.reason) == ("rolled back", "'s' came back")
                await speakers.reach(10)
                assert at(running, "b1", one)
                await ear.has_all(await speakers.stop())

    on_loop(body)


def test_a_subscriber_that_does_not_follow_stays_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        SOURCE.waits, State.CUTTING, SOURCE.waits[State.CUTTING]._replace(patience_s=0.2)
    )

    async def body() -> None:
        async with (
            live("b1", "b2", "b3") as running,
            client(running, "b1", "s", follow=False) as one,
        ):
            ear = Ear(one)
            await ear.subscribe(1)
            async with voices(running, "b3") as speakers:
                await speakers.reach(10)
                record = await reassigned(running, "s", "b1", "b3")
                assert record.outcome == "done"
                await speakers.reach(10)
                assert at(running, "b1", one)
                assert [it.id for it in running.nodes["b3"].broker.tethered_subscribers] == ["s"]
                await ear.has_all(await speakers.stop())

    on_loop(body)


def test_what_is_subscribed_to_while_it_moves_is_honoured() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, client(running, "b1", "s") as one:
            ear = Ear(one)
            await ear.subscribe(1)
            async with voices(running, "b3") as speakers:
                for number in range(4):
                    source, target = ("b1", "b3") if number % 2 == 0 else ("b3", "b1")
                    moving = asyncio.create_task(reassigned(running, "s", source, target))
                    extra = await one.subscribe(f"more/{number}")
                    await extra.settled()
                    record = await moving
                    if record.outcome != "done":
                        assert "meanwhile" in record.reason or "settled" in record.reason
                        assert (await reassigned(running, "s", source, target)).outcome == "done"
                    await one.unsubscribe(extra)
                await ear.has_all(await speakers.stop())
            subscribed = running.nodes["b1"].broker.clients.sessions["s"].outbound.subscriptions
            assert set(subscribed) == {"t/1", "t/4"}

    on_loop(body)
