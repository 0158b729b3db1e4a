"""Kernels, compiled or loaded before the first test that calls one.

On a cold cache some take a minute and a half; no test is to pay for that.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np

TESTS: Final = Path(__file__).parent.parent
PLANNING: Final = ("plan", "pipeline", "studies", "bench", "adapt", "cli")
ASSIGNING: Final = ("plan/assignment", "pipeline/assignment", "pipeline/planning", "studies")


def warm(folders: Collection[str]) -> None:
    """Those that tests in some folders below `tests/` use."""
    from gravitate.serve.warm import warm_up

    warm_up()
    if _any(folders, PLANNING):
        _warm_planning()
    if _any(folders, ASSIGNING):
        _warm_assigning()


def folders_of(paths: Collection[Path]) -> set[str]:
    return {str(path.parent.relative_to(TESTS)) for path in paths if path.is_relative_to(TESTS)}


def _any(folders: Collection[str], roots: tuple[str, ...]) -> bool:
    return any(f"{folder}/".startswith(f"{root}/") for folder in folders for root in roots)


def _warm_planning() -> None:
    from gravitate.plan.flow.crossings import Wanted, crossings, flows_at
    from gravitate.plan.flow.flow import flow, rooted
    from gravitate.plan.placement import grape, placement

    grape.warm()
    tree = rooted(2, [(0, 1)])
    here = np.zeros(1, dtype=np.int32)
    wanted = Wanted(here, np.ones(1), np.ones(1), np.array([0, 1]), np.zeros(1, dtype=np.int64))
    flow(tree, flows_at(wanted, here, 2)[0])
    crossings(tree, wanted, here, here)
    network = placement.network_of(tree)
    one = np.zeros(1, dtype=np.int64)
    profiles = placement.profiles_of(one, one, one, one, one.astype(np.uint64), np.ones(1))
    placement.best_brokers(network, profiles, grape.DEFAULTS)
    placement.closest_brokers(network, profiles)


def _warm_assigning() -> None:
    from gravitate.plan.assignment import dynamic
    from gravitate.plan.assignment.bounds.exact import optimum
    from gravitate.plan.assignment.boxes import volume_kernels
    from gravitate.plan.assignment.greedy.greedy import gr_star
    from gravitate.plan.assignment.problem.solution import violations
    from gravitate.plan.assignment.search.searching import relieved
    from gravitate.plan.assignment.warm import warm_up
    from tests.support import volumes
    from tests.support.problems import drawn

    warm_up()
    problem = drawn(1, subscribers=12, brokers=3)
    optimum(problem)
    tall = drawn(1, subscribers=12, brokers=8, levels=2)
    violations(tall, gr_star(tall))
    relieved(tall, gr_star(tall), tall.beta_max, 0)
    box = problem.interests[0]
    volume_kernels._area_of_few(problem.interests)
    volume_kernels._area_of_many(problem.interests)
    volumes.added_volume(problem.interests, box)
    volumes.holds(problem.interests, box)
    keeper = dynamic.Keeper(
        problem.network,
        delay_max=float(problem.delay_max.max()),
        beta=problem.beta,
        beta_max=problem.beta_max,
        dimensions=problem.dimensions,
    )
    everybody = np.arange(len(problem))
    keeper.change(dynamic.Arrivals(everybody, problem.locations, problem.interests), everybody[:0])
    keeper.change(
        dynamic.Arrivals(everybody[:0], problem.locations[:0], problem.interests[:0]), everybody[:6]
    )
