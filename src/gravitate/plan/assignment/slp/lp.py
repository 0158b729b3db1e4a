"""LPRelax: rectangles for the children of a level by linear programming (paper 4, section 4.1.1).

    relaxed = relax(incidence, complexity, is_load, room)
    print(relaxed.value, relaxed.bound)

Variables are y (child i takes rectangle k) and x (subscriber j of the sample is served by leaf l),
both from 0 to 1; the volumes of what is taken are minimised subject to

    C1  a child takes at most as many rectangles as its filter may have boxes
    C2  every subscriber is served by one of its candidates
    C3  the load sample puts no more on a leaf than its room
    C4  a child below which a subscriber is served takes a rectangle that holds its interest

In one level a leaf is its own child, which is the paper's program. Further down the leaves stay in
the program: C3 is stated for leaves, C4 for children.

The solver is PDLP. It stops at a relative precision, since the result is rounded anyway; what it
says of the optimum is a proven bound nevertheless, because any multipliers give one: every variable
is between 0 and 1, so its reduced cost counts only where it is negative.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem.problem import Floats, Ints
from gravitate.plan.assignment.slp.incidence_kernels import Incidence


class LpParameters(msgspec.Struct, frozen=True):
    """How precisely programs are solved. Not in the paper, which solved them to the end."""

    precision: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 1e-3
    """Relative; of the gap and of what rows may be broken by."""
    iterations_max: Annotated[int, msgspec.Meta(ge=1)] = 20_000
    threads: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Changes no result: sums are made in the same parts."""


DEFAULTS: Final = LpParameters()
_SHARDS: Final = 8


class Relaxed(msgspec.Struct, frozen=True, eq=False):
    """How much of each option is taken."""

    taken: Floats
    """From 0 to 1."""
    value: float
    """What is taken, by volume."""
    bound: float
    """No solution of this program is less."""
    primal: Floats
    dual: Floats
    """Where a more precise solve may start from."""


def relax(
    incidence: Incidence,
    complexity: Ints,
    is_load: NDArray[np.bool_],
    room: Floats,
    parameters: LpParameters = DEFAULTS,
    start: Relaxed | None = None,
) -> Relaxed:
    """The program of a sample, solved. `room` is that of each leaf for the load sample; `start` is
    a less precise result for the same program.

    There must be a way to serve everybody: options for each interest, room for the load sample."""
    program = _Program(incidence, complexity, is_load, room)
    primal, dual = _solve(program, parameters, start)
    taken = np.clip(primal[: len(incidence.child)], 0.0, 1.0)
    return Relaxed(
        taken=taken,
        value=float(incidence.volume @ taken),
        bound=program.bound(dual),
        primal=primal,
        dual=dual,
    )


class _Program:
    """Minimise `objective @ v` with `matrix @ v >= lower`, v from 0 to 1."""

    def __init__(
        self,
        incidence: Incidence,
        complexity: Ints,
        is_load: NDArray[np.bool_],
        room: Floats,
    ) -> None:
        from scipy.sparse import csc_matrix

        options, ways = len(incidence.child), len(incidence.way_leaf)
        subscribers, pairs = len(is_load), len(incidence.pair_child)
        subscriber = incidence.way_subscriber
        loads = is_load[subscriber]
        served = options + np.arange(ways)
        nested = np.repeat(np.arange(pairs), np.diff(incidence.first_option))
        c2 = len(complexity)
        c3 = c2 + subscribers
        c4 = c3 + len(room)
        # Of each entry its row, its column and its value.
        entries: list[tuple[NDArray[Any], NDArray[Any], float]] = [
            (incidence.child, np.arange(options), -1.0),
            (c2 + subscriber, served, 1.0),
            (c3 + incidence.way_leaf[loads], served[loads], -1.0),
            (c4 + nested, incidence.option, 1.0),
            (c4 + incidence.way_pair, served, -1.0),
        ]
        rows = np.concatenate([row for row, _, _ in entries])
        columns = np.concatenate([column for _, column, _ in entries])
        values = np.concatenate([np.full(len(row), value) for row, _, value in entries])
        self.matrix: Any = csc_matrix((values, (rows, columns)), (c4 + pairs, options + ways))
        self.lower = np.concatenate(
            [-complexity.astype(np.float64), np.ones(subscribers), -room, np.zeros(pairs)]
        )
        self.objective = np.concatenate([incidence.volume, np.zeros(ways)])

    def bound(self, dual: Floats) -> float:
        """What no solution is below, whatever the multipliers are."""
        multipliers = np.maximum(dual, 0.0)
        reduced = self.objective - self.matrix.T @ multipliers
        return max(0.0, float(self.lower @ multipliers + np.minimum(reduced, 0.0).sum()))


def _solve(
    program: _Program, parameters: LpParameters, start: Relaxed | None
) -> tuple[Floats, Floats]:
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp

    variables = len(program.objective)
    rows = len(program.lower)
    stated = pdlp.QuadraticProgram()
    stated.resize_and_initialize(variables, rows)
    stated.objective_vector = program.objective
    stated.constraint_matrix = program.matrix
    stated.constraint_lower_bounds = program.lower
    stated.constraint_upper_bounds = np.full(rows, np.inf)
    stated.variable_lower_bounds = np.zeros(variables)
    stated.variable_upper_bounds = np.ones(variables)
    how = solvers_pb2.PrimalDualHybridGradientParams(
        num_threads=parameters.threads, num_shards=_SHARDS
    )
    until = how.termination_criteria
    until.simple_optimality_criteria.eps_optimal_relative = parameters.precision
    until.simple_optimality_criteria.eps_optimal_absolute = parameters.precision
    until.iteration_limit = parameters.iterations_max
    known = pdlp.PrimalAndDualSolution()
    if start is not None:
        known.primal_solution, known.dual_solution = start.primal, start.dual
    result = pdlp.primal_dual_hybrid_gradient(stated, how, known if start is not None else None)
    return result.primal_solution, result.dual_solution
