"""Stock MQTT 5 clients that write down what they do: publishers at QoS 1, and subscribers.

They connect to their own broker and to no other, again and again when the connection ends; they do
not follow moves, count nothing for the broker and keep no session. A publisher sends anew what was
not acknowledged when its connection ended, like any client that wants at-least-once.

Owns the packets of a client's life, and what of it goes into the ledger. Does not know brokers
beyond their ports, nor what is owed.

Invariants: a publication is in the ledger before it is written; an arrival, before it is
acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from gravitate.config.network import Address
from gravitate.errors import GravitateError
from gravitate.serve.node.status import Readiness
from gravitate.torture.asking import NoAnswer, ask
from gravitate.torture.ledger import (
    EXTRA,
    STEADY,
    Arrival,
    ClientSpec,
    Ledger,
    Presence,
    Publication,
)
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5, ReasonCode

TOPICS: Final = "torture"
KEEP_ALIVE_S: Final = 10
PING_EVERY_S: Final = 4.0
CONNECT_S_MAX: Final = 30.0
"""Longer than a broker is paused."""
RETRY_S: Final = 0.2
READ_BYTES: Final = 256 * 1024
WINDOW: Final = 200
"""Publications that a publisher has unacknowledged, at most."""
BURST_WINDOW: Final = 4_000
BURST_AT_ONCE: Final = 100
BURST_PER_S: Final = 10_000
"""Faster than any broker is used, slower than it could."""
LOOK_EVERY_S: Final = 0.1
PACKET_IDS: Final = 65_535

_HEAD: Final = struct.Struct(">I")
"""A payload begins with the number of its publication."""

Clock = Callable[[], float]


class _Ended(Exception):
    """The connection is over; the message says why."""


class _Connection:
    """Packets over one TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = PacketReader(V5)

    def send(self, *packets: p.Packet) -> None:
        self._writer.write(b"".join([encode(packet, V5) for packet in packets]))

    async def read(self) -> list[p.Packet]:
        """What comes next; raises `_Ended` when nothing will."""
        while True:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise _Ended("the end of the stream")
            packets = self._decoder.feed(data)
            if packets:
                return packets

    def close(self) -> None:
        self._writer.transport.abort()


class Client(ABC):
    """Lives until it is closed; `is_in` is set while its broker has it."""

    def __init__(self, spec: ClientSpec, address: Address, ledger: Ledger, clock: Clock) -> None:
        self.spec = spec
        self.is_in = asyncio.Event()
        self._address = address
        self._ledger = ledger
        self._clock = clock
        self._connection: _Connection | None = None
        self._goes = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._live(), name=self.spec.name)

    async def close(self) -> None:
        """Leave without a word; raises what ended it before."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def go_and_come_back(self) -> None:
        """End the connection, if there is one, and make another."""
        if self._connection is not None:
            self._goes = True
            self._connection.close()

    def leave(self) -> None:
        """Be closed without being waited for."""
        if self._task is not None:
            self._task.cancel()

    async def _live(self) -> None:
        while True:
            await self._live_once()
            await asyncio.sleep(RETRY_S)

    async def _live_once(self) -> None:
        try:
            reader, writer = await asyncio.open_connection(
                self._address.host, self._address.mqtt, limit=READ_BYTES
            )
        except OSError:
            return
        connection = _Connection(reader, writer)
        pings = asyncio.create_task(self._ping(connection))
        try:
            await self._speak(connection)
        except (OSError, TimeoutError, GravitateError, _Ended) as end:
            if self.is_in.is_set() and not self._goes:
                self._ledger.closed(self.spec.name, self._clock(), str(end) or type(end).__name__)
        finally:
            pings.cancel()
            connection.close()
            self._connection = None
            self._goes = False
            self.is_in.clear()
            self._left()

    async def _speak(self, connection: _Connection) -> None:
        """From CONNECT to the end, which raises."""
        connection.send(p.Connect(self.spec.name, keep_alive_s=KEEP_ALIVE_S))
        async with asyncio.timeout(CONNECT_S_MAX):
            (connack, *rest) = await connection.read()
        if not isinstance(connack, p.Connack) or connack.reason is not ReasonCode.SUCCESS:
            raise _Ended(f"CONNECT was answered with {connack}")
        self._connection = connection
        self._entered(connection)
        while True:
            for packet in rest:
                if isinstance(packet, p.Disconnect):
                    raise _Ended(f"DISCONNECT {packet.reason.name}")
            self._received(connection, rest)
            rest = await connection.read()

    async def _ping(self, connection: _Connection) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            if self._connection is connection:
                connection.send(p.Pingreq())

    @abstractmethod
    def _entered(self, connection: _Connection) -> None:
        """The broker has taken the client."""

    @abstractmethod
    def _received(self, connection: _Connection, packets: list[p.Packet]) -> None: ...

    @abstractmethod
    def _left(self) -> None:
        """The connection is over."""


class Publisher(Client):
    """Publishes when it is told to, or at a rate."""

    def __init__(self, spec: ClientSpec, address: Address, ledger: Ledger, clock: Clock) -> None:
        super().__init__(spec, address, ledger, clock)
        self._connections = 0
        self._last_id = 0
        self._unacknowledged: dict[int, tuple[Publication, int]] = {}
        """By packet id, in the order they were sent: a publication and the size of its payload."""
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def publish(self, lane: str, payload_bytes: int, window: int = WINDOW) -> None:
        """Send one publication as soon as there is a connection with room for it."""
        while self._connection is None or len(self._unacknowledged) >= window:
            await self.is_in.wait()
            if len(self._unacknowledged) >= window:
                self._has_room.clear()
                await self._has_room.wait()
        publication = self._ledger.published(self.spec.name, lane, self._connections, self._clock())
        self._send(self._connection, publication, payload_bytes)

    async def publish_steadily(self, per_s: float, payload_bytes: int) -> None:
        """At a rate, until cancelled; what could not be sent in time is not made up for."""
        due = self._clock()
        count = 0
        while True:
            await asyncio.sleep(max(0.0, due - self._clock()))
            await self.publish(STEADY[count % len(STEADY)], payload_bytes)
            count += 1
            due = max(due + 1 / per_s, self._clock() - 1 / per_s)

    async def publish_burst(self, events: int, payload_bytes: int) -> None:
        """As fast as the broker takes it, but for what others on this machine need."""
        began = self._clock()
        for count in range(events):
            await self.publish(EXTRA, payload_bytes, BURST_WINDOW)
            if count % BURST_AT_ONCE == 0:
                await asyncio.sleep(max(0.0, began + count / BURST_PER_S - self._clock()))

    @property
    def unacknowledged(self) -> int:
        return len(self._unacknowledged)

    def _send(self, connection: _Connection, publication: Publication, payload_bytes: int) -> None:
        id = self._next_id()
        self._unacknowledged[id] = (publication, payload_bytes)
        payload = _HEAD.pack(publication.number).ljust(payload_bytes, b".")
        topic = f"{TOPICS}/{self.spec.name}/{publication.lane}"
        connection.send(p.Publish(topic, payload, 1, id))

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % PACKET_IDS + 1
            if self._last_id not in self._unacknowledged:
                return self._last_id

    def _entered(self, connection: _Connection) -> None:
        self._connections += 1
        former, self._unacknowledged = self._unacknowledged, {}
        for publication, payload_bytes in former.values():
            self._ledger.sent_anew(publication, self._connections, self._clock())
            self._send(connection, publication, payload_bytes)
        self.is_in.set()

    def _received(self, connection: _Connection, packets: list[p.Packet]) -> None:
        now = self._clock()
        for packet in packets:
            if isinstance(packet, p.Puback):
                if packet.packet_id not in self._unacknowledged:
                    raise _Ended(f"{packet} acknowledges what was not sent")
                publication, _ = self._unacknowledged.pop(packet.packet_id)
                if packet.reason < ReasonCode.UNSPECIFIED_ERROR:
                    self._ledger.acknowledged(publication, now)
                else:
                    self._ledger.refused += 1
        self._has_room.set()

    def _left(self) -> None:
        """What is not acknowledged is kept."""


class Subscriber(Client):
    """Subscribes, acknowledges what comes, and asks its broker when it is ready."""

    def __init__(self, spec: ClientSpec, address: Address, ledger: Ledger, clock: Clock) -> None:
        super().__init__(spec, address, ledger, clock)
        self._presence: Presence | None = None
        self._looking: asyncio.Task[None] | None = None

    def _entered(self, connection: _Connection) -> None:
        self._presence = self._ledger.entered(self.spec.name)
        wanted = tuple(p.TopicRequest(f"{TOPICS}/+/{lane}", 1) for lane in self.spec.lanes)
        connection.send(p.Subscribe(1, wanted))

    def _received(self, connection: _Connection, packets: list[p.Packet]) -> None:
        answers: list[p.Packet] = []
        now = self._clock()
        for packet in packets:
            if isinstance(packet, p.Publish):
                self._arrived(packet, now)
                answers.append(p.Puback(packet.packet_id))
            elif isinstance(packet, p.Suback):
                self._subscribed(packet, now)
        if answers:
            connection.send(*answers)

    def _subscribed(self, suback: p.Suback, now: float) -> None:
        if any(reason >= ReasonCode.UNSPECIFIED_ERROR for reason in suback.reasons):
            raise _Ended(f"SUBSCRIBE was answered with {suback}")
        assert self._presence is not None
        self._presence.subscribed_at = now
        self._looking = asyncio.create_task(self._look(self._presence))
        self.is_in.set()

    def _arrived(self, packet: p.Publish, now: float) -> None:
        assert self._presence is not None
        publisher = packet.topic.split("/", 2)[1]
        (number,) = _HEAD.unpack_from(packet.payload)
        self._presence.arrivals.append(Arrival(publisher, number, now))

    async def _look(self, presence: Presence) -> None:
        """Note when the broker is ready, all its links included."""
        while True:
            with contextlib.suppress(NoAnswer):
                status, told = await ask(self._address, "/ready", Readiness)
                if status == 200 and not told.down:
                    presence.ready_at = self._clock()
                    return
            await asyncio.sleep(LOOK_EVERY_S)

    def _left(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._presence is not None:
            self._presence.ended_at = self._clock()
            self._presence = None
