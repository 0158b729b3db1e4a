"""The checker finds what is wrong in hand-made solutions, and measures what is right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gravitate.errors import InputError
from gravitate.plan.assignment.problem.problem import PUBLISHER, Problem, network_of, problem_of
from gravitate.plan.assignment.problem.solution import (
    Filters,
    Solution,
    filters_of,
    measures,
    violations,
)

SQUARES = [[[x, 0.0], [x + 1.0, 1.0]] for x in (0.0, 1.0, 4.0, 5.0)]
"""Interests: two squares side by side, twice."""


def two_below_one(**more: float) -> Problem:
    """Broker 0 at the publisher with the leaves 1 (left) and 2 (right) below it."""
    network = network_of([0.0], [[0.0], [-10.0], [10.0]], [PUBLISHER, 0, 0], complexity=[2, 1, 1])
    options = {"delay_max": 0.3, "beta": 1.0, "beta_max": 1.5} | more
    return problem_of(network, [[-10.0], [-9.0], [10.0], [11.0]], SQUARES, **options)


LEFT, RIGHT = [[0.0, 0.0], [2.0, 1.0]], [[4.0, 0.0], [6.0, 1.0]]


def solution(leaf: list[int], *boxes: list[list[list[float]]]) -> Solution:
    return Solution(np.array(leaf, dtype=np.int32), filters_of(boxes, 2))


def kinds(problem: Problem, found: Solution) -> list[tuple[str, int]]:
    return [(violation.kind, violation.broker) for violation in violations(problem, found)]


GOOD = solution([0, 0, 1, 1], [LEFT, RIGHT], [LEFT], [RIGHT])


def test_a_good_solution_has_no_violations() -> None:
    assert violations(two_below_one(), GOOD) == []


def test_measures_are_bandwidth_delay_and_balance() -> None:
    found = measures(two_below_one(), GOOD)
    assert found.bandwidth == 8.0
    # Subscriber 1 is at -9: 11 ms through its leaf at -10, which is the shortest there is.
    assert found.delay_rms == 0.0
    assert (found.load_deviation, found.load_balance_factor) == (0.0, 1.0)
    all_left = solution([0, 0, 0, 0], [LEFT, RIGHT], [LEFT, RIGHT], [])
    found = measures(two_below_one(), all_left)
    assert found.bandwidth == 8.0
    # Through the left leaf 30 and 31 ms instead of 10 and 11.
    assert found.delay_rms == pytest.approx(math.sqrt((2.0**2 + (20 / 11) ** 2) / 4))
    assert (found.load_deviation, found.load_balance_factor) == (2.0, 2.0)


def test_overlapping_boxes_count_once() -> None:
    wide = [[0.0, 0.0], [6.0, 1.0]]
    found = measures(two_below_one(), solution([0, 0, 1, 1], [wide, LEFT], [LEFT], [RIGHT]))
    assert found.bandwidth == 6.0 + 2.0 + 2.0


def test_too_many_boxes_are_found() -> None:
    halves = [[[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [2.0, 1.0]]]
    found = solution([0, 0, 1, 1], [LEFT, RIGHT], halves, [RIGHT])
    assert kinds(two_below_one(), found) == [("complexity", 1)]


def test_a_filter_outside_its_parents_is_found() -> None:
    found = solution([0, 0, 1, 1], [LEFT], [LEFT], [RIGHT])
    assert kinds(two_below_one(), found) == [("nesting", 2)]
    assert kinds(two_below_one(), solution([0, 0, 1, 1], [], [LEFT], [RIGHT])) == [
        ("nesting", 1),
        ("nesting", 2),
    ]


def test_a_filter_may_lie_across_boxes_of_its_parent() -> None:
    parts = [[[0.0, 0.0], [1.5, 1.0]], [[1.5, 0.0], [6.0, 1.0]]]
    assert kinds(two_below_one(), solution([0, 0, 1, 1], parts, [LEFT], [RIGHT])) == []
    gap = [[[0.0, 0.0], [1.5, 1.0]], [[1.500001, 0.0], [6.0, 1.0]]]
    found = solution([0, 0, 1, 1], gap, [LEFT], [RIGHT])
    assert kinds(two_below_one(), found) == [("nesting", 1)]


def test_an_interest_outside_its_leafs_filter_is_found() -> None:
    small = [[0.0, 0.0], [1.5, 1.0]]
    found = violations(two_below_one(), solution([0, 0, 1, 1], [LEFT, RIGHT], [small], [RIGHT]))
    assert [violation.message for violation in found] == [
        "1 subscribers of broker 1 want more than its filter lets pass, subscriber 1 for one"
    ]
    assert kinds(two_below_one(), solution([0, 0, 1, 1], [], [], [])) == [
        ("interest", 1),
        ("interest", 2),
    ]


def test_a_leaf_too_far_away_is_found() -> None:
    swapped = solution([1, 0, 0, 1], [LEFT, RIGHT], [[[1.0, 0.0], [5.0, 1.0]]], [RIGHT])
    found = violations(two_below_one(), swapped)
    assert [(v.kind, v.broker) for v in found if v.kind == "latency"] == [
        ("latency", 1),
        ("latency", 2),
    ]
    assert "subscriber 2 for one: 30 ms, 13 allowed" in found[-2].message


def test_load_over_the_allowed_and_over_the_wanted_are_told_apart() -> None:
    problem = two_below_one(delay_max=9.0)
    everything = [[0.0, 0.0], [6.0, 1.0]]
    three = solution([0, 0, 0, 1], [everything], [everything], [RIGHT])
    (wanted,) = violations(problem, three)
    assert (wanted.kind, wanted.broker, wanted.is_hard) == ("balance", 1, False)
    assert (wanted.found, wanted.accepted) == (1.5, 1.0)
    four = solution([0, 0, 0, 0], [everything], [everything], [])
    (broken,) = violations(problem, four)
    assert (broken.kind, broken.broker, broken.is_hard) == ("load", 1, True)
    assert broken.message == "broker 1 has 4 subscribers, 2 times its share, 1.5 allowed"


def test_a_leaf_without_capacity_may_have_nobody() -> None:
    network = network_of([0.0], [[1.0], [1.0]], capacity=[1.0, 0.0])
    problem = problem_of(network, [[1.0], [1.0]], SQUARES[:2])
    box = [[0.0, 0.0], [2.0, 1.0]]
    assert kinds(problem, solution([0, 0], [box], [])) == []
    assert kinds(problem, solution([0, 1], [box], [box])) == [("load", 1)]


def test_an_assignment_of_nobody_is_fine() -> None:
    network = network_of([0.0], [[1.0]])
    problem = problem_of(network, np.empty((0, 1)), np.empty((0, 2, 2)))
    empty = Solution(np.empty(0, np.int32), filters_of([[]], 2))
    assert violations(problem, empty) == []
    assert measures(problem, empty).load_balance_factor == 0.0


def test_what_does_not_fit_the_problem_is_refused() -> None:
    problem = two_below_one()
    with pytest.raises(InputError, match="leaf 2 of subscriber 1 is not there: write 0 to 1"):
        violations(problem, solution([0, 2, 0, 0], [], [], []))
    with pytest.raises(InputError, match="1 leaves: write one for each of 4 subscribers"):
        measures(problem, solution([0], [], [], []))
    with pytest.raises(InputError, match="2 filters: write one for each of 3 brokers"):
        violations(problem, solution([0, 0, 1, 1], [], []))
    flat = Filters(np.empty((0, 2, 1)), np.zeros(4, dtype=np.int64))
    with pytest.raises(InputError, match="filters of 1 dimensions: interests have 2"):
        violations(problem, Solution(GOOD.leaf, flat))
