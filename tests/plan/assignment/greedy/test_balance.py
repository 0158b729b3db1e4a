"""Balance finds the least load balance factor: no assignment has a lower one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.problems import drawn, problems

from gravitate.plan.assignment.greedy.balance import balance, balanced, best_load_factor, grouped
from gravitate.plan.assignment.problem.problem import (
    Problem,
    candidate_lists,
    network_of,
    problem_of,
)
from gravitate.plan.assignment.problem.solution import load_factors, loads_of, measures, violations


@given(problems(subscribers_max=6, brokers_max=5))
def test_no_assignment_is_balanced_better(problem: Problem) -> None:
    lists = candidate_lists(problem.reach.candidates, len(problem.network.leaves))

    def factor(leaf: tuple[int, ...]) -> float:
        loads = loads_of(problem.network, np.array(leaf, dtype=np.int32))
        return float(load_factors(problem, loads).max())

    least = min(map(factor, itertools.product(*lists)))
    found = balance(problem, 3)
    assert measures(problem, found).load_balance_factor == pytest.approx(least)
    assert {violation.kind for violation in violations(problem, found)} <= {"load", "balance"}
    if len(problem):
        assert best_load_factor(problem) == pytest.approx(least)


masks = st.lists(st.integers(1, 31), min_size=1, max_size=12)


@given(masks, st.lists(st.integers(0, 3), min_size=5, max_size=5), st.floats(0.5, 4.0), st.data())
def test_a_spread_serves_everybody_within_the_factor(
    sets: list[int], weights: list[int], at_least: float, data: st.DataObject
) -> None:
    rows = np.array(sorted(set(sets)), dtype=np.uint64)[:, None]
    sizes = np.array([data.draw(st.integers(1, 20)) for _ in rows], dtype=np.int64)
    capacity = (np.array(weights) + 1e-300) / (sum(weights) or 1e-300 * 5)
    capacity = np.where(capacity < 1e-200, 0.0, capacity)
    found = balanced(rows, sizes, capacity, at_least)
    served = np.bincount(found.group, found.carried, len(rows))
    assert (served == sizes).all()
    assert (found.carried >= 0).all()
    for group, leaf in zip(found.group, found.leaf, strict=True):
        assert int(rows[group, 0]) >> int(leaf) & 1
    loads = np.bincount(found.leaf, found.carried, 5)
    fair = capacity * sizes.sum()
    assert found.factor >= at_least
    if np.isfinite(found.factor):
        assert (loads <= found.factor * fair + 1e-6).all()
    else:
        # Somebody can be served by leaves without a share alone.
        shareless = sum(1 << leaf for leaf in range(5) if capacity[leaf] == 0)
        assert any(int(row) & ~shareless == 0 for row in rows[:, 0])


def test_everybody_at_one_leaf_raises_its_load_and_no_other() -> None:
    network = network_of([0.0], [[-10.0], [10.0], [10.0]])
    locations = [[-10.0]] * 6 + [[10.0]] * 3
    problem = problem_of(network, locations, [[[0.0], [1.0]]] * 9, delay_max=0.1)
    assert best_load_factor(problem) == 2.0
    assert loads_of(network, balance(problem).leaf).tolist()[0] == 6
    assert sorted(loads_of(network, balance(problem).leaf).tolist()) in ([0, 3, 6], [1, 2, 6])


def test_subscribers_with_the_same_candidates_are_one_group() -> None:
    rows = np.array([[1, 2], [3, 0], [1, 2], [1, 0]], dtype=np.uint64)
    groups = grouped(rows)
    assert (groups.masks[groups.group] == rows).all()
    assert sorted(groups.sizes.tolist()) == [1, 1, 2]
    assert len(grouped(rows[:0]).sizes) == 0


def test_balance_is_at_least_as_balanced_as_anything() -> None:
    problem = drawn(4, levels=2)
    found = balance(problem)
    assert not [v for v in violations(problem, found) if v.kind != "balance"]
    assert measures(problem, found).load_balance_factor == pytest.approx(best_load_factor(problem))
