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
who have no others may also go where a filter has to grow least, round by round. So bounds that can
be held are held.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from gravitate.plan.assignment.adjusting import AdjustParameters, adjusted
from gravitate.plan.assignment.balance import balanced
from gravitate.plan.assignment.filter_assign import (
    Assigned,
    Capacity,
    FilterAssignParameters,
    assign_filters,
)
from gravitate.plan.assignment.level import Level, flat, level_of
from gravitate.plan.assignment.population import ArrayPopulation, Population
from gravitate.plan.assignment.problem import PUBLISHER, Floats, Ints, Longs, Problem, leaf_bits
from gravitate.plan.assignment.solution import Solution, filters_of


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
    level = flat(problem.network)
    decision = decide(
        level, ArrayPopulation.of(problem, seed), capacity_of(problem), seed, "", parameters.filters
    )
    filters: list[Floats] = [np.empty((0, 2, problem.dimensions))] * len(problem.network)
    for child, broker in enumerate(level.brokers.tolist()):
        filters[broker] = decision.assigned.filters.of(child)
    preliminary = filters_of(filters, problem.dimensions)
    solution = adjusted(problem, decision.leaf, preliminary, seed, parameters.adjust)
    return Planned(solution, decision.assigned.yardstick, decision.assigned.solves)


def slp(problem: Problem, seed: int = 0, parameters: SlpParameters = DEFAULTS) -> Planned:
    """SLP: the tree from the publisher down."""
    filters: list[Floats] = [np.empty((0, 2, problem.dimensions))] * len(problem.network)
    leaf = np.empty(len(problem), dtype=np.int32)
    yardstick, solves = 0.0, 0
    waiting: list[tuple[int, Longs]] = [(PUBLISHER, np.arange(len(problem)))]
    for broker, members in waiting:
        level = level_of(problem.network, broker)
        if len(level) == 0:
            leaf[members] = np.searchsorted(problem.network.leaves, broker)
            continue
        if len(members) == 0:
            continue
        decision = decide(
            level,
            ArrayPopulation.of(problem, seed, members),
            capacity_of(problem),
            seed,
            f"{broker}: ",
            parameters.inner_filters,
        )
        yardstick += decision.assigned.yardstick
        solves += decision.assigned.solves
        child = level.child[decision.leaf]
        for number, below in enumerate(level.brokers.tolist()):
            filters[below] = decision.assigned.filters.of(number)
            waiting.append((below, members[child == number]))
    preliminary = filters_of(filters, problem.dimensions)
    return Planned(adjusted(problem, leaf, preliminary, seed, parameters.adjust), yardstick, solves)


def capacity_of(problem: Problem) -> Capacity:
    return Capacity(problem.network.capacity, len(problem), problem.beta, problem.beta_max)


def decide(
    level: Level,
    population: Population,
    capacity: Capacity,
    seed: int,
    about: str,
    parameters: FilterAssignParameters,
) -> Decision:
    """Filters for the children of a level, and a leaf for everybody."""
    assigned = assign_filters(level, population, capacity, seed, about, parameters)
    short = np.empty((0, len(level.leaves_mask())), dtype=np.uint64)
    while True:
        places = population.places(level, assigned.filters, short)
        is_last = len(short) == len(level.child)
        spread = balanced(
            places.masks,
            places.sizes,
            capacity.fair,
            at_least=capacity.beta,
            at_most=np.inf if is_last else capacity.beta_max,
            total=capacity.total,
        )
        if not spread.short.any():
            break
        short = np.vstack([short, leaf_bits(spread.short)])
    return Decision(population.assign(level, assigned.filters, short, places, spread), assigned)
