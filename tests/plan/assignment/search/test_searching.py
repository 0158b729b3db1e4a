"""The local search never makes things worse, holds the bounds, and gets out of Gr*'s traps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hard_for_greedy import BEST, trap
from tests.support.problems import drawn, problems

from gravitate.errors import InputError
from gravitate.plan.assignment.greedy.greedy import (
    closest_without_balance,
    gr,
    gr_star,
    gr_without_latency,
)
from gravitate.plan.assignment.problem.problem import (
    Problem,
    candidate_lists,
    network_of,
    problem_of,
)
from gravitate.plan.assignment.problem.solution import (
    Solution,
    filters_of,
    loads_of,
    measures,
    violations,
)
from gravitate.plan.assignment.search.adjusting import adjusted
from gravitate.plan.assignment.search.searching import SearchParameters, improved

KNOWN = 546.8477671230079
"""Of a drawn problem from Gr*, whose bandwidth is 756.27."""
SHORT = SearchParameters(rounds=2, attempts_min=60)


def hard(problem: Problem, solution: Solution) -> set[str]:
    return {v.kind for v in violations(problem, solution) if v.is_hard}


@given(problems(), st.integers(0, 3), st.sampled_from((gr, gr_star)), st.sampled_from((0.0, 0.5)))
def test_the_result_is_never_worse_and_within_bounds(
    problem: Problem, seed: int, algorithm: object, heat: float
) -> None:
    start = algorithm(problem, seed)  # type: ignore[operator]
    found = improved(problem, start, seed, SearchParameters(rounds=2, attempts_min=60, heat=heat))
    assert hard(problem, found) <= hard(problem, start)
    if "load" not in hard(problem, start):
        before = measures(problem, start).load_balance_factor
        after = measures(problem, found).load_balance_factor
        assert after <= max(problem.beta, before) * (1 + 1e-9)
        # Bandwidth is only given for loads that are within beta at last.
        if _is_balanced(problem, start) or not _is_balanced(problem, found):
            assert measures(problem, found).bandwidth <= measures(problem, start).bandwidth


def _is_balanced(problem: Problem, solution: Solution) -> bool:
    return "balance" not in {v.kind for v in violations(problem, solution)}


@given(problems(), st.integers(0, 3), st.sampled_from((gr, gr_star, closest_without_balance)))
def test_loads_are_within_beta_where_that_can_be(
    problem: Problem, seed: int, algorithm: object
) -> None:
    found = improved(problem, algorithm(problem, seed), seed, SHORT)  # type: ignore[operator]
    if _can_be_held(problem, problem.leaf_capacities(problem.beta).tolist()):
        assert violations(problem, found) == []


@given(problems(), st.integers(0, 3))
def test_a_start_that_breaks_bounds_is_mended_as_far_as_candidates_allow(
    problem: Problem, seed: int
) -> None:
    allowed = problem.leaf_capacities(problem.beta_max)
    for algorithm in (gr_without_latency, closest_without_balance):
        found = improved(problem, algorithm(problem, seed), seed, SHORT)
        assert hard(problem, found) <= {"load"}
        if "load" in hard(problem, found):
            assert not _can_be_held(problem, allowed.tolist())


def _can_be_held(problem: Problem, allowed: list[int]) -> bool:
    """Whether some assignment has no leaf above its number: by augmenting paths, one by one."""
    choices = candidate_lists(problem.reach.candidates, len(allowed))
    served: list[list[int]] = [[] for _ in allowed]

    def place(subscriber: int, seen: set[int]) -> bool:
        for leaf in choices[subscriber]:
            if leaf in seen:
                continue
            seen.add(leaf)
            if len(served[leaf]) < allowed[leaf]:
                served[leaf].append(subscriber)
                return True
            for other in served[leaf]:
                if place(other, seen):
                    served[leaf].remove(other)
                    served[leaf].append(subscriber)
                    return True
        return False

    return all(place(subscriber, set()) for subscriber in range(len(problem)))


@settings(max_examples=25)
@given(problems(subscribers_max=5, brokers_max=3, dimensions=(1, 2), is_one_level=True))
def test_tiny_problems_are_solved_nearly_to_the_best(problem: Problem) -> None:
    start = gr_star(problem)
    if hard(problem, start):
        return
    choices = candidate_lists(problem.reach.candidates, len(problem.network.leaves))
    capacity = problem.leaf_capacities(
        max(problem.beta, measures(problem, start).load_balance_factor)
    )
    best = min(
        (
            measures(problem, adjusted(problem, leaf)).bandwidth
            for way in itertools.product(*choices)
            for leaf in [np.array(way, dtype=np.int32)]
            if (loads_of(problem.network, leaf) <= capacity).all()
        ),
        default=0.0,
    )
    found = measures(problem, improved(problem, start)).bandwidth
    assert found <= 1.2 * best + 1e-9


@pytest.mark.parametrize("worse", [10.0, 1_000.0, 100_000.0])
def test_gr_star_is_orders_of_magnitude_worse_and_the_search_is_not(worse: float) -> None:
    problem = trap(worse)
    start = gr_star(problem)
    assert not hard(problem, start)
    assert measures(problem, start).bandwidth > worse
    found = improved(problem, start)
    assert not hard(problem, found)
    assert measures(problem, found).bandwidth == pytest.approx(BEST)


def test_full_leaves_exchange_subscribers() -> None:
    # Two leaves with room for two each; each has one subscriber of either interest.
    network = network_of([0.0], [[-1.0], [1.0]], complexity=1)
    interests = np.array([[[k, 0.0], [k + 1.0, 1.0]] for k in (0.0, 9.0, 0.0, 9.0)])
    problem = problem_of(network, [[0.0]] * 4, interests, 0.1, 1.0, 1.0)
    wide = [[[0.0, 0.0], [10.0, 1.0]]]
    start = Solution(np.array([0, 0, 1, 1], dtype=np.int32), filters_of([wide, wide], 2))
    found = improved(problem, start, 0, SHORT)
    assert measures(problem, found).bandwidth == pytest.approx(2.0)
    assert loads_of(network, found.leaf).tolist() == [2, 2]


@pytest.mark.parametrize("levels", [1, 2])
def test_much_is_gained_on_gr_star_and_the_same_each_time(levels: int) -> None:
    problem = drawn(1, levels=levels)
    start = gr_star(problem)
    few = SearchParameters(rounds=10, attempts_min=0)
    one, again = improved(problem, start, 3, few), improved(problem, start, 3, few)
    other = improved(problem, start, 4, few)
    assert (one.leaf == again.leaf).all()
    assert (one.filters.boxes == again.filters.boxes).all()
    assert (one.leaf != other.leaf).any()
    assert not hard(problem, one)
    assert measures(problem, one).bandwidth < 0.9 * measures(problem, start).bandwidth


def test_a_known_problem_gets_its_known_answer() -> None:
    problem = drawn(5)
    found = improved(problem, gr_star(problem, 5), 5, SearchParameters(rounds=10, attempts_min=0))
    assert measures(problem, found).bandwidth == pytest.approx(KNOWN)


def test_filters_that_hold_interests_only_together_are_replaced() -> None:
    network = network_of([0.0], [[1.0]], complexity=2)
    problem = problem_of(network, [[1.0]], [[[0.0, 0.0], [4.0, 1.0]]], 0.1, 1.0, 1.0)
    halves = [[[0.0, 0.0], [2.0, 1.0]], [[2.0, 0.0], [4.0, 2.0]]]
    start = Solution(np.zeros(1, dtype=np.int32), filters_of([halves], 2))
    assert not violations(problem, start)
    assert measures(problem, improved(problem, start, 0, SHORT)).bandwidth == pytest.approx(4.0)


def test_no_subscribers_are_no_matter() -> None:
    problem = problem_of(network_of([0.0], [[1.0]]), np.empty((0, 1)), np.empty((0, 2, 2)))
    start = gr_star(problem)
    assert improved(problem, start) is start


def test_shares_of_blocks_are_checked() -> None:
    problem = drawn(1, subscribers=20)
    with pytest.raises(InputError, match=r"add up to 1\.5"):
        improved(problem, gr_star(problem), 0, SearchParameters(sides=0.8))
