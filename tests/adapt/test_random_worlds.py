"""Random worlds in which brokers move publishers by themselves: every checker is silent."""

from __future__ import annotations

import pytest

from gravitate.simulate.random_worlds import run_world


@pytest.mark.parametrize("seed", range(1, 29))
def test_nothing_is_lost_doubled_or_left_behind(seed: int) -> None:
    outcome = run_world(seed, mechanisms=True)
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("seed", range(40, 44))
def test_nor_while_somebody_else_moves_them_too(seed: int) -> None:
    outcome = run_world(seed, migrations=True, mechanisms=True)
    assert not outcome.violations, outcome.report()


def test_publishers_really_move() -> None:
    assert sum(run_world(seed, mechanisms=True).moves for seed in (20, 21, 22, 23)) > 10


def test_a_world_with_mechanisms_is_a_function_of_its_seed() -> None:
    assert run_world(7, mechanisms=True) == run_world(7, mechanisms=True)
