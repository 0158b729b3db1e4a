"""The flow model: what events do to a tree of brokers, computed instead of simulated.

    tree = rooted(3, [(0, 1), (1, 2)], latency_s=[0.01, 0.02])
    loads, reached = flow(tree, flows)

A *flow* is a number of equal events: one source broker, and the brokers where sessions want them.
Each event spreads over its *delivery tree*; the model adds up what brokers and links carry and
says for each target how many links away and how late it is. Time and memory for a flow grow with
its delivery tree, not with the network.

Delays are those of an event that meets no other: along each link

    latency + (size + FRAME_BYTES) / bandwidth + service time of the broker it comes to,

counted from the moment when the first broker took it in (so the first broker's own service time
is not part of it). There is no queueing here: at high load a world is slower than its model.

Owns the tree as arrays, flows, and the strategies by name. It knows brokers and links by number
alone, and neither matching nor where flows come from. Counts are doubles: they may be rates, and
as counts they are exact to 2**53.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.errors import InputError
from gravitate.overlay.strategies import S0, Forwarding
from gravitate.plan.flow import flow_kernels as kernels

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

FRAME_BYTES: Final = 128
"""What the frame of a single event weighs beside the event, where bandwidth is limited."""


class Tree(msgspec.Struct, frozen=True, eq=False):
    """Brokers 0 to n - 1 as a rooted tree; link i is the one from broker i to its parent."""

    parent: Ints
    """-1 at the root."""
    depth: Ints
    latency_s: Floats
    """Of link i, one way."""
    bandwidth_bytes_per_s: Floats
    """Of link i, each way; 0: unlimited."""
    service_s: Floats
    """How long broker i is busy with a lone event."""

    def __len__(self) -> int:
        return len(self.parent)


def rooted(
    brokers: int,
    links: Sequence[tuple[int, int]],
    latency_s: ArrayLike = 0.0,
    bandwidth_bytes_per_s: ArrayLike = 0.0,
    service_s: ArrayLike = 0.0,
) -> Tree:
    """The tree that `links` make of the brokers, rooted at broker 0.

    Latencies and bandwidths are in the order of `links`, service times in that of brokers."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(brokers)]
    for number, (one, other) in enumerate(links):
        near[one].append((other, number))
        near[other].append((one, number))
    parent = np.full(brokers, -1, dtype=np.int32)
    depth = np.zeros(brokers, dtype=np.int32)
    link_of = np.full(brokers, -1, dtype=np.int64)
    order = [0]
    for broker in order:
        for other, number in near[broker]:
            if number != link_of[broker]:
                parent[other], depth[other], link_of[other] = broker, depth[broker] + 1, number
                order.append(other)
        if len(order) > brokers:
            break
    if len(links) != brokers - 1 or len(order) != brokers or len(set(order)) != brokers:
        raise InputError(f"{len(links)} links do not make a tree of {brokers} brokers")

    def by_child(values: ArrayLike) -> Floats:
        given = np.broadcast_to(np.asarray(values, dtype=np.float64), len(links))
        found = np.zeros(brokers)
        found[link_of >= 0] = given[link_of[link_of >= 0]]
        return found

    return Tree(
        parent=parent,
        depth=depth,
        latency_s=by_child(latency_s),
        bandwidth_bytes_per_s=by_child(bandwidth_bytes_per_s),
        service_s=np.broadcast_to(np.asarray(service_s, dtype=np.float64), brokers).copy(),
    )


class Flows(msgspec.Struct, frozen=True, eq=False):
    """Flow k has its targets at `first[k]` to `first[k + 1]` (not included), each broker once."""

    source: Ints
    first: NDArray[np.int64]
    target: Ints
    sessions: Floats
    """How many sessions at the target want the events; with 0 it gets them in vain."""
    events: Floats
    """How many events, or how many a second."""
    size_bytes: Floats
    """What one of them weighs on a link."""

    def __len__(self) -> int:
        return len(self.source)

    def deliveries(self) -> Floats:
        """For each target the deliveries there."""
        found: Floats = self.sessions * np.repeat(self.events, np.diff(self.first))
        return found


def flows_of(
    source: ArrayLike,
    first: ArrayLike,
    target: ArrayLike,
    sessions: ArrayLike = 1.0,
    events: ArrayLike = 1.0,
    size_bytes: ArrayLike = 0.0,
) -> Flows:
    """Flows from anything that reads as arrays; a single number serves for all."""
    sources = np.ascontiguousarray(source, dtype=np.int32)
    targets = np.ascontiguousarray(target, dtype=np.int32)

    def spread(values: ArrayLike, count: int) -> Floats:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float64), count))

    return Flows(
        source=sources,
        first=np.ascontiguousarray(first, dtype=np.int64),
        target=targets,
        sessions=spread(sessions, len(targets)),
        events=spread(events, len(sources)),
        size_bytes=spread(size_bytes, len(sources)),
    )


COUNTERS: Final = (
    "in_links",
    "in_clients",
    "out_links",
    "out_clients",
    "useful",
    "events_up",
    "events_down",
    "bytes_up",
    "bytes_down",
)
"""What is counted for each broker, and for its link to and from its parent."""


class Loads(msgspec.Struct, frozen=True, eq=False):
    """What brokers and links carry; loads of parts add up."""

    counts: Floats
    """A row for each of `COUNTERS`, a column for each broker."""

    @classmethod
    def none(cls, brokers: int) -> Loads:
        return cls(np.zeros((len(COUNTERS), brokers)))

    def __getitem__(self, counter: str) -> Floats:
        found: Floats = self.counts[COUNTERS.index(counter)]
        return found

    def __add__(self, other: Loads) -> Loads:
        return Loads(self.counts + other.counts)


class Reached(msgspec.Struct, frozen=True, eq=False):
    """For each target of some flows: how far it is from the source, and how late."""

    hops: Ints
    delay_s: Floats


Strategy = Callable[[Tree, Flows], tuple[Loads, Reached]]


def primary_links(tree: Tree, flows: Flows) -> tuple[Loads, Reached]:
    """S0: every event takes the only path there is in the tree."""
    count = len(flows.target)
    loads = Loads.none(len(tree))
    reached = Reached(np.zeros(count, dtype=np.int32), np.zeros(count))
    bandwidth = tree.bandwidth_bytes_per_s
    s_per_byte = np.divide(1.0, bandwidth, out=np.zeros_like(bandwidth), where=bandwidth > 0)
    kernels.spread(
        tree.parent,
        tree.depth,
        tree.latency_s + FRAME_BYTES * s_per_byte,
        s_per_byte,
        tree.service_s,
        flows.source,
        flows.first,
        flows.target,
        flows.sessions,
        flows.events,
        flows.size_bytes,
        loads.counts,
        reached.hops,
        reached.delay_s,
    )
    return loads, reached


STRATEGIES: Final[Mapping[Forwarding, Strategy]] = {S0: primary_links}


def flow(tree: Tree, flows: Flows, strategy: Forwarding = S0) -> tuple[Loads, Reached]:
    """What the flows load on the tree, and when their targets are reached."""
    return STRATEGIES[strategy](tree, flows)


def psoop_cost(
    passed: ArrayLike, processing_cost: ArrayLike, crossed: ArrayLike, link_cost: ArrayLike
) -> float:
    """The cost of all deliveries (paper 3): for each event the processing cost of every broker
    and the cost of every link that it passes.

    On primary links these are the brokers and links of the smallest subtree that joins an event's
    source and targets, so the sum over events is taken broker by broker (`passed`) and link by
    link (`crossed`). It is nan when something was passed whose cost is."""
    return _priced(passed, processing_cost) + _priced(crossed, link_cost)


def _priced(events: ArrayLike, cost: ArrayLike) -> float:
    counts, costs = np.asarray(events, np.float64), np.asarray(cost, np.float64)
    used = counts > 0
    return float(counts[used] @ costs[used])
