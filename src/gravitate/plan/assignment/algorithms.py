"""Every assignment algorithm by the name that the paper gives it, behind one signature.

    solution = ALGORITHMS["Gr*"](problem, seed)

A result may break bounds, where an algorithm ignores them or where it could not hold them:
`solution.violations` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from gravitate.errors import InputError
from gravitate.plan.assignment import greedy, slp
from gravitate.plan.assignment.balance import balance
from gravitate.plan.assignment.problem import Problem
from gravitate.plan.assignment.searching import improved
from gravitate.plan.assignment.solution import Solution, rank

Algorithm = Callable[[Problem, int], Solution]


def best(problem: Problem, seed: int = 0) -> Solution:
    """The local search from the better of Gr* and SLP, or SLP1 where there is one level."""
    is_flat = len(problem.network.leaves) == len(problem.network)
    planned = (slp.slp1 if is_flat else slp.slp)(problem, seed)
    starts = (planned.solution, greedy.gr_star(problem, seed))
    return improved(problem, min(starts, key=lambda one: rank(problem, one)), seed)


ALGORITHMS: Final = MappingProxyType[str, Algorithm](
    {
        "Gr": greedy.gr,
        "Gr*": greedy.gr_star,
        "Gr-l": greedy.gr_without_latency,
        "Closest-b": greedy.closest_without_balance,
        "Closest": greedy.closest,
        "Balance": balance,
        "SLP1": lambda problem, seed: slp.slp1(problem, seed).solution,
        "SLP": lambda problem, seed: slp.slp(problem, seed).solution,
        "best": best,
    }
)


def solve(name: str, problem: Problem, seed: int = 0) -> Solution:
    """What the named algorithm makes of a problem."""
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise InputError(f"algorithm {name!r} is not known: write one of {', '.join(ALGORITHMS)}")
    return algorithm(problem, seed)
