"""A laboratory for nodes: small networks on loopback, clients without MQTT, raw peers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
import uvloop

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.inputs import (
    ClientAcknowledged,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
)
from gravitate.broker.messages.frames import Frame, Hello
from gravitate.broker.options import BrokerOptions
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.model.events import Event
from gravitate.model.filters import EVERYTHING, Filter
from gravitate.serve.control.network import on_free_ports, start_node
from gravitate.serve.node.node import Node
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.peers import FrameDecoder, encode

DEADLINE_S = 10.0


async def eventually(condition: Callable[[], Any], what: str = "") -> None:
    """Wait until the condition holds; fail with `what` when it does not in time."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            while not condition():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            raise AssertionError(f"not in {DEADLINE_S} s: {what or condition}") from None


class Client:
    """A client attached to a node directly; acknowledges what it gets unless told not to."""

    def __init__(self, node: Node, session: str, acknowledges: bool = True) -> None:
        self.node = node
        self.session = session
        self.origin = session
        self.acknowledges = acknowledges
        self.received: list[tuple[str, int]] = []
        self.payloads: list[bytes] = []
        self.covered: list[tuple[str, ...]] = []
        self.accepted = 0
        self.settled: list[str] = []
        self.held = False
        self.closed = ""
        self.flushes = 0
        self.number = node.attach(self)
        node.submit(ClientConnected(self.number, session, node.next_incarnation()))

    def subscribe(self, filter: Filter = EVERYTHING, name: str = "s", qos: int = 1) -> None:
        self.node.submit(ClientSubscribed(self.number, name, filter, qos))

    def publish(self, *payloads: bytes, qos: int = 1, **attributes: str) -> None:
        events = [Event({"topic": "t", **attributes}, payload) for payload in payloads]
        bodies = FrameBodies.from_events(events, qos=qos)
        self.node.submit(ClientPublished(self.number, bodies, qos))

    def deliver(self, effect: e.Deliver) -> None:
        batch = effect.batch
        assert isinstance(batch.bodies, FrameBodies)
        self.received += [(batch.publisher, counter) for counter in batch.counters]
        self.payloads += [bytes(payload) for payload in batch.bodies.payloads()]
        self.covered.append(batch.covered)
        if effect.qos and self.acknowledges:
            self.node.submit(ClientAcknowledged(self.number, effect.sequence + len(batch) - 1))

    def accept(self, count: int) -> None:
        self.accepted += count

    def tell(self, word: e.Word) -> None:
        """It neither follows nor measures."""
        match word:
            case e.SubscriptionSettled(name) | e.AdvertisementSettled(name):
                self.settled.append(name)
            case e.HoldReading(hold):
                self.held = hold
            case e.CloseSession(reason):
                self.closed = reason

    def fail(self) -> None:
        self.abort()
        self.closed = "failed"

    def abort(self) -> None:
        self.closed = "aborted"
        self.node.submit(ClientDisconnected(self.number))
        self.node.detach(self.number)

    def flush(self) -> None:
        self.flushes += 1


class RawPeer:
    """Somebody who speaks frames to a node's peer port, well or badly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.decoder = FrameDecoder()
        self.frames: list[Frame] = []

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            self.writer.write(b"".join(encode(frame)))

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> Frame | None:
        """The next frame; None at the end of the stream."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.frames:
                data = await self.reader.read(65536)
                if not data:
                    return None
                self.frames += self.decoder.feed(data)
        return self.frames.pop(0)

    async def receive_only(self, kind: type) -> Any:
        """The next frame of a kind, whatever comes before it."""
        while True:
            frame = await self.receive()
            assert frame is not None, f"the stream ended without a {kind.__name__}"
            if isinstance(frame, kind):
                return frame

    def close(self) -> None:
        self.writer.close()


class Lab:
    """What a test needs to set up a network and look at it."""

    Client = Client
    eventually = staticmethod(eventually)

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def chain(self, count: int, latency_ms: float = 0.0, name: str = "lab") -> Network:
        """Brokers b1 - b2 - ... on free ports; each dials the next."""
        ids = [f"b{number}" for number in range(1, count + 1)]
        network = Network(
            name,
            tuple(BrokerSpec(id) for id in ids),
            tuple(LinkSpec(pair, latency_ms) for pair in pairwise(ids)),
        )
        return on_free_ports(network, ("peer",))

    async def start(self, network: Network, *ids: str, **settings: Any) -> list[Node]:
        """Start the brokers named, or all, and wait for the links between them."""
        chosen = ids or tuple(spec.id for spec in network.brokers)
        options = settings.pop("options", BrokerOptions(retry_s_min=0.01, retry_s_max=0.05))
        for id in chosen:
            self.nodes[id] = await start_node(network, id, options=options, **settings)
        for link in network.links:
            one, other = link.between
            if one in self.nodes and other in self.nodes:
                await self.linked(one, other)
        return [self.nodes[id] for id in chosen]

    async def linked(self, one: str, other: str) -> None:
        def both() -> bool:
            return self.link_is_up(one, other) and self.link_is_up(other, one)

        await eventually(both, f"link {one} - {other}")

    def link_is_up(self, one: str, other: str) -> bool:
        return any(
            link.peer == other and link.state == "up" for link in self.nodes[one].status().links
        )

    async def subscriber(self, node: Node, session: str, *filters: Filter, **kind: Any) -> Client:
        """A client whose subscriptions (one for each filter, or one for everything) settled."""
        client = Client(node, session, **kind)
        for number, filter in enumerate(filters or (EVERYTHING,)):
            client.subscribe(filter, name=f"s{number}")
        await eventually(lambda: len(client.settled) == (len(filters) or 1), "settled")
        return client

    async def raw_peer(self, network: Network, id: str) -> RawPeer:
        (address,) = [spec.address for spec in network.brokers if spec.id == id]
        return RawPeer(*await asyncio.open_connection(address.host, address.peer))

    def hello(self, of: Network, broker: str, **changes: Any) -> Hello:
        said: dict[str, Any] = {
            "network": of.name,
            "broker": broker,
            "incarnation": 7,
            "remembers": 0,
            "received": 0,
        }
        return Hello(**(said | changes))

    async def close(self) -> None:
        await asyncio.gather(*(node.close() for node in self.nodes.values()))


@contextlib.asynccontextmanager
async def _opened() -> AsyncIterator[Lab]:
    lab = Lab()
    try:
        yield lab
    finally:
        await lab.close()


@pytest.fixture
def run() -> Callable[[Callable[[Lab], Coroutine[Any, Any, None]]], None]:
    """Run a test's coroutine with a laboratory of its own, on uvloop, within bounded time."""

    def runner(body: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), _opened() as lab:
                await body(lab)

        uvloop.run(main())

    return runner
