"""Assignment with the subscribers on Spark: the same as in memory, however they are dealt out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gravitate.errors import InputError
from gravitate.pipeline.assignment.solving import (
    Bounds,
    problem_at_driver,
    slp1_on_spark,
    slp_on_spark,
    subscribers_on_spark,
)
from gravitate.plan.assignment.problem.problem import Network, Problem, network_of, problem_of
from gravitate.plan.assignment.problem.solution import violations
from gravitate.plan.assignment.search.searching import SearchParameters
from gravitate.plan.assignment.slp.filter_assign import FilterAssignParameters
from gravitate.plan.assignment.slp.population import BLOCK
from gravitate.plan.assignment.slp.slp import SlpParameters, slp, slp1

COUNT = BLOCK + 3_000
BOUNDS = Bounds(1.5, 2.0)
ON_TREE = Bounds(1.7, 2.0)
"""Little above the least there: some have to go on at the end."""
QUICK = FilterAssignParameters(
    certificate_size=32,
    stages=1,
    leftover_max=0.001,
    rounding_sample_min=500,
    search=SearchParameters(rounds=5, attempts_min=200),
)
SHORT = SlpParameters(filters=QUICK, inner_filters=QUICK)


def network(levels: int) -> Network:
    random = np.random.default_rng(3)
    points = random.normal(0.0, 30.0, (12, 3))
    parent = np.full(12, -1)
    if levels == 2:
        parent[3:] = np.arange(9) % 3
    return network_of([0.0, 0.0, 0.0], points, parent, 2)


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    random = np.random.default_rng(4)
    middle = np.round(random.random((COUNT, 2)) * 10, 3)
    half = np.round(random.exponential(0.3, (COUNT, 2)), 3)
    columns = (random.normal(0.0, 30.0, (COUNT, 3)), middle - half, middle + half)
    made = [(at, *(column[at].tolist() for column in columns)) for at in range(COUNT)]
    kinds = "subscriber long, location array<double>, low array<double>, high array<double>"
    frame = spark.createDataFrame(made, kinds).persist()
    yield frame
    frame.unpersist()


def in_memory(rows: Any, given: Network, bounds: Bounds = BOUNDS) -> Problem:
    collected = rows.orderBy("subscriber").collect()
    interests = np.array([[row["low"], row["high"]] for row in collected])
    locations = np.array([row["location"] for row in collected])
    return problem_of(given, locations, interests, 0.8, bounds.beta, bounds.beta_max)


@pytest.mark.slow
def test_slp1_is_the_same_on_any_number_of_partitions(rows: Any) -> None:
    given = network(1)
    problem = in_memory(rows, given)
    wanted = slp1(problem, 1, SHORT)
    for partitions in (1, 3):
        with subscribers_on_spark(rows.repartition(partitions), given, 0.8) as crowd:
            found = slp1_on_spark(crowd, BOUNDS, 1, SHORT)
            whole = problem_at_driver(crowd, BOUNDS)
        np.testing.assert_array_equal(whole.interests, problem.interests)
        np.testing.assert_array_equal(whole.reach.candidates, problem.reach.candidates)
        assert found.yardstick == wanted.yardstick
        assert found.solves == wanted.solves
        np.testing.assert_array_equal(found.solution.leaf, wanted.solution.leaf)
        np.testing.assert_array_equal(found.solution.filters.boxes, wanted.solution.filters.boxes)
    assert not [v for v in violations(problem, wanted.solution) if v.is_hard]


def test_slp_is_the_same_with_each_part_of_the_tree_a_task(rows: Any) -> None:
    given = network(2)
    problem = in_memory(rows, given, ON_TREE)
    wanted = slp(problem, 1, SHORT)
    with subscribers_on_spark(rows, given, 0.8) as crowd:
        found = slp_on_spark(crowd, ON_TREE, 1, SHORT)
    np.testing.assert_array_equal(found.solution.leaf, wanted.solution.leaf)
    np.testing.assert_array_equal(found.solution.filters.boxes, wanted.solution.filters.boxes)
    assert found.yardstick == pytest.approx(wanted.yardstick)
    assert violations(problem, found.solution) == []


def test_subscribers_have_to_be_numbered_and_there(spark: Any, rows: Any) -> None:
    with (
        pytest.raises(InputError, match="number them 0 to 9"),
        subscribers_on_spark(rows.where("subscriber between 5 and 14"), network(1)),
    ):
        pass
    with (
        pytest.raises(InputError, match="there are no subscribers"),
        subscribers_on_spark(rows.where("subscriber < 0"), network(1)),
    ):
        pass
