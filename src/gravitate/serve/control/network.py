"""From a network file to running nodes: all in this process.

Owns how a `Network` becomes nodes with their doors, and free loopback ports for tests and demos.
Does not know processes (`processes` runs nodes in several) nor what clients do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

import msgspec
from starlette.routing import Route

from gravitate.adapt.catalogue import mechanisms
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions
from gravitate.config.distances import distances_ms
from gravitate.config.network import Address, BrokerSpec, Network
from gravitate.errors import InputError
from gravitate.serve.http.client_pages import client_pages
from gravitate.serve.http.move_pages import MovePages
from gravitate.serve.http.pages import readiness_page, serve_pages
from gravitate.serve.http.restart_page import restart_page
from gravitate.serve.mqtt import DoorOptions, serve_mqtt
from gravitate.serve.node.node import Node
from gravitate.serve.peers.links import Neighbour
from gravitate.serve.ports import free_ports

ObserverFactory = Callable[[str], Iterable[Observer]]
"""The observers of the broker with this id."""


CounterSource = Callable[[], Mapping[str, int]]
"""What a status tells beside what the node counts itself."""


def no_observers(broker_id: str) -> Iterable[Observer]:
    return ()


def no_counters() -> Mapping[str, int]:
    return {}


def broker_spec(network: Network, broker_id: str) -> BrokerSpec:
    for spec in network.brokers:
        if spec.id == broker_id:
            return spec
    known = ", ".join(spec.id for spec in network.brokers)
    raise InputError(f"network {network.name!r} has no broker {broker_id!r}; it has {known}")


def neighbours_of(
    network: Network, broker_id: str, emulate_latency: bool = False
) -> dict[str, Neighbour]:
    """The links of one broker as its node needs them."""
    addresses = {spec.id: spec.address for spec in network.brokers}
    neighbours = {}
    for link in network.links:
        if broker_id in link.between:
            dialler, other = link.between
            peer = other if dialler == broker_id else dialler
            neighbours[peer] = Neighbour(
                peer,
                addresses[peer].host,
                addresses[peer].peer,
                dialler == broker_id,
                link.latency_ms / 1000 if emulate_latency else 0.0,
            )
    return neighbours


def others_of(
    network: Network, broker_id: str, emulate_latency: bool = False
) -> dict[str, Neighbour]:
    """The brokers that are no neighbours of this one; of two, the smaller id dials."""
    neighbours = neighbours_of(network, broker_id)
    latencies_ms = distances_ms(network, broker_id) if emulate_latency else {}
    listens = {spec.id for spec in network.brokers if spec.address.peer}
    return {
        spec.id: Neighbour(
            spec.id,
            spec.address.host,
            spec.address.peer,
            broker_id < spec.id,
            latencies_ms.get(spec.id, 0.0) / 1000,
            max(broker_id, spec.id) in listens,
        )
        for spec in network.brokers
        if spec.id != broker_id and spec.id not in neighbours
    }


async def start_node(
    network: Network,
    broker_id: str,
    *,
    emulate_latency: bool = False,
    observers: Iterable[Observer] = (),
    counters: CounterSource = no_counters,
    options: BrokerOptions | None = None,
    restart: Callable[[], None] | None = None,
) -> Node:
    """One broker of the network with every door its address names.

    `restart` ends what runs it so that it is started again; None: nobody would."""
    spec = broker_spec(network, broker_id)
    options = msgspec.structs.replace(options or network.options, network=network.name)
    neighbours = neighbours_of(network, broker_id, emulate_latency)
    mqtt_addresses = {
        spec.id: (spec.address.host, spec.address.mqtt)
        for spec in network.brokers
        if spec.address.mqtt
    }
    node = Node(
        broker_id,
        neighbours,
        options,
        observers,
        network.routing,
        network.forwarding,
        mqtt_addresses=mqtt_addresses,
        others=others_of(network, broker_id, emulate_latency),
        mechanisms=mechanisms(network.mechanisms),
        tree=network.topology(),
    )
    node.counted.append(counters)
    address = spec.address
    try:
        if address.peer:
            await node.links.listen(address.host, address.peer)
        if address.mqtt:
            door = await serve_mqtt(
                node,
                address.host,
                address.mqtt,
                payload_fields=spec.payload_fields,
                doorkeeper=node.doorkeeper,
                options=DoorOptions(**msgspec.structs.asdict(spec.mqtt)),
            )
            node.doors.append(door)
            node.counted.append(door.counters)
        if address.http:
            moves = MovePages(
                network, broker_id, node.moves, node.submit, node.now, node.reconnects
            )
            node.doors.append(
                await serve_pages(
                    node.status,
                    address.host,
                    address.http,
                    [
                        Route("/ready", readiness_page(node.readiness)),
                        Route(
                            "/restart",
                            restart_page(broker_id, node.incarnation, restart),
                            methods=["POST"],
                        ),
                        Route("/clients", client_pages(broker_id, node.attached)),
                        Route("/subscribers", client_pages(broker_id, node.served)),
                        *moves.routes(),
                    ],
                    node.doorkeeper,
                )
            )
    except OSError as error:
        await node.close()
        raise InputError(
            f"broker {broker_id!r} cannot listen: {error}; ports are in the network file"
        ) from error
    node.start()
    return node


class LiveNetwork:
    """The brokers of a network that run in this process; an async context manager."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: dict[str, Node] = {}

    async def stop(self) -> None:
        """Stop every broker in order; all at once, so that links can be emptied."""
        nodes, self.nodes = self.nodes, {}
        await asyncio.gather(*(node.stop() for node in nodes.values()))

    async def close(self) -> None:
        """Let go of every socket at once, whatever is under way."""
        nodes, self.nodes = self.nodes, {}
        await asyncio.gather(*(node.close() for node in nodes.values()))

    async def wait(self) -> None:
        """Until all nodes have stopped; raises as soon as one has failed."""
        await asyncio.gather(*(node.wait() for node in self.nodes.values()))

    async def __aenter__(self) -> LiveNetwork:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.stop()
        else:
            # Whoever was interrupted does not wait until links are emptied.
            await self.close()


async def up(
    network: Network,
    *,
    brokers: Sequence[str] | None = None,
    emulate_latency: bool = False,
    observers: ObserverFactory = no_observers,
    counters: CounterSource = no_counters,
    options: BrokerOptions | None = None,
    restart: Callable[[], None] | None = None,
) -> LiveNetwork:
    """Start the brokers of the network here, or those named; `restart` as in `start_node`."""
    live = LiveNetwork(network)
    try:
        for broker_id in brokers or [spec.id for spec in network.brokers]:
            live.nodes[broker_id] = await start_node(
                network,
                broker_id,
                emulate_latency=emulate_latency,
                observers=observers(broker_id),
                counters=counters,
                options=options,
                restart=restart,
            )
    except BaseException:
        await live.stop()
        raise
    return live


# --- ports --------------------------------------------------------------------------------------


def on_free_ports(
    network: Network, doors: Sequence[str] = ("mqtt", "peer", "http"), host: str = "127.0.0.1"
) -> Network:
    """The same network on loopback, each broker offering `doors` on ports that are free."""
    ports = iter(free_ports(len(doors) * len(network.brokers), host))
    brokers = tuple(
        msgspec.structs.replace(
            spec, address=Address(host=host, **{door: next(ports) for door in doors})
        )
        for spec in network.brokers
    )
    return msgspec.structs.replace(network, brokers=brokers)
