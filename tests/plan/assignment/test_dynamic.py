"""Batches leave the assignment valid and near the yardstick, and move few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.problems import drawn, problems

from gravitate.errors import InputError
from gravitate.plan.assignment.dynamic import Arrivals, Changes, Keeper, KeepingParameters
from gravitate.plan.assignment.greedy.balance import best_load_factor
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import Problem
from gravitate.plan.assignment.problem.solution import measures, violations
from gravitate.plan.assignment.search.searching import SearchParameters

NOBODY = np.empty(0, dtype=np.int64)
SHORT = SearchParameters(rounds=1, attempts_min=40)


def keeper_of(problem: Problem, factor: float, search: SearchParameters = SHORT) -> Keeper:
    return Keeper(
        problem.network,
        KeepingParameters(factor=factor, prices=4, search=search),
        delay_max=float(problem.delay_max.max()) if len(problem) else 0.3,
        beta=problem.beta,
        beta_max=problem.beta_max,
        dimensions=problem.dimensions,
    )


def rows(problem: Problem, ids: list[int]) -> Arrivals:
    chosen = np.array(ids, dtype=np.int64)
    return Arrivals(chosen, problem.locations[chosen], problem.interests[chosen])


@settings(max_examples=60)
@given(problems(), st.data(), st.sampled_from((1.0, 1.2)))
def test_after_every_batch_all_bounds_hold(
    problem: Problem, data: st.DataObject, factor: float
) -> None:
    keeper = keeper_of(problem, factor)
    there: set[int] = set()
    for _ in range(4):
        before = dict(zip(keeper.ids.tolist(), keeper.solution.leaf.tolist(), strict=True))
        absent = sorted(set(range(len(problem))) - there)
        new = data.draw(st.lists(st.sampled_from(absent), unique=True)) if absent else []
        gone = data.draw(st.lists(st.sampled_from(sorted(there)), unique=True)) if there else []
        changes = keeper.change(rows(problem, new), np.array(gone, dtype=np.int64))
        there = (there - set(gone)) | set(new)
        assert set(keeper.ids.tolist()) == there
        check_batch(keeper, changes, before, new)


def check_batch(keeper: Keeper, changes: Changes, before: dict[int, int], new: list[int]) -> None:
    after = dict(zip(keeper.ids.tolist(), keeper.solution.leaf.tolist(), strict=True))
    hard = {v.kind for v in violations(keeper.problem, keeper.solution) if v.is_hard}
    assert hard <= {"load"}
    if "load" in hard:
        assert best_load_factor(keeper.problem) > keeper.problem.beta_max
    assert sorted(changes.placed) == sorted((s, after[s]) for s in new)
    # What is listed is what has changed, no more and no less.
    moved = {s: (before[s], leaf) for s, leaf in after.items() if before.get(s, leaf) != leaf}
    assert {m.subscriber: (m.source, m.target) for m in changes.reassigned} == moved
    if len(keeper.problem):
        assert changes.bandwidth == pytest.approx(
            measures(keeper.problem, keeper.solution).bandwidth
        )
        if changes.yardstick is not None:
            allowed = keeper.parameters.factor * changes.yardstick
            assert changes.bandwidth <= allowed * (1 + 1e-9) + 1e-12


def test_nobody_is_reassigned_while_things_are_good_enough() -> None:
    problem = drawn(1, subscribers=600)
    keeper = keeper_of(problem, 100.0)
    changes = [
        keeper.change(rows(problem, list(range(at, at + 200))), NOBODY) for at in (0, 200, 400)
    ]
    assert not any(change.reassigned for change in changes)
    assert [len(change.placed) for change in changes] == [200] * 3


def test_far_fewer_are_reassigned_than_by_solving_anew() -> None:
    problem = drawn(2, subscribers=1_200)
    keeper = keeper_of(problem, 1.1, SearchParameters(rounds=5, attempts_min=500))
    keeper.change(rows(problem, list(range(600))), NOBODY)
    fresh = dict(enumerate(gr_star(keeper.problem).leaf.tolist()))
    kept = anew = 0
    for batch in range(6):
        new = list(range(600 + 100 * batch, 700 + 100 * batch))
        gone = np.arange(100 * batch, 100 * batch + 100)
        changes = keeper.change(rows(problem, new), gone)
        kept += len(changes.reassigned)
        leaves = gr_star(keeper.problem).leaf.tolist()
        again = dict(zip(keeper.ids.tolist(), leaves, strict=True))
        anew += sum(fresh.get(s, leaf) != leaf for s, leaf in again.items())
        fresh = again
        assert changes.yardstick is not None
        assert changes.bandwidth <= 1.1 * changes.yardstick * (1 + 1e-9)
    assert kept < anew / 4


def test_the_same_batches_give_the_same() -> None:
    problem = drawn(3, subscribers=400)
    found = []
    for _ in range(2):
        keeper = keeper_of(problem, 1.0)
        keeper.change(rows(problem, list(range(300))), NOBODY)
        keeper.change(rows(problem, list(range(300, 400))), np.arange(50))
        found.append(keeper.solution.leaf.tolist())
    assert found[0] == found[1]


def test_who_is_there_is_checked() -> None:
    problem = drawn(1, subscribers=20)
    keeper = keeper_of(problem, 1.2)
    keeper.change(rows(problem, [1, 2]), NOBODY)
    with pytest.raises(InputError, match="subscriber 3 departs and is not there"):
        keeper.change(rows(problem, []), np.array([3]))
    with pytest.raises(InputError, match="subscriber 2 arrives and is there already"):
        keeper.change(rows(problem, [2]), NOBODY)
    with pytest.raises(InputError, match="subscriber 5 arrives"):
        keeper.change(rows(problem, [5, 5]), NOBODY)
    assert keeper.ids.tolist() == [1, 2]
