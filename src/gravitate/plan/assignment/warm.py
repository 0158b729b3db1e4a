"""Kernels of assignment, compiled before anybody waits for them: a minute and a half, once."""

from __future__ import annotations

import numpy as np

from gravitate.model.seeds import generator
from gravitate.plan.assignment.algorithms import solve
from gravitate.plan.assignment.bounds.bounds import lower_bound
from gravitate.plan.assignment.problem.problem import network_of, problem_of


def warm_up() -> None:
    """Solve a small problem with everything there is."""
    rng = generator(1, "assignment", "warm")
    low = rng.random((60, 2))
    problem = problem_of(
        network_of(np.zeros(2), rng.random((4, 2))),
        rng.random((60, 2)),
        np.stack([low, low + rng.random((60, 2))], axis=1),
        delay_max=2.0,
        beta=2.0,
        beta_max=3.0,
    )
    for name in ("Closest", "Balance", "best"):
        solve(name, problem)
    lower_bound(problem)
