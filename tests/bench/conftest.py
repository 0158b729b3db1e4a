"""The least that a load generator takes for a broker: every PUBLISH goes to every subscriber."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from gravitate.bench import load_frames as frames


class EchoConnection(asyncio.Protocol):
    """One client of the echo broker; `spoil` may change, drop or double what is delivered."""

    def __init__(
        self, subscribers: list[EchoConnection], spoil: Callable[[bytes], list[bytes]]
    ) -> None:
        self.subscribers = subscribers
        self.spoil = spoil
        self.held = b""
        self.acknowledged: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.subscribers:
            self.subscribers.remove(self)

    def data_received(self, data: bytes) -> None:
        self.held += data
        while (size := frames.packet_size(self.held)) is not None and len(self.held) >= size:
            packet, self.held = self.held[:size], self.held[size:]
            self.received(packet)

    def received(self, packet: bytes) -> None:
        kind = packet[0] & 0xF0
        if kind == 0x10:
            self.transport.write(b"\x20\x03\x00\x00\x00")
        elif kind == 0x80:
            self.subscribers.append(self)
            self.transport.write(b"\x90\x04\x00\x01\x00" + packet[-1:])
        elif kind == frames.PUBACK:
            self.acknowledged.append(int.from_bytes(packet[2:4], "big"))
        elif kind == frames.PUBLISH:
            if packet[0] & 2:
                at = frames.packet_id_offset(packet)
                self.transport.write(b"\x40\x02" + packet[at : at + 2])
            for subscriber in self.subscribers:
                subscriber.transport.write(b"".join(self.spoil(packet)))


class EchoBroker:
    """Where it listens, and every connection it has had."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: list[EchoConnection] = []


@contextmanager
def _echo_broker(
    spoil: Callable[[bytes], list[bytes]] = lambda packet: [packet],
) -> Iterator[EchoBroker]:
    """A broker on a thread of its own, on a free loopback port."""
    broker = EchoBroker()
    subscribers: list[EchoConnection] = []
    loop = asyncio.new_event_loop()

    def connection() -> EchoConnection:
        broker.connections.append(EchoConnection(subscribers, spoil))
        return broker.connections[-1]

    server = loop.run_until_complete(loop.create_server(connection, "127.0.0.1", 0))
    broker.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield broker
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


@pytest.fixture
def echo_broker() -> Callable[..., AbstractContextManager[EchoBroker]]:
    """Starts echo brokers."""
    return _echo_broker
