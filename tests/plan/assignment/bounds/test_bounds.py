"""The proven bound is below whatever any algorithm finds, and is what it should be by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.problems import drawn, problems
from tests.support.volumes import union_volume

from gravitate.plan.assignment.bounds.bounds import (
    BoundParameters,
    bound_of,
    counted,
    lower_bound,
    plan_of,
)
from gravitate.plan.assignment.bounds.hulls import captive_hulls, least_volume
from gravitate.plan.assignment.greedy.greedy import gr, gr_star
from gravitate.plan.assignment.problem.problem import Problem, network_of, problem_of
from gravitate.plan.assignment.problem.solution import measures, violations
from gravitate.plan.assignment.search.searching import SearchParameters, improved

KNOWN = 86.58945214547342
"""The bound of a drawn problem with cells at all edges."""


@given(problems(), st.integers(0, 2), st.sampled_from((1, 2, 128)))
def test_no_valid_solution_is_below_the_bound(problem: Problem, seed: int, cells: int) -> None:
    bound = lower_bound(problem, BoundParameters(cells))
    for algorithm in (gr, gr_star):
        start = algorithm(problem, seed)
        short = SearchParameters(rounds=1, attempts_min=30)
        for found in (start, improved(problem, start, seed, short)):
            if not any(v.is_hard for v in violations(problem, found)):
                assert bound <= measures(problem, found).bandwidth * (1 + 1e-9) + 1e-9


@given(problems(dimensions=(1, 2)))
def test_the_bound_is_at_least_the_union_of_interests(problem: Problem) -> None:
    depth_min = 1  # every leaf is below the publisher, perhaps with brokers between
    assert lower_bound(problem) >= depth_min * union_volume(problem.interests) - 1e-9


def test_loads_ask_for_more_leaves() -> None:
    # Eight want the same square and four leaves may have three each: three leaves.
    network = network_of([0.0], [[1.0], [1.0], [-1.0], [-1.0]])
    problem = problem_of(network, [[0.0]] * 8, [[[0, 0], [1, 1]]] * 8, 0.1, 1.5, 1.5)
    assert lower_bound(problem) == pytest.approx(3.0)


def test_places_far_from_each_other_ask_for_a_leaf_each_and_inner_brokers_too() -> None:
    # Two inner brokers with two leaves each; everybody wants the same.
    points = [[10.0], [-10.0], [11.0], [12.0], [-11.0], [-12.0]]
    network = network_of([0.0], points, [-1, -1, 0, 0, 1, 1])
    problem = problem_of(network, [[11.0], [-12.0]], [[[0, 0], [2, 1]]] * 2, 0.01, 4.0, 4.0)
    assert lower_bound(problem) == pytest.approx(8.0)


def test_few_boxes_ask_for_more_than_the_interests() -> None:
    network = network_of([0.0], [[1.0]], complexity=1)
    corners = [[[0, 0], [1, 1]], [[9, 9], [10, 10]]]
    problem = problem_of(network, [[1.0]] * 2, corners, 0.1, 1.0, 1.0)
    assert lower_bound(problem) == pytest.approx(100.0)


@given(problems(dimensions=(1, 2), is_one_level=True, subscribers_max=8))
def test_hulls_are_below_the_filters_of_leaves(problem: Problem) -> None:
    hulls = captive_hulls(problem.network, problem.reach.candidates, problem.interests)
    volumes = gr_star(problem).filters.volumes()
    assert (hulls <= volumes[problem.network.leaves] + 1e-9).all()


def test_a_hull_of_many_points_is_found_with_fewer() -> None:
    random = np.random.default_rng(1)
    low = random.random((60, 2)) * 10
    boxes = np.stack([low, low + 0.1], axis=1)
    hull = least_volume(boxes, 3)
    assert 10.0 < hull < 100.0


def test_counts_of_blocks_add_up() -> None:
    problem = drawn(4, levels=2)
    candidates, interests = problem.reach.candidates, problem.interests
    capacity = problem.leaf_capacities(problem.beta_max)
    plan = plan_of(problem.network, capacity, candidates, interests)
    whole = counted(plan, candidates, interests)
    blocks = [
        counted(plan, candidates[part], interests[part]) for part in (slice(700), slice(700, None))
    ]
    for level, parts in enumerate(zip(*blocks, strict=True)):
        assert (sum(parts) == whole[level]).all()
    assert bound_of(plan, whole) <= lower_bound(problem) + 1e-9


def test_a_known_problem_has_its_known_bound() -> None:
    problem = drawn(5, subscribers=400)
    fine = lower_bound(problem, BoundParameters(cells_per_axis=1_000, counts_max=10**9))
    assert union_volume(problem.interests) < fine == pytest.approx(KNOWN)
