"""The assignment benchmark reports seconds, bandwidth and memory, and refuses broken results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gravitate.bench import assignment
from gravitate.errors import GravitateError, InputError
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import network_of, problem_of
from gravitate.plan.assignment.problem.solution import Solution


@pytest.mark.slow
def test_gr_star_is_beside_the_same_rule_in_python(spark: Any) -> None:
    records = assignment.run(
        ["gr*-10k"], sizes={"10k": 1_500}, spark=spark, warm_up=False, brokers=12
    )
    seconds, memory = records
    assert (seconds.case, seconds.unit) == ("gr*-10k", "s")
    assert seconds.baseline is not None
    assert seconds.ratio == pytest.approx(seconds.baseline / seconds.value)
    assert (memory.case, memory.unit) == ("gr*-10k-memory", "GiB")
    assert memory.value > 0.1


@pytest.mark.slow
def test_slp_is_beside_gr_star(spark: Any) -> None:
    records = assignment.run(
        ["slp-10k"], sizes={"10k": 1_500}, spark=spark, warm_up=False, brokers=24
    )
    assert [record.case for record in records] == ["slp-10k", "slp-10k-bandwidth", "slp-10k-memory"]
    assert all(record.baseline for record in records[:2])


def test_a_result_that_breaks_a_bound_ends_the_benchmark() -> None:
    network = network_of([0.0], [[1.0], [50.0]])
    problem = problem_of(network, np.ones((4, 1)), np.ones((4, 2, 1)), beta=2.0, beta_max=2.0)
    right = gr_star(problem, 1)
    assignment.check("right", problem, right)
    wrong = Solution(1 - right.leaf, right.filters)
    with pytest.raises(GravitateError, match="wrong breaks a bound"):
        assignment.check("wrong", problem, wrong)


def test_an_unknown_case_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="slp-2m"):
        assignment.run(["slp-2m"])
