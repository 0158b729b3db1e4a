"""A proven lower bound on the bandwidth of any valid solution (beyond paper 4).

    bound = lower_bound(problem)
    assert bound <= measures(problem, solution).bandwidth     # for every valid solution

The bound of the paper's linear program is an estimate; this one is proven, and weaker.

**Points.** Q adds up volumes of filters, so it is the integral over the event space of the number
of brokers whose filters hold the point. If a valid solution serves subscriber j at leaf k, then
leaf k and all brokers above it hold every point of j's interest. So at each point at least as many
leaves are needed as can serve all who are interested there, within latencies and loads.

**Cells.** The space is cut into cells. All of a cell's points are wanted by those whose interests
contain the whole cell; others are left out, which can only make the number less.

**Leaves.** Let T(R) be those interested whose candidates all lie in the set R of leaves. Of R at
least n(R) leaves are needed:

- n(R) >= least r such that the r greatest capacities in R are |T(R)| together, since T(R) can be
  served in R alone, and a leaf takes no more than its capacity under beta_max;
- n(R) >= n(R1) + ... + n(Rs) for disjoint subsets of R, since T(Ri) is served within Ri.

So over a *laminar* family (of two sets one holds the other, or they are disjoint) n is computed
from single leaves up to the set of all, and n(all) bounds the number at the point. Any family gives
a valid bound; ours joins leaves that are often candidates together, and is the stronger the more
candidates lie within small sets.

**Inner brokers.** Those at one depth are counted the same way: in the place of a leaf stands the
inner broker above it at that depth, with the capacities below it together. Who has a candidate
without such a broker is left out. Levels are different brokers, so their bounds add up.

**Boxes.** Some leaves can be taken out of all this and counted by their hulls instead: what their
filters must have because they are unions of few boxes (`hulls`). Whoever has such a leaf as a
candidate is left out of the count above; then the two add up, since they speak of different leaves.
The bound is the best of counting with hulls, without, and the exact union of all interests: cells
lose what interests hold of them in part.

Counts by cell and set add up over blocks of subscribers (`counted`), so they can be made anywhere;
only `plan_of`, for which a sample will do, and `counted` see subscribers.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np

from gravitate.plan.assignment.bounds import bound_kernels as kernels
from gravitate.plan.assignment.bounds.hulls import captive_hulls
from gravitate.plan.assignment.boxes.volume_kernels import union_volume
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Ints,
    Longs,
    Network,
    Problem,
    Words,
)


class BoundParameters(msgspec.Struct, frozen=True):
    """How fine the event space is cut."""

    cells_per_axis: Annotated[int, msgspec.Meta(ge=1)] = 128
    counts_max: Annotated[int, msgspec.Meta(ge=1)] = 5_000_000
    """How many counts, sets of leaves times cells, are kept at most: on many axes cells are
    coarser. A coarser cut is a bound as well."""
    sample_max: Annotated[int, msgspec.Meta(ge=1)] = 100_000
    """How many interests ticks and families are made from."""


DEFAULTS: Final = BoundParameters()


class Level(msgspec.Struct, frozen=True, eq=False):
    """Brokers of which no two lie on one way: all leaves, or the inner ones at one depth."""

    item_of: Ints
    """The number in this level of the broker above (or at) each leaf, or `NOWHERE`."""
    capacity: Longs
    """Of each item: how many subscribers it may have at all."""


class Family(msgspec.Struct, frozen=True, eq=False):
    """A laminar family of sets of a level's items; set i < items is {i}, the last is all."""

    sets: Words
    above: Ints
    """`NOWHERE` for the last."""


class Plan(msgspec.Struct, frozen=True, eq=False):
    """What counting needs to know: levels with their families, and cells."""

    levels: list[Level]
    families: list[Family]
    ticks: list[Floats]
    """On each axis, ascending."""
    hulls: float
    """The volumes of leaves that are not counted."""

    def cells(self) -> tuple[int, ...]:
        return tuple(len(ticks) - 1 for ticks in self.ticks)


def lower_bound(problem: Problem, parameters: BoundParameters = DEFAULTS) -> float:
    """No valid solution has less bandwidth, up to rounding."""
    if len(problem) == 0:
        return 0.0
    capacity = problem.leaf_capacities(problem.beta_max)
    candidates, interests = problem.reach.candidates, problem.interests
    step = -(-len(problem) // parameters.sample_max)
    hulls = captive_hulls(problem.network, candidates[::step], interests[::step])
    best = _union_bound(problem)
    for apart in (None, hulls) if hulls.any() else (None,):
        plan = plan_of(
            problem.network, capacity, candidates[::step], interests[::step], apart, parameters
        )
        best = max(best, bound_of(plan, counted(plan, candidates, interests)))
    return best


def _union_bound(problem: Problem) -> float:
    """What is wanted passes one broker at least on each level that all leaves lie below."""
    if problem.dimensions > 2:
        return 0.0  # exact unions take too long, and cells are seldom worse
    levels = levels_of(problem.network, problem.leaf_capacities(problem.beta_max))
    passed = sum(bool((level.item_of != kernels.NOWHERE).all()) for level in levels)
    return passed * float(union_volume(problem.interests))


def plan_of(
    network: Network,
    capacity: Longs,
    candidates: Words,
    interests: Floats,
    hulls: Floats | None = None,
    parameters: BoundParameters = DEFAULTS,
) -> Plan:
    """Levels, families and cells for some subscribers, or for a sample of them; leaves with a
    hull are counted by it alone."""
    apart = np.zeros(len(network.leaves)) if hulls is None else hulls
    levels = levels_of(network, capacity)
    levels[0] = Level(np.where(apart > 0.0, kernels.NOWHERE, levels[0].item_of), capacity)
    families = [family_of(_lifted(candidates, level), len(level.capacity)) for level in levels]
    axes = interests.shape[2]
    sets = max(len(family.sets) for family in families)
    affordable = int((parameters.counts_max / sets) ** (1 / axes))
    cells = max(1, min(parameters.cells_per_axis, affordable))
    ticks = [_ticks(interests[:, :, axis], cells) for axis in range(axes)]
    return Plan(levels, families, ticks, float(apart.sum()))


def counted(plan: Plan, candidates: Words, interests: Floats) -> list[Longs]:
    """For each level an array (sets, cells of each axis): how many of these subscribers want the
    whole cell and have this set as the smallest that holds their candidates.

    Adds up over blocks of subscribers."""
    first = np.stack(
        [np.searchsorted(t, interests[:, 0, axis]) for axis, t in enumerate(plan.ticks)], axis=1
    )
    last = np.stack(
        [
            np.searchsorted(t, interests[:, 1, axis], "right") - 1
            for axis, t in enumerate(plan.ticks)
        ],
        axis=1,
    )
    found = []
    for level, family in zip(plan.levels, plan.families, strict=True):
        smallest = np.empty(len(candidates), dtype=np.int64)
        kernels.smallest_sets(_lifted(candidates, level), family.sets, family.above, smallest)
        shape = (len(family.sets), *(cells + 1 for cells in plan.cells()))
        differences = np.zeros(shape, dtype=np.int64)
        strides = np.array(differences.strides, dtype=np.int64) // differences.itemsize
        kernels.count_corners(first, last, smallest, strides, differences.reshape(-1))
        for axis in range(1, differences.ndim):
            np.cumsum(differences, axis=axis, out=differences)
        found.append(differences[(slice(None), *[slice(-1)] * len(plan.ticks))])
    return found


def bound_of(plan: Plan, counts: list[Longs]) -> float:
    """The bound from the counts of all subscribers."""
    volumes = np.ones(())
    for ticks in plan.ticks:
        volumes = volumes[..., None] * np.diff(ticks)
    return plan.hulls + sum(
        float((volumes * leaves_needed(level, family, count)).sum())
        for level, family, count in zip(plan.levels, plan.families, counts, strict=True)
    )


def leaves_needed(level: Level, family: Family, counts: Longs) -> Longs:
    """For each cell the least number of the level's brokers that can serve all interested."""
    within = counts.copy()
    needed = np.zeros_like(counts)
    for number, above in enumerate(family.above.tolist()):
        greatest = np.sort(level.capacity[_members(family.sets[number])])[::-1]
        # So many are needed that all but one of them are too few.
        by_load = np.searchsorted(np.cumsum(greatest), within[number]) + 1
        by_load[within[number] == 0] = 0
        needed[number] = np.maximum(needed[number], np.minimum(by_load, len(greatest)))
        if above != kernels.NOWHERE:
            within[above] += within[number]
            needed[above] += needed[number]
    total: Longs = needed[-1]
    return total


def levels_of(network: Network, capacity: Longs) -> list[Level]:
    """The leaves, then inner brokers by their depth; `capacity` is that of the leaves."""
    depth = np.zeros(len(network), dtype=np.int64)
    for broker in network.order:
        above = network.parent[broker]
        depth[broker] = 0 if above == PUBLISHER else depth[above] + 1
    ways: list[list[int]] = []
    for broker in network.leaves.tolist():
        way = []
        while broker != PUBLISHER:
            broker = int(network.parent[broker])
            way.append(broker)
        ways.append(way[-2::-1])
    found = [Level(np.arange(len(network.leaves), dtype=np.int32), capacity)]
    for at in range(int(depth.max())):
        brokers = [way[at] if at < len(way) else kernels.NOWHERE for way in ways]
        numbers = {b: i for i, b in enumerate(sorted(set(brokers) - {kernels.NOWHERE}))}
        item_of = np.array([numbers.get(b, kernels.NOWHERE) for b in brokers], dtype=np.int32)
        totals = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(totals, item_of[item_of >= 0], capacity[item_of >= 0])
        found.append(Level(item_of, totals))
    return found


def family_of(masks: Words, items: int) -> Family:
    """Sets of items that are joined two by two, those first that are together most often: the
    mean of both / either over all pairs."""
    count = np.zeros((items, items), dtype=np.int64)
    kernels.together(masks, count)
    own = np.diag(count)
    either = np.maximum(own[:, None] + own[None, :] - count, 1)
    likeness = count / either
    np.fill_diagonal(likeness, -1.0)
    sets = np.zeros((2 * items - 1, masks.shape[1]), dtype=np.uint64)
    for item in range(items):
        sets[item, item // 64] = np.uint64(1) << np.uint64(item % 64)
    above = np.full(2 * items - 1, kernels.NOWHERE, dtype=np.int32)
    number, size = np.arange(items), np.ones(items)
    for joined in range(items, 2 * items - 1):
        one, other = sorted(np.unravel_index(np.argmax(likeness), likeness.shape))
        above[number[[one, other]]] = joined
        sets[joined] = sets[number[one]] | sets[number[other]]
        mean = (size[one] * likeness[one] + size[other] * likeness[other]) / (
            size[one] + size[other]
        )
        likeness[one], likeness[:, one] = mean, mean
        likeness[other], likeness[:, other], likeness[one, one] = -1.0, -1.0, -1.0
        likeness[one, likeness[:, one] < 0.0] = -1.0
        number[one] = joined
        size[one] += size[other]
        is_gone = np.zeros(items, dtype=np.bool_)
        is_gone[other] = True
        likeness = likeness[~is_gone][:, ~is_gone]
        number, size = number[~is_gone], size[~is_gone]
        items = len(number)
    return Family(sets, above)


def _lifted(candidates: Words, level: Level) -> Words:
    items = len(level.capacity)
    found = np.zeros((len(candidates), -(-items // 64)), dtype=np.uint64)
    kernels.lifted(candidates, level.item_of, found)
    return found


def _members(words: Words) -> Longs:
    shifts = np.arange(64, dtype=np.uint64)
    return np.flatnonzero(((words[:, None] >> shifts) & np.uint64(1)).reshape(-1))


def _ticks(intervals: Floats, cells_max: int) -> Floats:
    """Edges of the intervals: all, or as many as there may be, with as many edges between."""
    edges = np.unique(intervals)
    if len(edges) <= cells_max + 1:
        return edges if len(edges) > 1 else np.array([edges[0], edges[0]])
    return edges[np.linspace(0, len(edges) - 1, cells_max + 1).round().astype(np.int64)]
