"""SLP1 and SLP: subscribers assigned by linear programming (paper 4, sections 4 and 5).

    planned = slp1(problem, seed)
    print(planned.yardstick, measures(problem, planned.solution).bandwidth)

SLP1 treats all leaves as children of the publisher: preliminary filters (`filter_assign`), then
subscribers to leaves by maximum flow among those whose filters cover them, then filters adjusted to
who is there (`adjusting`). SLP does the first two at every broker of the tree from the publisher
down, for those subscribers that were assigned to it.

Decided here, where the paper's supplement is missing: leaves stay in the decision at every level
(`level`), so what a level decides can be kept further down; capacities count against all
subscribers. After the leaves are fixed, filters are built from them upward.

Beyond the paper: when leaves below the filters that cover somebody are too few for beta_max, those
who have no others may also go where a filter has to grow least, round by round. And where loads are
still beyond beta at the end, as few as can be go on to leaves with room, those that cost least. So
bounds that can be held are held, the wanted one too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from gravitate.plan.assignment.greedy.balance import balanced
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Ints,
    Longs,
    Network,
    Problem,
    leaf_bits,
)
from gravitate.plan.assignment.problem.solution import Filters, Solution, filters_of
from gravitate.plan.assignment.search.adjusting import AdjustParameters, adjusted
from gravitate.plan.assignment.search.searching import within_beta
from gravitate.plan.assignment.slp.filter_assign import (
    Assigned,
    Capacity,
    FilterAssignParameters,
    assign_filters,
)
from gravitate.plan.assignment.slp.level import Level, flat, level_of
from gravitate.plan.assignment.slp.population import (
    ArrayPopulation,
    Block,
    Population,
    blocks_of,
    joined,
)


class SlpParameters(msgspec.Struct, frozen=True):
    filters: FilterAssignParameters = FilterAssignParameters()
    inner_filters: FilterAssignParameters = FilterAssignParameters(load_sample_per_child=20)
    """At the brokers of a tree (section 6)."""
    adjust: AdjustParameters = AdjustParameters()


DEFAULTS: Final = SlpParameters()


class Planned(msgspec.Struct, frozen=True, eq=False):
    """A solution, and what linear programs said on the way."""

    solution: Solution
    yardstick: float
    """The paper's: the value of the programs that the filters are from, added up. Not a proven
    bound: it adds volumes where bandwidth takes unions, and its rectangles are chosen."""
    solves: int


class Decision(msgspec.Struct, frozen=True, eq=False):
    """What a level decides."""

    leaf: Ints
    """Of each subscriber of the population; its child is the one above."""
    assigned: Assigned


def slp1(problem: Problem, seed: int = 0, parameters: SlpParameters = DEFAULTS) -> Planned:
    """SLP1: all leaves at once."""
    decision = decide(
        flat(problem.network),
        ArrayPopulation(_blocks(problem), seed),
        capacity_of(problem),
        seed,
        "",
        parameters.filters,
    )
    filters = flat_filters(problem.network, decision, problem.dimensions)
    solution = adjusted(problem, decision.leaf, filters, seed, parameters.adjust)
    solution = within_beta(problem, solution, seed)
    return Planned(solution, decision.assigned.yardstick, decision.assigned.solves)


def slp(problem: Problem, seed: int = 0, parameters: SlpParameters = DEFAULTS) -> Planned:
    """SLP: the tree from the publisher down."""
    network = problem.network
    blocks = _blocks(problem)
    descent = descend(
        network, PUBLISHER, blocks, capacity_of(problem), seed, parameters.inner_filters
    )
    filters = tree_filters(network, [descent.filters], problem.dimensions)
    solution = adjusted(problem, descent.leaf, filters, seed, parameters.adjust)
    solution = within_beta(problem, solution, seed)
    return Planned(solution, descent.yardstick, descent.solves)


class Descent(msgspec.Struct, frozen=True, eq=False):
    """What was decided at a broker and at all brokers below."""

    leaf: Ints
    """Of each subscriber."""
    filters: dict[int, Floats]
    """The preliminary filter of each broker below."""
    yardstick: float
    solves: int


def descend(
    network: Network,
    broker: int,
    blocks: Sequence[Block],
    capacity: Capacity,
    seed: int,
    parameters: FilterAssignParameters,
) -> Descent:
    """Leaves for the subscribers of a broker, or of the publisher, level by level."""
    everybody = joined(blocks)
    leaf = np.full(len(everybody), np.searchsorted(network.leaves, broker), dtype=np.int32)
    filters: dict[int, Floats] = {}
    yardstick, solves = 0.0, 0
    waiting: list[tuple[int, Longs]] = [(broker, np.arange(len(everybody)))]
    for above, members in waiting:
        level = level_of(network, above)
        if len(level) == 0 or len(members) == 0:
            continue
        population = ArrayPopulation(blocks_of(*everybody.some(members)), seed)
        decision = decide(level, population, capacity, seed, f"{above}: ", parameters)
        leaf[members] = decision.leaf
        yardstick += decision.assigned.yardstick
        solves += decision.assigned.solves
        filters |= level_filters(level, decision)
        waiting += parts(level, decision, members)
    return Descent(leaf, filters, yardstick, solves)


def parts(level: Level, decision: Decision, members: Longs) -> list[tuple[int, Longs]]:
    """Each child of a level with those who go there."""
    child = level.child[decision.leaf]
    return [(below, members[child == at]) for at, below in enumerate(level.brokers.tolist())]


def level_filters(level: Level, decision: Decision) -> dict[int, Floats]:
    """The preliminary filters of a level by broker."""
    found = decision.assigned.filters
    return {broker: found.of(child) for child, broker in enumerate(level.brokers.tolist())}


def flat_filters(network: Network, decision: Decision, dimensions: int) -> Filters:
    """The preliminary filters of all brokers, where all leaves were one level."""
    return tree_filters(network, [level_filters(flat(network), decision)], dimensions)


def tree_filters(
    network: Network, known: Iterable[Mapping[int, Floats]], dimensions: int
) -> Filters:
    """The preliminary filters of all brokers; none where nothing is known."""
    found: list[Floats] = [np.empty((0, 2, dimensions))] * len(network)
    for filters in known:
        for broker, boxes in filters.items():
            found[broker] = boxes
    return filters_of(found, dimensions)


def capacity_of(problem: Problem) -> Capacity:
    return Capacity(problem.network.capacity, len(problem), problem.beta, problem.beta_max)


def _blocks(problem: Problem) -> list[Block]:
    return blocks_of(problem.locations, problem.interests, problem.reach.candidates)


def decide(
    level: Level,
    population: Population,
    capacity: Capacity,
    seed: int,
    about: str,
    parameters: FilterAssignParameters,
) -> Decision:
    """Filters for the children of a level, and a leaf for everybody."""
    if len(population) == 0:
        nothing = Filters(np.empty((0, 2, 0)), np.zeros(len(level) + 1, dtype=np.int64))
        return Decision(np.empty(0, dtype=np.int32), Assigned(nothing, 0, 0.0, 0))
    assigned = assign_filters(level, population, capacity, seed, about, parameters)
    short = np.empty((0, len(level.leaves_mask())), dtype=np.uint64)
    while True:
        choices = population.choices(level, assigned.filters, short)
        is_last = len(short) == len(level.child)
        spread = balanced(
            choices.masks,
            choices.sizes,
            capacity.fair,
            at_least=capacity.beta,
            at_most=np.inf if is_last else capacity.beta_max,
            total=capacity.total,
        )
        if not spread.short.any():
            break
        short = np.vstack([short, leaf_bits(spread.short)])
    return Decision(population.assign(level, assigned.filters, short, choices, spread), assigned)
