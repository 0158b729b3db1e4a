"""Every assignment algorithm by the name that the paper gives it, behind one signature.

    solution = ALGORITHMS["Gr*"](problem, seed)

A result may break bounds, where an algorithm ignores them or where it could not hold them:
`solution.violations` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import msgspec

from gravitate.errors import InputError
from gravitate.plan.assignment.greedy import greedy
from gravitate.plan.assignment.greedy.balance import balance
from gravitate.plan.assignment.problem.problem import Problem
from gravitate.plan.assignment.problem.solution import Solution, rank
from gravitate.plan.assignment.search.searching import improved
from gravitate.plan.assignment.slp import slp

Algorithm = Callable[[Problem, int], Solution]


def best(problem: Problem, seed: int = 0) -> slp.Planned:
    """The local search from the better of Gr* and SLP, or SLP1 where there is one level."""
    is_flat = len(problem.network.leaves) == len(problem.network)
    planned = (slp.slp1 if is_flat else slp.slp)(problem, seed)
    starts = (planned.solution, greedy.gr_star(problem, seed))
    start = min(starts, key=lambda one: rank(problem, one))
    return msgspec.structs.replace(planned, solution=improved(problem, start, seed))


PROGRAMS: Final = MappingProxyType[str, Callable[[Problem, int], slp.Planned]](
    {"SLP1": slp.slp1, "SLP": slp.slp, "best": best}
)
"""Those that solve linear programs, and have a yardstick therefore."""


def _solution_of(algorithm: Callable[[Problem, int], slp.Planned]) -> Algorithm:
    return lambda problem, seed: algorithm(problem, seed).solution


ALGORITHMS: Final = MappingProxyType[str, Algorithm](
    {
        "Gr": greedy.gr,
        "Gr*": greedy.gr_star,
        "Gr-l": greedy.gr_without_latency,
        "Closest-b": greedy.closest_without_balance,
        "Closest": greedy.closest,
        "Balance": balance,
        **{name: _solution_of(algorithm) for name, algorithm in PROGRAMS.items()},
    }
)


def solve(name: str, problem: Problem, seed: int = 0) -> Solution:
    """What the named algorithm makes of a problem."""
    return solve_with_yardstick(name, problem, seed)[0]


def solve_with_yardstick(
    name: str, problem: Problem, seed: int = 0
) -> tuple[Solution, float | None]:
    """The same, with the value of the linear programs where there are any."""
    if name in PROGRAMS:
        planned = PROGRAMS[name](problem, seed)
        return planned.solution, planned.yardstick
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise InputError(f"algorithm {name!r} is not known: write one of {', '.join(ALGORITHMS)}")
    return algorithm(problem, seed), None
