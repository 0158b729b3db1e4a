"""A client measures how far brokers are when its broker asks; applications see nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from tests.client.moving import Speaker, at, audience, client, door_of, live
from tests.serve.mqtt.talk import Raw, on_loop

from gravitate.adapt.grape import Grape
from gravitate.client.pings import round_trips_s
from gravitate.wire.mqtt import packets as p

CHAIN = ("b1", "b2", "b3")

GRAPE = {
    "grape": {
        "prioritised": "load",
        "weight_percent": 50.0,
        "session_publications": 10,
        "confirmations": 1,
        "pings": True,
    }
}
"""By load b3 is the best for an audience there, and b2 is good enough."""


@contextlib.contextmanager
def listening(backlog: int = 16) -> Any:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server.getsockname()[:2]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """What mechanisms hear of their publishers."""
    told: list[dict[str, float]] = []
    original = Grape.on_pinged

    def on_pinged(self: Grape, publisher: str, round_trips_s: dict[str, float], now: float) -> None:
        assert publisher == "p"
        told.append(round_trips_s)
        original(self, publisher, round_trips_s, now)

    monkeypatch.setattr(Grape, "on_pinged", on_pinged)
    return told


def test_each_broker_that_answers_is_measured() -> None:
    async def body() -> None:
        with listening() as one, listening() as other:
            measured = await round_trips_s({"b1": one, "b2": other})
            assert list(measured) == ["b1", "b2"]
            assert all(0 < rtt_s < 2 for rtt_s in measured.values())

    on_loop(body)


def test_brokers_that_do_not_answer_are_missing_and_hold_up_nobody() -> None:
    async def body() -> None:
        with listening() as there, listening() as gone:
            pass
        with listening() as there, listening(backlog=0) as full, contextlib.ExitStack() as stack:
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full)
            asked = {"gone": gone, "full": full, "no name": ("a..b", 1), "there": there}
            assert list(await round_trips_s(asked, patience_s=0.3)) == ["there"]

    on_loop(body)


def test_nobody_to_measure_is_an_answer_too() -> None:
    async def body() -> None:
        assert await round_trips_s({}) == {}

    on_loop(body)


async def moves(publisher: Any, speaker: Speaker) -> None:
    async with asyncio.timeout(20):
        while not publisher.moves:
            await speaker.reaches(5)


def test_a_publisher_measures_the_candidates_and_is_moved(heard: list[dict[str, float]]) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN, mechanisms=GRAPE) as running,
            audience(running, "b3") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            speaker = Speaker(publisher, 200.0)
            await moves(publisher, speaker)
            assert heard[0].keys() == set(CHAIN)
            assert all(0 < rtt_s < 2 for rtt_s in heard[0].values())
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_broker_that_takes_no_clients_is_not_moved_to(heard: list[dict[str, float]]) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN, mechanisms=GRAPE) as running,
            audience(running, "b3") as everybody,
            client(running, "b1", "p") as publisher,
        ):
            door = door_of(running, "b3")
            assert door._server is not None
            door._server.close()
            speaker = Speaker(publisher, 200.0)
            await moves(publisher, speaker)
            assert heard[0].keys() == {"b1", "b2"}
            assert at(running, "b2", publisher)
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_client_that_does_not_follow_is_not_asked(heard: list[dict[str, float]]) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN, mechanisms=GRAPE) as running,
            audience(running, "b3") as everybody,
            client(running, "b1", "p", follow=False) as publisher,
        ):
            speaker = Speaker(publisher, 200.0)
            async with asyncio.timeout(20):
                while not heard:
                    await speaker.reaches(5)
            assert heard[0] == {}
            assert publisher._pings._task is None
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_stock_client_is_not_asked(heard: list[dict[str, float]]) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN, mechanisms=GRAPE) as running,
            audience(running, "b3") as everybody,
        ):
            raw = await Raw.connected(door_of(running, "b1"), "p")
            published = 0
            async with asyncio.timeout(20):
                while not heard:
                    await raw.publish("t/x", b"%d" % published, number=published % 1000 + 1)
                    published += 1
            assert heard[0] == {}
            raw.send(p.Pingreq())
            await raw.get(p.Pingresp)
            await everybody.has_all(published)
            raw.close()

    on_loop(body)
