"""Greedy assignment: Gr, Gr*, Gr without latencies, and the closest leaf (paper 4, sections 3, 6).

*Gr* takes subscribers as they arrive. The cost of a leaf is the least volume by which the filters
on the path from the publisher have to grow; the cheapest candidate with room serves, ties go to
the least loaded. *Gr** takes those with the fewest candidates first and sorts anew whenever a leaf
is full. The bound on load is the wanted one at first, and rises when a subscriber is left without
a candidate.

Decided here, where the paper leaves it open:

- arrival is a random order, drawn from the seed; Gr* sorts ties by it;
- the bound rises in `steps` equal steps from beta to beta_max, for everybody from then on;
- who finds no room under beta_max goes to the least loaded of its candidates;
- a box is put into a filter as `filter_kernels` says, from the leaf upward: the parent has to hold
  the box that grew, not the interest alone;
- of leaves that cost nothing, those whose filter does not change go first.

Owns the parameters and the arrays that the kernels fill. Knows neither files nor names.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np

from gravitate.model.seeds import generator
from gravitate.plan.assignment.boxes import filter_kernels
from gravitate.plan.assignment.boxes.filter_kernels import Growing, no_filters
from gravitate.plan.assignment.greedy import greedy_kernels
from gravitate.plan.assignment.problem.problem import (
    Ints,
    Longs,
    Problem,
    Words,
    all_leaves,
)
from gravitate.plan.assignment.problem.solution import Filters, Solution


class GreedyParameters(msgspec.Struct, frozen=True):
    """What the paper does not fix."""

    steps: Annotated[int, msgspec.Meta(ge=0)] = 10
    """In how many steps the bound on load rises from beta to beta_max."""


DEFAULTS: Final = GreedyParameters()


def gr(problem: Problem, seed: int = 0, parameters: GreedyParameters = DEFAULTS) -> Solution:
    """Gr: the cheapest candidate, in order of arrival."""
    return _greedy(problem, problem.reach.candidates, seed, parameters, fewest_first=False)


def gr_star(problem: Problem, seed: int = 0, parameters: GreedyParameters = DEFAULTS) -> Solution:
    """Gr*: the cheapest candidate, those with the fewest candidates first."""
    return _greedy(problem, problem.reach.candidates, seed, parameters, fewest_first=True)


def gr_without_latency(
    problem: Problem, seed: int = 0, parameters: GreedyParameters = DEFAULTS
) -> Solution:
    """Gr-l: as Gr, with all leaves as candidates of everybody."""
    return _greedy(problem, all_leaves(problem), seed, parameters, fewest_first=False)


def closest(problem: Problem, seed: int = 0) -> Solution:
    """Closest: the nearest leaf in the network space that has room under beta_max."""
    return _closest(problem, problem.leaf_capacities(problem.beta_max), seed)


def closest_without_balance(problem: Problem, seed: int = 0) -> Solution:
    """Closest-b: the nearest leaf, however many it has."""
    unbounded = np.full(len(problem.network.leaves), len(problem), dtype=np.int64)
    return _closest(problem, unbounded, seed)


def with_grown_filters(problem: Problem, leaf: Ints, seed: int = 0) -> Solution:
    """A solution with the given leaves and the filters that Gr would grow for them."""
    growing = _no_filters(problem)
    filter_kernels.grow_all(growing, problem.interests, leaf, arrival(problem, seed))
    return Solution(leaf, _packed(growing))


def arrival(problem: Problem, seed: int) -> Longs:
    """The order in which subscribers come."""
    return generator(seed, "assignment", "arrival").permutation(len(problem))


def _greedy(
    problem: Problem,
    candidates: Words,
    seed: int,
    parameters: GreedyParameters,
    fewest_first: bool,
) -> Solution:
    factors = np.linspace(problem.beta, problem.beta_max, parameters.steps + 1)
    if parameters.steps == 0:
        factors[0] = problem.beta_max
    growing = _no_filters(problem)
    leaf = np.full(len(problem), greedy_kernels.NOBODY, dtype=np.int32)
    greedy_kernels.assign(
        growing,
        problem.network.capacity * len(problem),
        np.stack([problem.leaf_capacities(factor) for factor in factors.tolist()]),
        candidates,
        problem.interests,
        arrival(problem, seed),
        fewest_first,
        leaf,
    )
    return Solution(leaf, _packed(growing))


def _closest(problem: Problem, capacity: Longs, seed: int) -> Solution:
    leaf = np.empty(len(problem), dtype=np.int32)
    greedy_kernels.assign_closest(
        problem.locations,
        problem.network.leaf_points,
        problem.network.capacity * len(problem),
        capacity,
        arrival(problem, seed),
        leaf,
    )
    return with_grown_filters(problem, leaf, seed)


def _no_filters(problem: Problem) -> Growing:
    network = problem.network
    return no_filters(network.parent, network.leaves, network.complexity, problem.dimensions)


def _packed(growing: Growing) -> Filters:
    boxes, count = growing.boxes, growing.count
    is_used = np.arange(boxes.shape[1]) < count[:, None]
    first = np.zeros(len(count) + 1, dtype=np.int64)
    np.cumsum(count, out=first[1:])
    return Filters(np.ascontiguousarray(boxes[is_used]), first)
