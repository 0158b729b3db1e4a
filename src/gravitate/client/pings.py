"""How far brokers are from this client: the time that connecting to them takes.

A broker may ask (`wire.mqtt.control`) before it decides whether to send the client elsewhere. All
brokers are measured at once and each several times, one after the other; the smallest time counts,
because whatever else goes on only adds to it. Applications see nothing of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Final

from gravitate.client.connection import Connection
from gravitate.client.keeping import ClientCore, Place
from gravitate.wire.mqtt.control import Ping, Pong, payload_of, pong_message
from gravitate.wire.mqtt.packets import Publish

ROUNDS: Final = 5
PATIENCE_S: Final = 2.0
"""What is not measured by then is left out."""


class Pings:
    """What a client is asked to measure; the latest request counts."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._task: asyncio.Task[None] | None = None

    def asked(self, connection: Connection, packet: Publish) -> None:
        """Measure, and answer on the connection that was asked on."""
        if self._core.policy.follow:
            ping = payload_of(packet, Ping)
            self.stop()
            self._task = asyncio.create_task(self._answer(connection, ping))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _answer(self, connection: Connection, ping: Ping) -> None:
        measured = await round_trips_s(ping.brokers)
        if self._core.may_answer(connection.number):
            connection.write(pong_message(Pong(ping.token, measured)))


async def round_trips_s(
    brokers: Mapping[str, Place], rounds: int = ROUNDS, patience_s: float = PATIENCE_S
) -> dict[str, float]:
    """The shortest time in which a connection to each broker could be had; those to which none
    could are missing."""
    found: dict[str, float] = {}
    tasks = [
        asyncio.create_task(_measure(id, place, rounds, found)) for id, place in brokers.items()
    ]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)
    finally:
        for task in tasks:
            task.cancel()
    return {id: found[id] for id in brokers if id in found}


async def _measure(id: str, place: Place, rounds: int, found: dict[str, float]) -> None:
    """Measure one broker at the first of its addresses that answers."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, UnicodeError):
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            *place, type=socket.SOCK_STREAM
        ):
            with contextlib.suppress(OSError):
                for _ in range(rounds):
                    with socket.socket(family, kind, protocol) as one:
                        one.setblocking(False)
                        # Finer than the loop's own clock.
                        began_s = time.perf_counter()
                        await loop.sock_connect(one, address)
                        took_s = time.perf_counter() - began_s
                    found[id] = min(took_s, found.get(id, took_s))
            if id in found:
                return
