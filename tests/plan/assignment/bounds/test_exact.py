"""The optimum agrees with trying everything; the bound is below it, our best not far above."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.problems import problems
from tests.support.volumes import union_volume

from gravitate.errors import InputError
from gravitate.plan.assignment.bounds.bounds import lower_bound
from gravitate.plan.assignment.bounds.exact import optimum
from gravitate.plan.assignment.greedy.balance import best_load_factor
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import (
    Problem,
    candidate_lists,
    network_of,
    problem_of,
)
from gravitate.plan.assignment.problem.solution import loads_of, measures, violations
from gravitate.plan.assignment.search.searching import improved


def small(seed: int, complexity: int, subscribers: int = 20, brokers: int = 5) -> Problem:
    """Random squares and places, loads that can be held."""
    random = np.random.default_rng(seed)
    middle = random.random((subscribers, 2)) * 10
    half = random.exponential(0.8, (subscribers, 2))
    network = network_of([0, 0], random.normal(0, 30, (brokers, 2)), complexity=complexity)
    found = problem_of(
        network,
        random.normal(0, 30, (subscribers, 2)),
        np.stack([middle - half, middle + half], axis=1),
        delay_max=float(random.choice([0.3, 1.0, 3.0])),
        beta=1.5,
        beta_max=1.5,
    )
    return found if best_load_factor(found) <= 1.5 else small(seed + 1_000, complexity)


def partitions(items: list[int], groups: int) -> list[list[list[int]]]:
    """All ways to deal items out to at most so many groups."""
    if not items:
        return [[]]
    found = []
    for rest in partitions(items[1:], groups):
        if len(rest) < groups:
            found.append([[items[0]], *rest])
        for number, group in enumerate(rest):
            found.append([*rest[:number], [items[0], *group], *rest[number + 1 :]])
    return found


def least_volume(problem: Problem, items: list[int], complexity: int) -> float:
    def box(group: list[int]) -> list[object]:
        own = problem.interests[group]
        return [own[:, 0].min(axis=0), own[:, 1].max(axis=0)]

    return min(
        union_volume(np.array([box(group) for group in groups])) if groups else 0.0
        for groups in partitions(items, complexity)
    )


@settings(max_examples=30)
@given(problems(subscribers_max=5, brokers_max=3, dimensions=(1, 2), is_one_level=True))
def test_the_optimum_is_that_of_trying_everything(problem: Problem) -> None:
    if best_load_factor(problem) > problem.beta_max:
        with pytest.raises(InputError, match="load balance factor"):
            optimum(problem)
        return
    network = problem.network
    capacity = problem.leaf_capacities(problem.beta_max)
    best = np.inf
    for way in itertools.product(*candidate_lists(problem.reach.candidates, len(network.leaves))):
        leaf = np.array(way, dtype=np.int32)
        if (loads_of(network, leaf) <= capacity).all():
            volumes = [
                least_volume(problem, np.flatnonzero(leaf == k).tolist(), int(complexity))
                for k, complexity in enumerate(network.complexity)
            ]
            best = min(best, sum(volumes))
    found = optimum(problem)
    assert not any(v.is_hard for v in violations(problem, found))
    assert measures(problem, found).bandwidth == pytest.approx(best)
    assert lower_bound(problem) <= best + 1e-9


@pytest.mark.parametrize("complexity", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_found_is_near_the_optimum_and_the_bound_below(seed: int, complexity: int) -> None:
    check(small(seed, complexity))


@pytest.mark.slow
@pytest.mark.parametrize("complexity", [1, 2])
@pytest.mark.parametrize("seed", range(3, 30))
def test_the_best_found_is_near_the_optimum_on_thirty(seed: int, complexity: int) -> None:
    check(small(seed, complexity))


def check(problem: Problem) -> None:
    best = optimum(problem)
    assert not any(v.is_hard for v in violations(problem, best))
    least = measures(problem, best).bandwidth
    found = improved(problem, gr_star(problem))
    assert not any(v.is_hard for v in violations(problem, found))
    assert lower_bound(problem) <= least * (1 + 1e-9)
    assert least * (1 - 1e-9) <= measures(problem, found).bandwidth <= 1.2 * least


def test_what_cannot_be_solved_is_refused() -> None:
    tree = network_of([0.0], [[1.0], [2.0]], [-1, 0])
    with pytest.raises(InputError, match="one level"):
        optimum(problem_of(tree, [[2.0]], [[[0.0], [1.0]]]))
    wide = network_of([0.0], [[1.0], [-1.0]])
    many = problem_of(wide, [[0.0]] * 40, [[[0.0], [1.0]]] * 40)
    with pytest.raises(InputError, match="40 subscribers with up to 36 on a leaf"):
        optimum(many)
