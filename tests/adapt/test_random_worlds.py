"""Random worlds in which brokers move publishers by themselves: every checker is silent."""

from __future__ import annotations

import functools

import pytest

from gravitate.simulate.random_worlds import WorldOutcome, run_world
from gravitate.simulate.switches import Switches

SEEDS = range(1, 25)


@functools.cache
def played(seed: int) -> WorldOutcome:
    return run_world(seed, Switches(mechanisms=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_doubled_or_left_behind(seed: int) -> None:
    outcome = played(seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("seed", range(40, 44))
def test_nor_while_somebody_else_moves_them_too(seed: int) -> None:
    outcome = run_world(seed, Switches(migrations=True, mechanisms=True))
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("seed", range(1, 13))
def test_nor_while_publishers_measure_how_far_brokers_are(seed: int) -> None:
    outcome = run_world(seed, Switches(migrations=seed % 5 == 0, pings=True))
    assert not outcome.violations, outcome.report()


def test_publishers_really_move() -> None:
    assert sum(played(seed).moves for seed in (21, 22)) > 10


def test_a_world_with_mechanisms_is_a_function_of_its_seed() -> None:
    assert run_world(4, Switches(mechanisms=True)) == played(4)
