"""Local search: a solution made cheaper by moving blocks of subscribers (beyond paper 4).

    better = improved(problem, gr_star(problem, seed), seed)

One subscriber's move rarely changes a filter, because others hold the sides of its box. So an
attempt takes out a *block* that holds sides (everybody beyond a line in a box, a box, two boxes of
different leaves that meet, everybody of a leaf who wants what is at a point, a leaf), shrinks the
filters, and puts the block in again one by one where filters grow least, the largest interests
first more often than not. Leaves that hold an interest already cost nothing. Where the cheapest
leaf is full, one of its members that another leaf holds already makes room: without such exchanges
the bounds on load stop the search early, since a good solution has many full leaves.

Attempts that lower the bandwidth stay; others stay with a probability that falls with what they
cost and with time (simulated annealing), and the best state seen is the result. At the end filters
are adjusted once more.

What holds: the result is never worse than the start (`solution.rank`). Latencies are within their
bounds, also where the start's are not. No leaf is loaded beyond beta where candidates allow that at
all: a start beyond it is first brought to it, even where that costs bandwidth. Where they do not,
no leaf is loaded beyond the start's load balance factor, or beyond beta_max as far as candidates
allow. The same seed gives the same result.

Knows neither how the start was made nor any clock: time is bounded by attempts and by how many
subscribers are taken out in all.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np

from gravitate.errors import InputError
from gravitate.plan.assignment.problem.problem import Floats, Problem
from gravitate.plan.assignment.problem.solution import (
    Solution,
    load_factors,
    loads_of,
    rank,
)
from gravitate.plan.assignment.search import repair_kernels, search_kernels
from gravitate.plan.assignment.search.adjusting import adjusted
from gravitate.plan.assignment.search.slots import Slots, random_state, slots_of

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class SearchParameters(msgspec.Struct, frozen=True):
    """Defaults were found by measuring on sets like the paper's (docs, "Beyond the paper")."""

    rounds: Annotated[int, msgspec.Meta(ge=0)] = 60
    """Attempts for each box that leaves may have."""
    attempts_min: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """However few boxes there are."""
    work_max: Annotated[int, msgspec.Meta(ge=1)] = 8_000_000
    """How many subscribers are taken out in all before the search ends."""
    heat: Annotated[float, msgspec.Meta(ge=0.0)] = 0.06
    """The first temperature, in mean volumes of a broker's filter; 0: never anything worse."""
    cooling: Annotated[float, msgspec.Meta(ge=1.0)] = 50.0
    """The first temperature over the last."""
    tries: Annotated[int, msgspec.Meta(ge=0)] = 24
    """Members of a full leaf that are looked at to make room for another; 0: no exchanges."""
    blink: Share = 0.02
    """How often a leaf is overlooked: putting in greedily finds other ways then."""
    sides: Share = 0.3
    """The share of blocks that are one side of a box."""
    boxes: Share = 0.1
    pairs: Share = 0.3
    """Of boxes that meet."""
    points: Share = 0.3
    """The rest are whole leaves."""


DEFAULTS: Final = SearchParameters()


def improved(
    problem: Problem,
    solution: Solution,
    seed: int = 0,
    parameters: SearchParameters = DEFAULTS,
) -> Solution:
    """A solution that is at least as good as the given one."""
    if len(problem) == 0:
        return solution
    slots = _within_bounds(problem, solution, seed)
    found = _finished(problem, _searched(slots, seed, parameters), seed)
    return solution if rank(problem, solution) <= rank(problem, found) else found


def _within_bounds(problem: Problem, solution: Solution, seed: int) -> Slots:
    """The start with latencies within bounds and loads as near to theirs as candidates allow."""
    near = within_latencies(problem, solution)
    slots = relieved(problem, near, problem.beta, seed)
    if (slots.state.load <= slots.fixed.capacity).all():
        return slots
    factor = float(load_factors(problem, loads_of(problem.network, near.leaf)).max())
    return relieved(problem, near, min(factor, problem.beta_max), seed)


def within_beta(problem: Problem, solution: Solution, seed: int = 0) -> Solution:
    """The solution with as few moves as bring loads within beta, or as it is where candidates do
    not allow that."""
    if not (loads_of(problem.network, solution.leaf) > problem.leaf_capacities(problem.beta)).any():
        return solution
    slots = relieved(problem, solution, problem.beta, seed)
    if (slots.state.load > slots.fixed.capacity).any():
        return solution
    return _finished(problem, slots.solution(), seed)


def within_latencies(problem: Problem, solution: Solution) -> Solution:
    """The solution with everybody at a candidate; filters may be too small for that."""
    network = problem.network
    leaf = solution.leaf.copy()
    load = loads_of(network, leaf)
    repair_kernels.bring_home(problem.reach.candidates, network.capacity * len(problem), leaf, load)
    return Solution(leaf, solution.filters)


def relieved(problem: Problem, solution: Solution, factor: float, seed: int) -> Slots:
    """The solution with loads within a factor of fair shares, as far as candidates allow."""
    slots = slots_of(problem, solution, problem.leaf_capacities(factor), seed)
    if (slots.state.load > slots.fixed.capacity).any():
        repair_kernels.relieve_overloaded(slots.fixed, slots.state)
        slots.refresh()
    return slots


def _searched(slots: Slots, seed: int, parameters: SearchParameters) -> Solution:
    """The best that attempts find from here."""
    network = slots.problem.network
    boxes = int(network.complexity[network.leaves].sum())
    hot = parameters.heat * float(slots.state.volume.mean())
    slot, rooms = slots.state.slot.copy(), slots.state.boxes.copy()
    search_kernels.search(
        slots.fixed,
        slots.state,
        shares_of(parameters),
        max(parameters.rounds * boxes, parameters.attempts_min),
        parameters.work_max,
        hot,
        hot / parameters.cooling,
        0.0,
        -np.inf,
        parameters.tries,
        parameters.blink,
        random_state(seed, "search"),
        slot,
        rooms,
    )
    return slots.solution(slot, rooms)


def _finished(problem: Problem, solution: Solution, seed: int) -> Solution:
    """With filters adjusted, if that is less."""
    other = adjusted(problem, solution.leaf, solution.filters, seed)
    choices = (solution, other)
    return min(choices, key=lambda choice: float(choice.filters.volumes().sum()))


def shares_of(parameters: SearchParameters) -> Floats:
    """How often each kind of block is taken out, as `search_kernels` has them."""
    shares = [parameters.sides, parameters.boxes, parameters.pairs, parameters.points]
    if sum(shares) > 1.0 + 1e-9:
        raise InputError(f"shares of blocks add up to {sum(shares):g}: write at most 1")
    return np.array([*shares, max(0.0, 1.0 - sum(shares))])
