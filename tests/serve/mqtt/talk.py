"""Clients that speak packets to a door, and what stands behind the door: a node, or a recorder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from gravitate.broker.interface.inputs import ClientDisconnected, ClientPublished, Input
from gravitate.serve.mqtt import DoorOptions, MqttDoor, serve_mqtt
from gravitate.serve.mqtt.connection import Connection
from gravitate.serve.node.node import Node
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.properties import Properties, Property

DEADLINE_S = 10.0
Kind = TypeVar("Kind")


def on_loop(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine on uvloop within bounded time."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await body()

    uvloop.run(bounded())


class Recorder:
    """Stands in for a node: keeps what was submitted and does nothing about it."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.attached: dict[str, Connection] = {}
        """The last connection of each client."""
        self.sessions: list[str] = []
        """Clients by the numbers of their connections."""
        self.incarnation = 100
        self.mqtt_addresses: dict[str, tuple[str, int]] = {}
        self._news = asyncio.Event()

    def submit(self, input: Input) -> None:
        self.inputs.append(input)
        self._news.set()

    def hurry(self, tick: float) -> None:
        """There is nothing to do sooner."""

    def attach(self, client: Connection) -> int:
        self.attached[client.session] = client
        self.sessions.append(client.session)
        return len(self.sessions)

    def detach(self, connection: int) -> None:
        if self.sessions[connection - 1] not in self.sessions[connection:]:
            del self.attached[self.sessions[connection - 1]]

    def session_of(self, input: ClientPublished | ClientDisconnected) -> str:
        return self.sessions[input.connection - 1]

    def next_incarnation(self) -> int:
        self.incarnation += 1
        return self.incarnation

    def client_failed(self, client: Connection, error: Exception) -> None:
        raise error

    async def get(self, kind: type[Kind]) -> Kind:
        """The next input of a kind, whatever else was submitted before it."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                while self.inputs:
                    one = self.inputs.pop(0)
                    if isinstance(one, kind):
                        return one
                self._news.clear()
                await self._news.wait()


class Raw:
    """A client that sends and receives single packets or plain bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.version = V5
        self._packets: list[p.Packet] = []
        self._decoder = PacketReader()

    @classmethod
    async def dial(cls, door: MqttDoor) -> Raw:
        return cls(*await asyncio.open_connection("127.0.0.1", door.port))

    @classmethod
    async def connected(cls, door: MqttDoor, client_id: str = "c", **options: Any) -> Raw:
        raw = await cls.dial(door)
        connack = await raw.connect(client_id, **options)
        assert connack.reason == 0, connack
        return raw

    async def connect(self, client_id: str = "c", **options: Any) -> p.Connack:
        connect = p.Connect(client_id, **options)
        self.version = connect.version
        self._decoder = PacketReader(connect.version)
        self.send(connect)
        return await self.get(p.Connack)

    def send(self, *packets: p.Packet) -> None:
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def next(self) -> p.Packet | None:
        """The next packet; None at the end of the stream."""
        async with asyncio.timeout(DEADLINE_S):
            while not self._packets:
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._packets += self._decoder.feed(data)
        return self._packets.pop(0)

    async def get(self, kind: type[Kind]) -> Kind:
        packet = await self.next()
        assert isinstance(packet, kind), f"expected {kind.__name__}, got {packet}"
        return packet

    async def ended(self) -> bool:
        return await self.next() is None

    async def subscribe(self, *topic_filters: str, qos: int = 1, **told: Any) -> p.Suback:
        requests = tuple(p.TopicRequest(one, qos) for one in topic_filters)
        self.send(p.Subscribe(1, requests, where(**told)))
        return await self.get(p.Suback)

    async def publish(self, topic: str, payload: bytes, number: int = 1, **told: str) -> None:
        """Publish at QoS 1 and wait for the acknowledgement."""
        pairs = tuple(told.items())
        properties: Properties = {Property.USER_PROPERTY: pairs} if pairs else {}
        self.send(p.Publish(topic, payload, 1, number, properties=properties))
        others: list[p.Packet] = []
        while not isinstance(packet := await self.next(), p.Puback):
            assert packet is not None, "the connection ended before the acknowledgement"
            others.append(packet)
        self._packets[:0] = others
        assert packet.packet_id == number

    def close(self) -> None:
        self.writer.close()


def where(condition: str | None = None) -> Properties:
    return {} if condition is None else {Property.USER_PROPERTY: (("$where", condition),)}


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[MqttDoor]:
    """A door with a node behind it."""
    node = Node("b1", {})
    door = await serve_mqtt(
        node,
        "127.0.0.1",
        0,
        payload_fields=options.pop("payload_fields", True),
        options=DoorOptions(**options),
    )
    node.doors.append(door)
    node.start()
    try:
        yield door
    finally:
        await node.close()
    assert node.failure is None


@contextlib.asynccontextmanager
async def recording(**options: Any) -> AsyncIterator[tuple[MqttDoor, Recorder]]:
    """A door with nobody behind it who would answer."""
    recorder = Recorder()
    door = await serve_mqtt(recorder, "127.0.0.1", 0, options=DoorOptions(**options))
    try:
        yield door, recorder
    finally:
        await door.close()
