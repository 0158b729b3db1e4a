"""Assignment of subscribers that are on Spark.

    with subscribers_on_spark(interests, network, delay_max) as crowd:
        planned = slp1_on_spark(crowd, Bounds(beta=1.5, beta_max=1.8), seed)

The same results as `plan.assignment` gives for the same subscribers in memory, whatever the number
of partitions. Of SLP1 the questions to everybody and the filters of leaves are tasks. Of SLP the
publisher's level is done so; below it each child with its subscribers is one task, which goes on
down the tree. For what goes one by one, Gr* and loads that are to come within beta, the compact
arrays are brought to the driver, some hundred bytes a subscriber.

Owns what is a task and what the driver does. Knows no algorithm from inside.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.pipeline.assignment.blocks import block_of, packed, require_numbered
from gravitate.pipeline.assignment.population import FramePopulation, Shape
from gravitate.pipeline.tables.workload_frames import tasks
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Ints,
    Network,
    Problem,
    problem_of,
    whole,
)
from gravitate.plan.assignment.problem.solution import Filters, Solution, loads_of
from gravitate.plan.assignment.search.adjusting import broker_filter, filters_upward, outermost
from gravitate.plan.assignment.search.searching import within_beta
from gravitate.plan.assignment.slp.filter_assign import Capacity, FilterAssignParameters
from gravitate.plan.assignment.slp.level import flat, level_of
from gravitate.plan.assignment.slp.population import BLOCK, Block, blocks_of, joined
from gravitate.plan.assignment.slp.slp import (
    Decision,
    Descent,
    Planned,
    SlpParameters,
    decide,
    descend,
    flat_filters,
    level_filters,
    tree_filters,
)

_BY_BROKER: Final = "broker int, block int, content binary"
_FOUND: Final = "broker int, found binary"


class Bounds(msgspec.Struct, frozen=True):
    """What an assignment has to hold beside latencies."""

    beta: float = 1.5
    beta_max: float = 1.8


class Crowd(msgspec.Struct, frozen=True, eq=False):
    """Subscribers on Spark."""

    blocks: Any
    shape: Shape
    network: Network
    delay_max: float

    def capacity(self, bounds: Bounds) -> Capacity:
        return Capacity(self.network.capacity, self.shape.subscribers, bounds.beta, bounds.beta_max)


@contextmanager
def subscribers_on_spark(
    interests: Any, network: Network, delay_max: float = 0.3
) -> Iterator[Crowd]:
    """Subscribers from rows of the workload table `interests`, kept in memory while in use."""
    count = require_numbered(interests)
    blocks = packed(interests, network, delay_max).persist()
    axes = len(interests.select("low").first()["low"])
    try:
        yield Crowd(blocks, Shape(count, int(network.points.shape[1]), axes), network, delay_max)
    finally:
        blocks.unpersist()


def problem_at_driver(crowd: Crowd, bounds: Bounds) -> Problem:
    """The whole problem as arrays at the driver, for algorithms that go one by one."""
    rows = sorted(crowd.blocks.collect(), key=lambda row: row["block"])
    shape = crowd.shape
    everybody = joined([block_of(row.asDict(), shape.dimensions, shape.axes) for row in rows])
    return problem_of(
        crowd.network,
        everybody.locations,
        everybody.interests,
        crowd.delay_max,
        bounds.beta,
        bounds.beta_max,
    )


def slp1_on_spark(
    crowd: Crowd, bounds: Bounds, seed: int = 0, parameters: SlpParameters | None = None
) -> Planned:
    """SLP1: all leaves at once."""
    how = parameters or SlpParameters()
    network = crowd.network
    with FramePopulation(crowd.blocks, crowd.shape, seed) as population:
        decision = decide(flat(network), population, crowd.capacity(bounds), seed, "", how.filters)
    preliminary = flat_filters(network, decision, crowd.shape.axes)
    solution = adjusted_on_spark(crowd, decision.leaf, preliminary, seed, how)
    solution = _within_beta(crowd, bounds, solution, seed)
    return Planned(solution, decision.assigned.yardstick, decision.assigned.solves)


def slp_on_spark(
    crowd: Crowd, bounds: Bounds, seed: int = 0, parameters: SlpParameters | None = None
) -> Planned:
    """SLP: the tree from the publisher down."""
    how = parameters or SlpParameters()
    network, capacity = crowd.network, crowd.capacity(bounds)
    level = level_of(network, PUBLISHER)
    with FramePopulation(crowd.blocks, crowd.shape, seed) as population:
        decision = decide(level, population, capacity, seed, f"{PUBLISHER}: ", how.inner_filters)
    below = _below(crowd, level.brokers[level.child], decision, capacity, seed, how)
    child = level.child[decision.leaf]
    leaf = decision.leaf.copy()
    for broker, descent in below.items():
        leaf[level.brokers[child] == broker] = descent.leaf
    known = [level_filters(level, decision), *(descent.filters for descent in below.values())]
    preliminary = tree_filters(network, known, crowd.shape.axes)
    solution = adjusted_on_spark(crowd, leaf, preliminary, seed, how)
    solution = _within_beta(crowd, bounds, solution, seed)
    first = decision.assigned
    return Planned(
        solution,
        first.yardstick + sum(below[broker].yardstick for broker in sorted(below)),
        first.solves + sum(descent.solves for descent in below.values()),
    )


def adjusted_on_spark(
    crowd: Crowd, leaf: Ints, preliminary: Filters, seed: int, parameters: SlpParameters
) -> Solution:
    """Filters for an assignment: each leaf's is a task, those above are made by the driver."""
    network, axes = crowd.network, crowd.shape.axes
    rows = crowd.blocks.mapInArrow(
        functools.partial(_interests_by_leaf, crowd.shape, network, leaf), _BY_BROKER
    )
    work = functools.partial(_leaf_filter, network, axes, preliminary, seed, parameters)
    dealt = rows.repartition(tasks(rows.sparkSession), "broker").groupBy("broker")
    found = {
        row["broker"]: np.frombuffer(row["found"]).reshape(-1, 2, axes)
        for row in dealt.applyInArrow(lambda table: work(table), _FOUND).collect()
    }
    nothing = np.empty((0, 2, axes))
    of_leaves = [found.get(broker, nothing) for broker in network.leaves.tolist()]
    return Solution(leaf, filters_upward(network, of_leaves, preliminary, seed, parameters.adjust))


def _within_beta(crowd: Crowd, bounds: Bounds, solution: Solution, seed: int) -> Solution:
    """Few go on, one by one along chains: everybody is brought to the driver, if that is needed."""
    network = crowd.network
    wanted = whole(bounds.beta * network.capacity * crowd.shape.subscribers)
    if (loads_of(network, solution.leaf) <= wanted).all():
        return solution
    return within_beta(problem_at_driver(crowd, bounds), solution, seed)


# --- in tasks -------------------------------------------------------------------------------------


def _own(leaf: Ints, block: Block) -> Ints:
    start = block.number * BLOCK
    return leaf[start : start + len(block)]


def _interests_by_leaf(
    shape: Shape, network: Network, leaf: Ints, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What filters have to hold, by leaf: of each block the interests that lie within no other."""
    for batch in batches:
        for row in batch.to_pylist():
            block = block_of(row, shape.dimensions, shape.axes)
            own = _own(leaf, block)
            present = np.unique(own).tolist()
            yield _by_broker(
                [int(network.leaves[at]) for at in present],
                block.number,
                [outermost(block.interests[own == at]).tobytes() for at in present],
            )


def _by_broker(brokers: list[int], block: int, contents: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "broker": pa.array(brokers, pa.int32()),
            "block": pa.array([block] * len(brokers), pa.int32()),
            "content": pa.array(contents, pa.binary()),
        }
    )


def _leaf_filter(
    network: Network,
    axes: int,
    preliminary: Filters,
    seed: int,
    parameters: SlpParameters,
    rows: pa.Table,
) -> pa.Table:
    broker, parts = _gathered(rows)
    boxes = np.concatenate([np.frombuffer(part).reshape(-1, 2, axes) for part in parts])
    found = broker_filter(network, broker, boxes, preliminary, seed, parameters.adjust)
    return _found(broker, np.ascontiguousarray(found).tobytes())


def _gathered(rows: pa.Table) -> tuple[int, list[bytes]]:
    """The broker of a group, and its contents in the order of blocks."""
    ordered = rows.sort_by("block")
    return ordered.column("broker")[0].as_py(), ordered.column("content").to_pylist()


def _found(broker: int, found: bytes) -> pa.Table:
    return pa.table(
        {"broker": pa.array([broker], pa.int32()), "found": pa.array([found], pa.binary())}
    )


def _below(
    crowd: Crowd,
    broker_of_leaf: Ints,
    decision: Decision,
    capacity: Capacity,
    seed: int,
    parameters: SlpParameters,
) -> dict[int, Descent]:
    """What is decided below each child of the publisher that has children."""
    rows = crowd.blocks.mapInArrow(
        functools.partial(_subscribers_by_child, crowd.shape, broker_of_leaf, decision.leaf),
        _BY_BROKER,
    )
    inner = msgspec.structs.replace(
        parameters.inner_filters,
        lp=msgspec.structs.replace(parameters.inner_filters.lp, threads=1),
    )
    work = functools.partial(_descend, crowd.network, capacity, seed, inner)
    # As many partitions as children: left to Spark, such little data would be one task.
    dealt = rows.repartition(len(np.unique(broker_of_leaf)), "broker").groupBy("broker")
    found = dealt.applyInArrow(lambda table: work(table), _FOUND).collect()
    return {row["broker"]: pickle.loads(row["found"]) for row in found}


def _subscribers_by_child(
    shape: Shape, broker_of_leaf: Ints, leaf: Ints, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            block = block_of(row, shape.dimensions, shape.axes)
            own = broker_of_leaf[_own(leaf, block)]
            present = np.unique(own).tolist()
            contents = [
                pickle.dumps(block.some(np.flatnonzero(own == broker))) for broker in present
            ]
            yield _by_broker(present, block.number, contents)


def _descend(
    network: Network,
    capacity: Capacity,
    seed: int,
    parameters: FilterAssignParameters,
    rows: pa.Table,
) -> pa.Table:
    broker, contents = _gathered(rows)
    parts: list[tuple[Floats, Floats, Any]] = [pickle.loads(content) for content in contents]
    everybody = joined([Block(at, *part) for at, part in enumerate(parts)])
    blocks = blocks_of(everybody.locations, everybody.interests, everybody.candidates)
    descent = descend(network, broker, blocks, capacity, seed, parameters)
    return _found(broker, pickle.dumps(descent))
