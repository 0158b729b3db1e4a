"""Every algorithm by its name gives a whole solution."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.support.problems import drawn, problems

from gravitate.errors import InputError
from gravitate.plan.assignment.algorithms import ALGORITHMS, solve
from gravitate.plan.assignment.greedy.balance import best_load_factor
from gravitate.plan.assignment.problem.problem import Problem
from gravitate.plan.assignment.problem.solution import measures, violations

IGNORED = {
    "Gr": {"load", "balance"},
    "Gr*": {"load", "balance"},
    "Gr-l": {"load", "balance", "latency"},
    "Closest-b": {"load", "balance", "latency"},
    "Closest": {"load", "balance", "latency"},
    "Balance": {"load", "balance"},
}
"""What an algorithm does not look at, or cannot always hold."""
THOROUGH = ("SLP1", "SLP", "best")
"""Those that hold every bound that can be held."""


@given(problems())
def test_whatever_is_broken_is_what_an_algorithm_ignores(problem: Problem) -> None:
    assert {*IGNORED, *THOROUGH} == set(ALGORITHMS)
    for name, ignored in IGNORED.items():
        found = violations(problem, solve(name, problem, 1))
        assert {violation.kind for violation in found} <= ignored


@settings(max_examples=12)
@given(problems())
def test_thorough_ones_hold_what_can_be_held(problem: Problem) -> None:
    least = best_load_factor(problem) if len(problem) else 0.0
    accepted = {
        kind
        for kind, bound in (("balance", problem.beta), ("load", problem.beta_max))
        if least > bound
    }
    for name in THOROUGH:
        found = violations(problem, solve(name, problem, 1))
        assert {violation.kind for violation in found} <= accepted, name


def test_those_that_ignore_interests_cost_more() -> None:
    problem = drawn(6)
    cost = {name: measures(problem, solve(name, problem)).bandwidth for name in IGNORED}
    assert max(cost["Gr"], cost["Gr*"]) < min(cost["Closest"], cost["Closest-b"], cost["Balance"])


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"algorithm 'Best' is not known: write one of Gr, Gr\*"):
        solve("Best", drawn(0))
