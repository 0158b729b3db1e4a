"""A laboratory for relocations: brokers, publishers and subscribers on loopback sockets in this
process, and moves asked for over HTTP, as operators do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count, pairwise
from typing import Any

import msgspec

from gravitate.broker.options import BrokerOptions
from gravitate.client import Client, Message
from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network
from gravitate.serve.control.network import LiveNetwork, on_free_ports, up
from gravitate.serve.mqtt import MqttDoor
from gravitate.serve.node.moves import MoveRecord


@contextlib.asynccontextmanager
async def live(
    *ids: str,
    mechanisms: dict[str, dict[str, Any]] | None = None,
    without: dict[str, str] | None = None,
    latency_ms: float = 0.0,
    **options: Any,
) -> AsyncIterator[LiveNetwork]:
    """A chain of brokers; `without` names a kind of port that a broker does not have. One without
    a port for peers dials its neighbours."""
    without = without or {}
    links = [pair if without.get(pair[1]) != "peer" else pair[::-1] for pair in pairwise(ids)]
    network = on_free_ports(
        Network(
            "moving",
            tuple(BrokerSpec(id) for id in ids),
            tuple(LinkSpec(pair, latency_ms) for pair in links),
            mechanisms=mechanisms or {},
        )
    )
    lacking = (
        msgspec.structs.replace(
            spec, address=msgspec.structs.replace(spec.address, **{without[spec.id]: 0})
        )
        if spec.id in without
        else spec
        for spec in network.brokers
    )
    network = msgspec.structs.replace(network, brokers=tuple(lacking))
    told = BrokerOptions(retry_s_min=0.01, retry_s_max=0.05, **options)
    async with await up(network, emulate_latency=latency_ms > 0, options=told) as running:
        yield running
        assert all(node.failure is None for node in running.nodes.values())


def address_of(running: LiveNetwork, broker: str) -> Address:
    (address,) = (spec.address for spec in running.network.brokers if spec.id == broker)
    return address


def door_of(running: LiveNetwork, broker: str) -> MqttDoor:
    (door,) = (door for door in running.nodes[broker].doors if isinstance(door, MqttDoor))
    return door


def client(running: LiveNetwork, broker: str, id: str, **options: Any) -> Client:
    (address,) = (spec.address for spec in running.network.brokers if spec.id == broker)
    return Client(address.host, address.mqtt, id, retry_s_min=0.01, retry_s_max=0.05, **options)


def at(running: LiveNetwork, broker: str, one: Client) -> bool:
    """Whether the client is connected there."""
    return one.port == address_of(running, broker).mqtt


async def asked(
    port: int, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
) -> tuple[int, Any]:
    """Status and content of a node's answer over HTTP."""
    async with asyncio.timeout(50):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Content-Type: {content_type}\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
    head, _, page = answer.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), msgspec.json.decode(page)


_ids = count(1)


async def relocated(running: LiveNetwork, publisher: str, source: str, target: str) -> MoveRecord:
    """How asking the source for the move of a publisher ended."""
    about = {"type": "relocate-publisher", "publisher": publisher}
    return await _moved(running, about, source, target)


async def reassigned(running: LiveNetwork, subscriber: str, source: str, target: str) -> MoveRecord:
    """How asking the source for the move of a subscriber ended."""
    about = {"type": "reassign-subscriber", "subscriber": subscriber}
    return await _moved(running, about, source, target)


async def _moved(
    running: LiveNetwork, about: dict[str, str], source: str, target: str
) -> MoveRecord:
    address = address_of(running, source)
    move = {
        **about,
        "id": f"move-{next(_ids)}",
        "source": source,
        "target": target,
        "why": {"reason": "a test"},
    }
    status, page = await asked(address.http, "POST", "/moves", msgspec.json.encode(move))
    assert status == 200, page
    return msgspec.convert(page, MoveRecord)


class Audience:
    """Subscribers that write down what they get."""

    def __init__(self) -> None:
        self.received: dict[str, list[int]] = {}
        self._clients: list[Client] = []

    async def join(self, running: LiveNetwork, broker: str, where: str | None = None) -> None:
        got = self.received[broker] = []

        def note(message: Message) -> None:
            got.append(int(message.payload))

        one = client(running, broker, f"subscriber-{broker}")
        await one.connect()
        self._clients.append(one)
        subscription = await one.subscribe("t/#", where, qos=1, on_message=note)
        await subscription.settled()

    async def has_all(self, published: int) -> None:
        async with asyncio.timeout(20):
            while any(len(got) < published for got in self.received.values()):
                await asyncio.sleep(0.002)
        for broker, got in self.received.items():
            assert got == list(range(published)), f"at {broker}"

    async def leave(self) -> None:
        await asyncio.gather(*(one.close() for one in self._clients))


@contextlib.asynccontextmanager
async def audience(running: LiveNetwork, *brokers: str) -> AsyncIterator[Audience]:
    everybody = Audience()
    try:
        for broker in brokers:
            await everybody.join(running, broker)
        yield everybody
    finally:
        await everybody.leave()


class Speaker:
    """Publishes at a rate until it is told to stop, QoS 0 and 1 mixed or one of them."""

    def __init__(
        self,
        publisher: Client,
        rate_per_s: float,
        qos: tuple[int, ...] = (0, 1),
        topic: str = "t/x",
    ) -> None:
        self.published = 0
        self._topic = topic
        self._publisher = publisher
        self._rate_per_s = rate_per_s
        self._qos = qos
        self._stopping = False
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._silent = asyncio.Event()
        self._task = asyncio.create_task(self._speak())

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        waiting: list[asyncio.Future[Any]] = []
        while not self._stopping:
            if not self._speaks.is_set():
                self._silent.set()
                await self._speaks.wait()
            await asyncio.sleep(max(0.0, began_s + self.published / self._rate_per_s - loop.time()))
            qos = self._qos[self.published % len(self._qos)]
            await self._publisher._sendable(qos)
            outcome = self._publisher.publish_nowait(self._topic, b"%d" % self.published, qos=qos)
            self.published += 1
            if qos:
                waiting.append(outcome)
        await asyncio.gather(*waiting)

    async def pause(self) -> None:
        """Until it says nothing more."""
        self._silent.clear()
        self._speaks.clear()
        await self._silent.wait()

    def go_on(self) -> None:
        self._speaks.set()

    async def reaches(self, number: int) -> None:
        """Until so many more have been published."""
        wanted = self.published + number
        while self.published < wanted and not self._task.done():
            await asyncio.sleep(0.002)

    async def stop(self) -> int:
        self._stopping = True
        await self._task
        return self.published


def break_connection(running: LiveNetwork, broker: str, session: str) -> None:
    for connection in list(door_of(running, broker).connections):
        if connection.session == session:
            connection._transport.abort()
