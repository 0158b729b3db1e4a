"""The optimum of small one-level problems, by integer programming (a yardstick beyond paper 4).

    best = optimum(problem)

For about 5 brokers and 20 subscribers. A *column* is a leaf with a set of subscribers that it can
serve within latencies and load, and costs the least volume of a filter for them: the union of at
most alpha boxes, each interest within one of them. All sets are listed, and the ways to deal each
of them out to boxes tried, so unions are exact. Boxes are those around interests, since larger ones
cost no less. Then columns are chosen such that every subscriber is in one and every leaf has one at
most (set covering: whoever is covered twice can be left out of one, which costs no more).

1. The linear relaxation is solved by column generation: a small program (OR-Tools GLOP), and in
   each round the columns of least reduced cost, out of all.
2. The integer program over the columns found so far (SCIP) gives a first solution.
3. A column whose reduced cost is more than the gap is in no better solution; the integer program
   over the rest gives the optimum.

Deviation from the problem's words: there an interest may also lie in several boxes of a filter
together. No algorithm here makes use of it, and the linear program of the paper neither.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes.clustering import enclosing_boxes
from gravitate.plan.assignment.boxes.cover_kernels import cover_volume, cover_volumes
from gravitate.plan.assignment.greedy.balance import balance
from gravitate.plan.assignment.problem.problem import PUBLISHER, Floats, Ints, Longs, Problem
from gravitate.plan.assignment.problem.solution import Solution, filters_of, measures

SETS_MAX: Final = 2_000_000
_COLUMNS_PER_ROUND: Final = 50
_ROUNDS_MAX: Final = 1_000
_ROUNDING: Final = 1e-9


class _Columns(msgspec.Struct, frozen=True, eq=False):
    """All sets of subscribers that some leaf may have, and who may have them."""

    members: NDArray[np.bool_]
    """(sets, subscribers)"""
    cost: Floats
    """(complexities, sets)"""
    kind: Longs
    """Which row of `cost` is that of leaf k."""
    is_allowed: NDArray[np.bool_]
    """(leaves, sets)"""


class _Program:
    """Each subscriber in a column at least, each leaf with one column at most, at least cost."""

    def __init__(self, solver: str, columns: _Columns) -> None:
        self.columns = columns
        self.solver = pywraplp.Solver.CreateSolver(solver)
        self.is_whole = solver == "SCIP"
        infinity = self.solver.infinity()
        subscribers, leaves = columns.members.shape[1], len(columns.is_allowed)
        self.rows = [self.solver.Constraint(1.0, infinity) for _ in range(subscribers)]
        self.rows += [self.solver.Constraint(-infinity, 1.0) for _ in range(leaves)]

    def add(self, cost: float, rows: list[int]) -> Any:
        infinity = self.solver.infinity()
        variable = self.solver.BoolVar("") if self.is_whole else self.solver.NumVar(0, infinity, "")
        self.solver.Objective().SetCoefficient(variable, cost)
        for row in rows:
            self.rows[row].SetCoefficient(variable, 1.0)
        return variable

    def add_column(self, leaf: int, number: int) -> Any:
        columns = self.columns
        members = np.flatnonzero(columns.members[number]).tolist()
        cost = float(columns.cost[columns.kind[leaf], number])
        return self.add(cost, [*members, columns.members.shape[1] + leaf])

    def solve(self) -> None:
        exactly = pywraplp.MPSolverParameters()
        exactly.SetDoubleParam(pywraplp.MPSolverParameters.RELATIVE_MIP_GAP, 0.0)
        status = self.solver.Solve(exactly)
        assert status == pywraplp.Solver.OPTIMAL, f"status {status} of a program with a solution"


def optimum(problem: Problem) -> Solution:
    """A solution of the least bandwidth among those that hold all bounds, beta_max for load."""
    if (problem.network.parent != PUBLISHER).any():
        raise InputError("brokers below other brokers are not accepted: write one level for exact")
    if len(problem) == 0:
        nothing = filters_of([[]] * len(problem.network), problem.dimensions)
        return Solution(np.empty(0, dtype=np.int32), nothing)
    start = balance(problem)
    factor = measures(problem, start).load_balance_factor
    if factor > problem.beta_max * (1.0 + _ROUNDING):
        raise InputError(
            f"a load balance factor of {factor:g} is the least within latencies, "
            f"beta_max = {problem.beta_max:g} is not accepted: write at least that"
        )
    columns = _columns(problem)
    chosen, duals = _relaxed(columns, _columns_of(columns, start.leaf))
    first = _covered(columns, chosen)
    reduced = _reduced(columns, duals)
    # The relaxation's value is what the duals add up to; see `_relaxed`.
    gap = _value(columns, first) - float(duals.sum())
    kept = np.argwhere(reduced <= gap + _ROUNDING * (1.0 + abs(gap)))
    return _solution(problem, columns, _covered(columns, kept))


def _columns(problem: Problem) -> _Columns:
    network, subscribers = problem.network, len(problem)
    capacity = problem.leaf_capacities(problem.beta_max)
    most = min(int(capacity.max()), subscribers)
    count = sum(math.comb(subscribers, size) for size in range(most + 1))
    if subscribers > 62 or count > SETS_MAX:
        raise InputError(
            f"{subscribers} subscribers with up to {most} on a leaf have {count} sets: "
            f"write a problem with at most {SETS_MAX}, of fewer subscribers or smaller leaves"
        )
    sets = _sets(subscribers, most)
    members = ((sets[:, None] >> np.arange(subscribers)) & 1).astype(np.bool_)
    kinds, kind = np.unique(network.complexity[network.leaves], return_inverse=True)
    cost = np.empty((len(kinds), len(sets)))
    for number, complexity in enumerate(kinds.tolist()):
        cover_volumes(problem.interests, sets, complexity, cost[number])
    words = problem.reach.candidates
    allowed = np.empty((len(network.leaves), len(sets)), dtype=np.bool_)
    for leaf in range(len(network.leaves)):
        can = (words[:, leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1) == 1
        allowed[leaf] = ~members[:, ~can].any(axis=1) & (members.sum(axis=1) <= capacity[leaf])
    return _Columns(members, cost, kind, allowed)


def _sets(items: int, most: int) -> Longs:
    """All sets of at most `most` items but the empty one, as bits."""
    found = [np.zeros(1, dtype=np.int64)]
    for _ in range(most):
        last = found[-1]
        # Items are added above the highest only, so that each set comes once.
        top = np.zeros(len(last), dtype=np.int64)
        top[last > 0] = np.floor(np.log2(last[last > 0])).astype(np.int64) + 1
        found.append(np.concatenate([last[top <= item] | (1 << item) for item in range(items)]))
    return np.concatenate(found[1:]) if most else np.empty(0, dtype=np.int64)


def _reduced(columns: _Columns, duals: Floats) -> Floats:
    """Reduced costs (leaves, sets); infinite where a leaf cannot have a set."""
    subscribers = columns.members.shape[1]
    worth = columns.members @ duals[:subscribers]
    found = columns.cost[columns.kind] - worth - duals[subscribers:, None]
    return np.where(columns.is_allowed, found, np.inf)


def _columns_of(columns: _Columns, leaf: Ints) -> list[tuple[int, int]]:
    """The columns of an assignment."""
    found = []
    for at in np.unique(leaf).tolist():
        number = np.flatnonzero((columns.members == (leaf == at)).all(axis=1))
        found.append((at, int(number[0])))
    return found


def _relaxed(columns: _Columns, start: list[tuple[int, int]]) -> tuple[Longs, Floats]:
    """The linear relaxation, begun with a valid assignment's columns: the columns it was solved
    with, (leaf, set), and its duals, those of subscribers and then those of leaves, with which no
    column has a negative reduced cost.

    The right sides of all rows are 1, so the value is the sum of the duals."""
    program = _Program("GLOP", columns)
    for leaf, number in start:
        program.add_column(leaf, number)
    least = -_ROUNDING * (1.0 + float(columns.cost.max()))
    chosen = list(start)
    for _ in range(_ROUNDS_MAX):
        program.solve()
        duals = np.array([row.dual_value() for row in program.rows])
        reduced = _reduced(columns, duals)
        cheapest = np.argsort(reduced, axis=1, kind="stable")[:, :_COLUMNS_PER_ROUND]
        new = [
            (leaf, int(number))
            for leaf in range(len(reduced))
            for number in cheapest[leaf]
            if reduced[leaf, number] < least
        ]
        if not new:
            return np.array(chosen, dtype=np.int64), duals
        for leaf, number in new:
            program.add_column(leaf, number)
        chosen += new
    raise AssertionError(f"columns are still missing after {_ROUNDS_MAX} rounds")


def _value(columns: _Columns, chosen: Longs) -> float:
    return float(columns.cost[columns.kind[chosen[:, 0]], chosen[:, 1]].sum())


def _covered(columns: _Columns, usable: Longs) -> Longs:
    """The cheapest of the usable columns that have everybody, one a leaf."""
    program = _Program("SCIP", columns)
    takes = [program.add_column(leaf, number) for leaf, number in usable.tolist()]
    program.solve()
    return usable[[take.solution_value() > 0.5 for take in takes]]


def _solution(problem: Problem, columns: _Columns, chosen: Longs) -> Solution:
    network = problem.network
    leaf: Ints = np.empty(len(problem), dtype=np.int32)
    boxes: list[Floats] = [np.empty((0, 2, problem.dimensions))] * len(network)
    for at, number in chosen.tolist():
        own = np.flatnonzero(columns.members[number])
        leaf[own] = at
        group = np.empty(len(own), dtype=np.int64)
        broker = network.leaves[at]
        interests = problem.interests[own]
        cover_volume(interests, int(network.complexity[broker]), 1 << 40, group)
        boxes[broker] = enclosing_boxes(interests, group.astype(np.int32), int(group.max()) + 1)
    return Solution(leaf, filters_of(boxes, problem.dimensions))
