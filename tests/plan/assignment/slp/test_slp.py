"""SLP1 and SLP: bounds that can be held are held, at a price near that of linear programs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.support.hard_for_greedy import trap
from tests.support.problems import drawn

from gravitate.plan.assignment.greedy.balance import best_load_factor
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import Problem
from gravitate.plan.assignment.problem.solution import measures, violations
from gravitate.plan.assignment.search.searching import SearchParameters, improved
from gravitate.plan.assignment.slp.filter_assign import FilterAssignParameters
from gravitate.plan.assignment.slp.slp import Planned, SlpParameters, slp, slp1

QUICK = FilterAssignParameters(
    certificate_size=32,
    stages=1,
    rounding_sample_per_child=50,
    rounding_sample_min=200,
    search=SearchParameters(rounds=10, attempts_min=500),
)
SHORT = SlpParameters(filters=QUICK, inner_filters=QUICK)


def hard(problem: Problem, planned: Planned) -> list[str]:
    return [v.message for v in violations(problem, planned.solution) if v.is_hard]


@pytest.mark.parametrize("seed", range(3))
def test_slp1_holds_all_bounds_and_costs_no_more_than_gr_star(seed: int) -> None:
    problem = drawn(seed, subscribers=1_500, brokers=12)
    planned = slp1(problem, seed, SHORT)
    assert hard(problem, planned) == []
    ours, theirs = (
        measures(problem, one).bandwidth for one in (planned.solution, gr_star(problem, seed))
    )
    assert ours <= 1.2 * theirs
    assert 0.0 < planned.yardstick < ours
    assert planned.solves >= 2


@pytest.mark.parametrize("factor", [1.0, 1.02])
@pytest.mark.parametrize("seed", range(3))
def test_loads_on_a_tree_are_within_beta_however_tight_where_that_can_be(
    seed: int, factor: float
) -> None:
    problem = drawn(seed, subscribers=1_500, brokers=20, levels=2)
    least = best_load_factor(problem)
    tight = msgspec.structs.replace(problem, beta=factor * least, beta_max=1.05 * least)
    planned = slp(tight, seed, SHORT)
    assert violations(tight, planned.solution) == []
    quick = SearchParameters(rounds=2, attempts_min=60)
    assert violations(tight, improved(tight, planned.solution, seed, quick)) == []


def test_where_nobody_can_be_within_beta_the_bound_that_must_hold_holds() -> None:
    problem = drawn(0, subscribers=1_500, brokers=20, levels=2)
    least = best_load_factor(problem)
    tight = msgspec.structs.replace(problem, beta=0.9 * least, beta_max=1.01 * least)
    assert hard(tight, slp(tight, 0, SHORT)) == []


def test_one_level_is_the_same_for_both() -> None:
    problem = drawn(7, subscribers=800, brokers=8)
    one, other = slp1(problem, 1, SHORT), slp(problem, 1, SHORT)
    assert hard(problem, one) == hard(problem, other) == []
    assert other.yardstick == pytest.approx(one.yardstick, rel=0.35)


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    problem = drawn(8, subscribers=800, brokers=8)
    one, again, other = (slp1(problem, seed, SHORT).solution for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.leaf, again.leaf)
    np.testing.assert_array_equal(one.filters.boxes, again.filters.boxes)
    assert (one.leaf != other.leaf).any()


def test_threads_change_nothing() -> None:
    problem = drawn(9, subscribers=500, brokers=6)
    single = msgspec.structs.replace(QUICK, lp=msgspec.structs.replace(QUICK.lp, threads=1))
    one = slp1(problem, 1, SHORT).solution
    other = slp1(problem, 1, SlpParameters(filters=single)).solution
    np.testing.assert_array_equal(one.leaf, other.leaf)


def test_slp1_does_not_fall_for_what_makes_gr_star_a_hundred_times_worse() -> None:
    problem = trap(100.0)
    theirs = measures(problem, gr_star(problem, 1)).bandwidth
    planned = slp1(problem, 1, SHORT)
    assert hard(problem, planned) == []
    assert measures(problem, planned.solution).bandwidth < theirs / 20


def test_nobody_is_a_problem_too() -> None:
    problem = drawn(1, subscribers=0, brokers=3)
    for planned in (slp1(problem, 1, SHORT), slp(problem, 1, SHORT)):
        assert len(planned.solution.leaf) == 0
        assert planned.yardstick == 0.0
