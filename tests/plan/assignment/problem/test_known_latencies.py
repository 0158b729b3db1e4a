"""Problems whose latencies are given, not distances of points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.plan.assignment.algorithms import ALGORITHMS, solve
from gravitate.plan.assignment.problem.known_latencies import problem_at, with_tree_ms
from gravitate.plan.assignment.problem.problem import (
    Network,
    Places,
    Problem,
    candidate_lists,
    latencies_ms,
    network_of,
    problem_of,
)
from gravitate.plan.assignment.problem.solution import violations

POINTS = [[1.0], [3.0]]
INTERESTS = [[[0.0], [0.5]], [[0.5], [1.0]], [[0.0], [1.0]]]


def network(tree_ms: tuple[float, float] = (10.0, 20.0)) -> Network:
    return with_tree_ms(network_of([0.0], POINTS), tree_ms)


def posed(**options: object) -> Problem:
    places = Places(np.array([0, 1, 1], dtype=np.int32), np.array([[0.0, 15.0], [30.0, 0.0]]))
    return problem_at(network(), POINTS, places, INTERESTS, **options)  # type: ignore[arg-type]


def test_latencies_are_those_given() -> None:
    problem = posed(delay_max=0.5)
    assert problem.reach.shortest_ms.tolist() == [10.0, 20.0, 20.0]
    assert latencies_ms(problem, np.array([1, 0, 1], dtype=np.int32)).tolist() == [35.0, 40.0, 20.0]
    assert candidate_lists(problem.reach.candidates, 2) == [[0], [1], [1]]
    loose = posed(delay_max=1.0)
    assert candidate_lists(loose.reach.candidates, 2) == [[0], [0, 1], [0, 1]]


def test_slack_makes_way_for_who_has_no_way_to_go_at_all() -> None:
    problem = posed(delay_max=0.0, slack_ms=25.0)
    assert problem.bound_ms.tolist() == [35.0, 45.0, 45.0]
    assert candidate_lists(problem.reach.candidates, 2) == [[0, 1]] * 3


def test_who_is_fixed_has_its_own_leaf_alone() -> None:
    fixed = np.array([1, -1, 0], dtype=np.int32)
    problem = posed(delay_max=1.0, fixed=fixed)
    assert candidate_lists(problem.reach.candidates, 2) == [[1], [0, 1], [0]]
    assert solve("Gr*", problem).leaf[[0, 2]].tolist() == [1, 0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_such_a_problem_and_the_checker_knows_its_bounds(
    algorithm: str,
) -> None:
    problem = posed(delay_max=0.0, slack_ms=25.0, beta=2.0, beta_max=2.0)
    assert [it for it in violations(problem, solve(algorithm, problem)) if it.is_hard] == []
    strict = posed(delay_max=0.0, beta=2.0, beta_max=2.0)
    wrong = solve("Gr*", problem)
    late = np.flatnonzero(latencies_ms(strict, wrong.leaf) > strict.reach.shortest_ms)
    kinds = {it.kind for it in violations(strict, wrong)}
    assert ("latency" in kinds) == bool(len(late))


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=70),
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=5),
    st.floats(0, 2),
)
def test_distances_of_points_given_as_latencies_make_the_same_problem(
    brokers: list[tuple[float, float]], places: list[tuple[float, float]], delay_max: float
) -> None:
    plain = network_of([0.0, 0.0], brokers)
    where = np.array(places)
    interests = np.tile([[0.0], [1.0]], (len(places), 1, 1))
    expected = problem_of(plain, where, interests, delay_max)
    steps = where[:, None] - np.array(brokers)
    leaf_ms = np.sqrt(steps[:, :, 0] * steps[:, :, 0] + steps[:, :, 1] * steps[:, :, 1])
    at = np.arange(len(places), dtype=np.int32)
    found = problem_at(plain, where, Places(at, leaf_ms), interests, delay_max)
    assert found.reach.shortest_ms.tolist() == pytest.approx(expected.reach.shortest_ms.tolist())
    assert found.reach.candidates.shape == expected.reach.candidates.shape
    for one, other in zip(
        candidate_lists(found.reach.candidates, len(brokers)),
        candidate_lists(expected.reach.candidates, len(brokers)),
        strict=True,
    ):
        assert one == other


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: network((1.0, -1.0)), "tree latencies .* are not accepted"),
        (lambda: posed(slack_ms=-1.0), "slack of -1 ms is not accepted"),
        (
            lambda: problem_at(
                network(), POINTS, Places(np.zeros(3, np.int32), np.zeros((1, 3))), INTERESTS
            ),
            r"latencies of shape \(1, 3\) between places and leaves",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(made: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        made()  # type: ignore[operator]
