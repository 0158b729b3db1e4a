"""The optimum of small one-level problems, by integer programming (a yardstick beyond paper 4).

    best = optimum(problem)
    assert best.lower == best.bandwidth

For about 5 brokers and 20 subscribers. A *column* is a leaf with a set of subscribers that it can
serve within latencies and load, and costs the least volume of a filter for them: the union of at
most alpha boxes, each interest within one of them. All sets are listed, and the ways to deal each of
them out to boxes tried, so unions are exact. Boxes are those around interests: larger ones hold no
less and cost no less. Then columns are chosen such that every subscriber is in one and every leaf
has one at most (set covering; being covered twice is no cheaper than leaving one out).

1. The linear relaxation is solved by column generation: a small program (OR-Tools GLOP), and in
   each round the columns of least reduced cost, out of all.
2. The integer program over the columns found so far (CP-SAT) gives a first solution.
3. A column whose reduced cost is more than the gap is in no better solution; the integer program
   over the rest gives the optimum.

Deviation from the problem's words: there an interest may also lie in several boxes of a filter
together. No algorithm here makes use of it, and the linear program of the paper neither.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from gravitate.errors import InputError
from gravitate.plan.assignment.clustering import enclosing_boxes
from gravitate.plan.assignment.cover_kernels import cover_volume, cover_volumes
from gravitate.plan.assignment.problem import PUBLISHER, Floats, Ints, Longs, Problem
from gravitate.plan.assignment.solution import Solution, filters_of

SETS_MAX: Final = 2_000_000
_UNITS: Final = 1 << 40
"""What the greatest volume is as a whole number: CP-SAT works on whole numbers."""
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


def optimum(problem: Problem) -> Solution:
    """A solution of the least bandwidth among those that hold all bounds, beta_max for load."""
    if (problem.network.parent != PUBLISHER).any():
        raise InputError("brokers below other brokers are not accepted: write one level for exact")
    if len(problem) == 0:
        return Solution(np.empty(0, dtype=np.int32), filters_of([[]] * len(problem.network), problem.dimensions))
    columns = _columns(problem)
    chosen, duals = _relaxed(columns)
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
        found.append(
            np.concatenate([last[top <= item] | (1 << item) for item in range(items)])
        )
    return np.concatenate(found[1:]) if most else np.empty(0, dtype=np.int64)


def _reduced(columns: _Columns, duals: Floats) -> Floats:
    """Reduced costs (leaves, sets); infinite where a leaf cannot have a set."""
    subscribers = columns.members.shape[1]
    worth = columns.members @ duals[:subscribers]
    found = columns.cost[columns.kind] - worth - duals[subscribers:, None]
    return np.where(columns.is_allowed, found, np.inf)


def _relaxed(columns: _Columns) -> tuple[Longs, Floats]:
    """The linear relaxation: the columns it was solved with, (leaf, set), and its duals, those of
    subscribers and then those of leaves, with which no column has a negative reduced cost.

    The right sides of all rows are 1, so the value is the sum of the duals."""
    subscribers, leaves = columns.members.shape[1], len(columns.is_allowed)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    rows = [solver.Constraint(1.0, solver.infinity()) for _ in range(subscribers)]
    rows += [solver.Constraint(-solver.infinity(), 1.0) for _ in range(leaves)]
    dear = 1.0 + 2.0 * float(columns.cost.max()) * leaves
    objective = solver.Objective()
    for row in rows[:subscribers]:
        # Nobody served at a price that is never worth it: the program always has a solution.
        spare = solver.NumVar(0.0, solver.infinity(), "")
        row.SetCoefficient(spare, 1.0)
        objective.SetCoefficient(spare, dear)
    chosen: list[tuple[int, int]] = []
    for _ in range(_ROUNDS_MAX):
        assert solver.Solve() == pywraplp.Solver.OPTIMAL, "the relaxation has a solution"
        duals = np.array([row.dual_value() for row in rows])
        reduced = _reduced(columns, duals)
        cheapest = np.argsort(reduced, axis=1, kind="stable")[:, :_COLUMNS_PER_ROUND]
        new = [
            (leaf, int(number))
            for leaf in range(leaves)
            for number in cheapest[leaf]
            if reduced[leaf, number] < -_ROUNDING * dear
        ]
        if not new:
            break
        for leaf, number in new:
            column = solver.NumVar(0.0, solver.infinity(), "")
            objective.SetCoefficient(column, float(columns.cost[columns.kind[leaf], number]))
            rows[subscribers + leaf].SetCoefficient(column, 1.0)
            for subscriber in np.flatnonzero(columns.members[number]).tolist():
                rows[subscriber].SetCoefficient(column, 1.0)
        chosen += new
    if float(duals[:subscribers].max()) >= dear * (1.0 - _ROUNDING):
        raise InputError(
            "no assignment holds all bounds: write a greater beta_max or longer delays"
        )
    return np.array(chosen, dtype=np.int64), duals


def _value(columns: _Columns, chosen: Longs) -> float:
    return float(columns.cost[columns.kind[chosen[:, 0]], chosen[:, 1]].sum())


def _covered(columns: _Columns, usable: Longs) -> Longs:
    """The cheapest of the usable columns that have everybody, one a leaf."""
    model = cp_model.CpModel()
    takes = [model.new_bool_var("") for _ in usable]
    for subscriber in range(columns.members.shape[1]):
        having = np.flatnonzero(columns.members[usable[:, 1], subscriber])
        model.add_bool_or([takes[number] for number in having])
    for leaf in range(len(columns.is_allowed)):
        model.add_at_most_one([takes[number] for number in np.flatnonzero(usable[:, 0] == leaf)])
    costs = columns.cost[columns.kind[usable[:, 0]], usable[:, 1]]
    unit = max(float(costs.max()), np.finfo(np.float64).tiny) / _UNITS
    model.minimize(sum(round(cost / unit) * take for cost, take in zip(costs, takes, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    return usable[[bool(solver.value(take)) for take in takes]]


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
        boxes[broker] = enclosing_boxes(
            interests, group.astype(np.int32), int(group.max()) + 1
        )
    return Solution(leaf, filters_of(boxes, problem.dimensions))
