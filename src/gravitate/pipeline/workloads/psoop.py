"""Notification types on a physical network: the overlay problem PSOOP (paper 3).

Brokers stand on nodes of an Internet-like network; any two could be linked, at a cost that is
the length of the shortest way between them, scaled. Every type of notification has one publisher
and some subscriber brokers, drawn by a load value of each broker; subscriptions expire and are
replaced at another broker. A tick of the source is a second here.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.errors import InputError
from gravitate.model.seeds import generator
from gravitate.pipeline.workloads import columns, data
from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan
from gravitate.pipeline.workloads.transit_stub import (
    TransitStub,
    shortest_paths,
    transit_stub_graph,
)

Count = Annotated[int, msgspec.Meta(ge=1)]
Draw = Annotated[int, msgspec.Meta(ge=0)]
COST_TOTAL = 20.0
"""Gamma of Section 5.3 of the source: highest link cost and highest processing cost together."""


class Psoop(msgspec.Struct, frozen=True):
    """Section 5 of the self-organizing topologies (paper 3)."""

    brokers: Annotated[int, msgspec.Meta(ge=2, le=1000)] = 100
    notifications: Count = 50
    subscriber_brokers: Count = 9
    rate_per_tick: Annotated[float, msgspec.Meta(gt=0.0)] = 0.2
    """Publications of each type."""
    expiry_per_tick: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0004
    """Rate at which a subscription ends and another takes its place at another broker."""
    duration_ticks: Annotated[int, msgspec.Meta(ge=1)] = 75_000
    alpha: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.5
    """Weight of processing: link costs up to (1 - alpha) * 20, processing costs up to
    alpha * 20; 0.5 gives the usual 10 and 10."""
    link_draw: Draw = 0
    processing_draw: Draw = 0
    """Another number gives other link costs (brokers on other nodes) and other processing costs,
    all else equal: the source changes them at ticks 25,000 and 50,000."""
    network: TransitStub = TransitStub()
    """The synthetic physical network; measurements take its place."""

    def __post_init__(self) -> None:
        if self.subscriber_brokers > self.brokers:
            raise ValueError(
                f"subscriber_brokers {self.subscriber_brokers} is not accepted: "
                f"there are {self.brokers} brokers"
            )


def make(parameters: Psoop, seed: int, folder: Path | None) -> Made:
    """Place the brokers and weigh every pair of them; both are small."""
    if folder is None:
        graph = transit_stub_graph(parameters.network, generator(seed, "network"))
        source = "synthetic, transit-stub network with the degrees and extents of topo-0-big"
    else:
        graph = data.transit_stub(folder)
        source = "transit-stub graph topo-0-big (GT-ITM, generated)"
    if len(graph.stubs) < parameters.brokers:
        raise InputError(
            f"{parameters.brokers} brokers do not fit: the network has {len(graph.stubs)} places"
        )
    places = generator(seed, "places", parameters.link_draw)
    nodes = places.choice(graph.stubs, parameters.brokers, replace=False)
    costs = link_costs(shortest_paths(graph, nodes)[:, nodes], (1 - parameters.alpha) * COST_TOTAL)
    made = functools.partial
    return Made(
        plans=(
            TablePlan("brokers", parameters.brokers, made(brokers, parameters=parameters)),
            TablePlan(
                "links",
                parameters.brokers,
                made(links, costs=costs),
                columns.items_per_block(parameters.brokers),
            ),
            TablePlan(
                "notifications",
                parameters.notifications,
                made(notifications, parameters=parameters),
            ),
            TablePlan(
                "subscriptions",
                parameters.notifications,
                made(subscriptions, parameters=parameters),
                columns.items_per_block(_subscriptions_of_type(parameters)),
            ),
        ),
        source=source,
        statistics={
            "network_nodes": float(graph.nodes),
            "network_degree_mean": 2.0 * len(graph.edges) / graph.nodes,
            "link_cost_mean": float(costs[np.triu_indices(len(costs), 1)].mean()),
        },
    )


def link_costs(distances: Floats, highest: float) -> Floats:
    """Distances of brokers scaled so that the shortest costs 0 and the longest `highest`."""
    between = distances[np.triu_indices(len(distances), 1)]
    if not np.isfinite(between).all():
        raise InputError("some brokers cannot reach each other: the network is not connected")
    extent = between.max() - between.min()
    return np.asarray((distances - between.min()) * (highest / extent if extent else 0.0))


def loads(parameters: Psoop, seed: int) -> Floats:
    """A load value for each broker: how likely a client is to be there, up to a factor."""
    return generator(seed, "loads").random(parameters.brokers)


def drawn_brokers(random: np.random.Generator, rows: int, weights: Floats, each: int) -> Integers:
    """`each` different brokers for every row, one after the other by weight.

    The brokers with the greatest log weight plus Gumbel noise are such a draw."""
    keys = np.log(np.maximum(weights, 1e-12)) + random.gumbel(size=(rows, len(weights)))
    return np.argsort(-keys, axis=1)[:, :each]


def brokers(block: Block, parameters: Psoop) -> pa.Table:
    """Brokers with their share of the load and a processing cost."""
    names = np.arange(block.start, block.stop)
    costs = generator(block.seed, "processing", parameters.processing_draw)
    weights = loads(parameters, block.seed)
    cost = costs.random(parameters.brokers) * parameters.alpha * COST_TOTAL
    return columns.table(
        "brokers",
        {
            "broker": columns.numbered("b", names, parameters.brokers),
            "location": columns.no_places(len(block)),
            "weight": (weights / weights.sum())[names],
            "processing_cost": cost[names],
        },
        len(block),
    )


def links(block: Block, costs: Floats) -> pa.Table:
    """Every pair of brokers whose first is in the block."""
    first, second = np.triu_indices(len(costs), 1)
    inside = (first >= block.start) & (first < block.stop)
    first, second = first[inside], second[inside]
    return columns.table(
        "links",
        {
            "broker": columns.numbered("b", first, len(costs)),
            "peer": columns.numbered("b", second, len(costs)),
            "cost": costs[first, second],
        },
        len(first),
    )


def notifications(block: Block, parameters: Psoop) -> pa.Table:
    """Types with their publisher and first subscriber brokers."""
    publisher, subscribers = _clients(block.start, block.stop, parameters, block.seed)
    names = columns.numbered("b", np.sort(subscribers, axis=1).ravel(), parameters.brokers)
    return columns.table(
        "notifications",
        {
            "notification": np.arange(block.start, block.stop),
            "publisher": columns.numbered("b", publisher, parameters.brokers),
            "subscribers": columns.lists(names, parameters.subscriber_brokers),
            "rate_per_tick": parameters.rate_per_tick,
        },
        len(block),
    )


def subscriptions(block: Block, parameters: Psoop) -> pa.Table:
    """Who wants a type where from when until when.

    Each of a type's subscriptions is a chain: when one ends, the next begins at another broker,
    drawn by load; two chains of a type may then meet at one broker."""
    _, first = _clients(block.start, block.stop, parameters, block.seed)
    random = block.generator("expiry")
    mean = parameters.expiry_per_tick * parameters.duration_ticks
    ends = random.poisson(mean, first.size)
    chains, numbers, at = columns.occurrences(random, ends, parameters.duration_ticks, begin=True)
    starts = numbers == 1
    until = np.append(at[1:], 0.0)
    last = np.append(starts[1:], True)
    where = _successors(first.ravel(), chains, starts, parameters, block.seed, random)
    types = block.start + chains // parameters.subscriber_brokers
    place = chains % parameters.subscriber_brokers
    return columns.table(
        "subscriptions",
        {
            "subscriber": columns.joined(
                columns.numbered("sub-", types, parameters.notifications),
                columns.numbered("-", place, parameters.subscriber_brokers),
                "-",
                numbers,
            ),
            "subscription": "notifications",
            "broker": columns.numbered("b", where, parameters.brokers),
            "topic": columns.joined("notifications/", types),
            "condition": "",
            "from_s": at,
            "until_s": pa.array(until, mask=last),
        },
        len(chains),
    )


def _successors(
    first: Integers,
    chains: Integers,
    starts: np.ndarray[tuple[int], np.dtype[np.bool_]],
    parameters: Psoop,
    seed: int,
    random: np.random.Generator,
) -> Integers:
    """Brokers along the chains: the first as given, each next another one than before."""
    ends = np.cumsum(loads(parameters, seed))
    where = np.searchsorted(ends, random.random(len(chains)) * ends[-1], side="right")
    where[starts] = first
    drawn, heads = where.tolist(), starts.tolist()
    for row in range(1, len(drawn)):
        if not heads[row] and drawn[row] == drawn[row - 1]:
            drawn[row] = (drawn[row] + 1) % parameters.brokers
    return np.array(drawn, dtype=np.int64)


def _clients(start: int, stop: int, parameters: Psoop, seed: int) -> tuple[Integers, Integers]:
    """Publisher broker and subscriber brokers of the types from `start` to `stop`.

    Drawn for all types at once, so that two tables agree on them however they are cut."""
    weights = loads(parameters, seed)
    random = generator(seed, "clients")
    publisher = drawn_brokers(random, parameters.notifications, weights, 1)[:, 0]
    subscribers = drawn_brokers(
        random, parameters.notifications, weights, parameters.subscriber_brokers
    )
    return publisher[start:stop], subscribers[start:stop]


def _subscriptions_of_type(parameters: Psoop) -> float:
    chain = 1 + parameters.expiry_per_tick * parameters.duration_ticks
    return parameters.subscriber_brokers * chain


DEFINITION = Definition(
    "psoop",
    "notification types with publisher and subscriber brokers, costs from a physical network",
    Psoop,
    make,
)
