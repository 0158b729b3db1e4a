"""The greedy kernels do what the paper says word for word, and hold what they can hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.assignment.greedy.literal_greedy import LiteralGreedy
from tests.support.problems import drawn, problems

from gravitate.plan.assignment.greedy.greedy import (
    GreedyParameters,
    closest,
    closest_without_balance,
    gr,
    gr_star,
    gr_without_latency,
    with_grown_filters,
)
from gravitate.plan.assignment.problem.problem import Problem, network_of, problem_of
from gravitate.plan.assignment.problem.solution import (
    Solution,
    delays,
    loads_of,
    measures,
    violations,
)


def kinds(problem: Problem, solution: Solution) -> set[str]:
    return {violation.kind for violation in violations(problem, solution)}


@given(problems(), st.integers(0, 3), st.booleans(), st.sampled_from((1, 4)))
def test_the_kernels_do_what_the_paper_says(
    problem: Problem, seed: int, fewest_first: bool, steps: int
) -> None:
    literal = LiteralGreedy(problem, seed, fewest_first, steps)
    algorithm = gr_star if fewest_first else gr
    found = algorithm(problem, seed, GreedyParameters(steps))
    assert found.leaf.tolist() == literal.leaf
    for broker, expected in enumerate(literal.filters):
        own = found.filters.of(broker).astype(int).tolist()
        assert sorted(own) == sorted([list(low), list(high)] for low, high in expected)


@given(problems(), st.integers(0, 3))
def test_filters_nest_and_latencies_hold_whatever_the_load(problem: Problem, seed: int) -> None:
    for algorithm in (gr, gr_star):
        assert kinds(problem, algorithm(problem, seed)) <= {"load", "balance"}
    assert kinds(problem, gr_without_latency(problem, seed)) <= {"load", "balance", "latency"}
    for other in (closest, closest_without_balance):
        assert kinds(problem, other(problem, seed)) <= {"load", "balance", "latency"}


@given(problems(), st.integers(0, 3))
def test_the_closest_leaf_serves_when_load_is_no_matter(problem: Problem, seed: int) -> None:
    found = closest_without_balance(problem, seed)
    points = problem.network.leaf_points
    for location, leaf in zip(problem.locations, found.leaf, strict=True):
        hops = [math.dist(location, point) for point in points]
        assert leaf == hops.index(min(hops))


@given(problems(), st.integers(0, 3))
def test_closest_stays_within_the_allowed_load_where_that_is_possible(
    problem: Problem, seed: int
) -> None:
    loads = loads_of(problem.network, closest(problem, seed).leaf)
    capacities = problem.leaf_capacities(problem.beta_max)
    if capacities.sum() >= len(problem):
        assert (loads <= capacities).all()
    else:
        assert (loads >= capacities).all()


@pytest.mark.parametrize("levels", [1, 2])
def test_gr_star_holds_all_bounds_where_there_is_room(levels: int) -> None:
    for seed in range(3):
        problem = drawn(seed, levels=levels)
        found = gr_star(problem, seed)
        assert not [v for v in violations(problem, found) if v.is_hard]
        assert measures(problem, found).delay_rms <= 1.0
        without = measures(problem, closest(problem, seed))
        assert measures(problem, found).bandwidth < without.bandwidth


def test_the_bound_rises_only_as_far_as_is_needed() -> None:
    # Three of four can be served by leaf 0 alone, and two are its fair share.
    network = network_of([0.0], [[-10.0], [10.0]])
    interests = np.array([[[k, 0.0], [k + 1.0, 1.0]] for k in range(4)])
    problem = problem_of(network, [[-10.0]] * 3 + [[10.0]], interests, 0.1, 1.0, 2.0)
    for algorithm in (gr, gr_star):
        found = algorithm(problem)
        assert found.leaf.tolist() == [0, 0, 0, 1]
        assert kinds(problem, found) == {"balance"}


def test_those_with_one_choice_go_first_in_gr_star() -> None:
    # Subscribers in the middle can go either way; those on the left cannot.
    network = network_of([0.0], [[-10.0], [10.0]], complexity=1)
    locations = [[0.0]] * 10 + [[-10.0]] * 10
    interests = [[[0.0, 0.0], [1.0, 1.0]]] * 20
    problem = problem_of(network, locations, interests, 0.1, 1.0, 1.0)
    broken = 0
    for seed in range(5):
        assert kinds(problem, gr_star(problem, seed)) == set()
        broken += "load" in kinds(problem, gr(problem, seed))
    assert broken == 5


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    problem = drawn(1)
    one, again, other = gr(problem, 1), gr(problem, 1), gr(problem, 2)
    assert (one.leaf == again.leaf).all()
    assert (one.filters.boxes == again.filters.boxes).all()
    assert (one.leaf != other.leaf).any()


def test_without_latency_bandwidth_is_less_and_delays_are_longer() -> None:
    problem = drawn(2)
    bounded, free = gr(problem), gr_without_latency(problem)
    assert measures(problem, free).bandwidth < measures(problem, bounded).bandwidth
    assert delays(problem, free.leaf).max() > delays(problem, bounded.leaf).max()


def test_filters_for_given_leaves_are_valid() -> None:
    problem = drawn(3, levels=2)
    leaf = gr_star(problem).leaf
    assert kinds(problem, with_grown_filters(problem, leaf)) <= {"balance"}


def test_a_known_problem_gets_its_known_answer() -> None:
    found = measures(drawn(5), gr_star(drawn(5), 5))
    assert found.bandwidth == pytest.approx(756.2689757968126)
