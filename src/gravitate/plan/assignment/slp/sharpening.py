"""Filters of a level made simple and small on a sample (beyond paper 4).

    filters = sharpened(level, filters, sample, capacity, seed)

What rounding leaves has too many boxes for some children and few for others; simplifying each
child's filter by itself, as the paper does at the end, costs more than all that was gained by the
program. So the sample is assigned to the children by the filters, and this assignment, a small
problem of one level with children for leaves, goes through the local search (`searching`). Its
filters have no more boxes than are allowed.

Places do not matter here: who may go to a child is known from the candidates below it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gravitate.plan.assignment.greedy.balance import balanced, leaves_of
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Network,
    Problem,
    Reach,
)
from gravitate.plan.assignment.problem.solution import Filters
from gravitate.plan.assignment.search.adjusting import adjusted
from gravitate.plan.assignment.search.searching import SearchParameters, improved
from gravitate.plan.assignment.slp import population_kernels as kernels
from gravitate.plan.assignment.slp.incidence import Sample
from gravitate.plan.assignment.slp.level import Level, flat
from gravitate.plan.assignment.slp.population import Block, groups_of

DEFAULTS: Final = SearchParameters(rounds=30)


def sharpened(
    level: Level,
    filters: Filters,
    sample: Sample,
    fair: Floats,
    beta: float,
    seed: int,
    parameters: SearchParameters = DEFAULTS,
) -> Filters:
    """Filters for the children of a level that serve the sample.

    `fair` is the fair share of each leaf of the network, as a fraction of what the sample stands
    for."""
    problem = _small_problem(level, sample, fair, beta)
    block = Block(0, problem.locations, problem.interests, problem.reach.candidates)
    nothing_short = np.empty((0, block.candidates.shape[1]), dtype=np.uint64)
    groups, _ = groups_of(block, flat(problem.network), filters, nothing_short)
    spread = balanced(groups.masks, groups.sizes, problem.network.capacity, beta, total=len(sample))
    leaf = leaves_of(groups, spread, np.arange(len(sample)))
    start = adjusted(problem, leaf, filters, seed)
    return improved(problem, start, seed, parameters).filters


def _small_problem(level: Level, sample: Sample, fair: Floats, beta: float) -> Problem:
    children = len(level)
    is_below = level.child >= 0
    capacity = np.bincount(level.child[is_below], fair[is_below], children).astype(np.float64)
    nowhere = np.zeros((children, 1))
    network = Network(
        publisher=np.zeros(1),
        points=nowhere,
        parent=np.full(children, PUBLISHER, dtype=np.int32),
        order=np.arange(children, dtype=np.int32),
        leaves=np.arange(children, dtype=np.int32),
        tree_ms=np.zeros(children),
        complexity=level.complexity,
        capacity=capacity,
    )
    candidates = np.zeros((len(sample), -(-children // 64)), dtype=np.uint64)
    kernels.children_of(sample.candidates, level.child, candidates)
    count = len(sample)
    return Problem(
        network=network,
        locations=np.zeros((count, 1)),
        interests=sample.interests,
        delay_max=np.zeros(count),
        reach=Reach(np.zeros(count), candidates),
        beta=beta,
        beta_max=beta,
    )
