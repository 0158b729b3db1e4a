"""The linear program of a sample, and its rounding."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.problems import drawn

from gravitate.plan.assignment.boxes.rectangles import candidate_rectangles
from gravitate.plan.assignment.problem.problem import PUBLISHER, Floats, Problem, candidate_lists
from gravitate.plan.assignment.slp import lp
from gravitate.plan.assignment.slp.incidence import Sample, incidence_of
from gravitate.plan.assignment.slp.incidence import incidence_of_options as widened
from gravitate.plan.assignment.slp.incidence_kernels import Incidence
from gravitate.plan.assignment.slp.level import Level, flat, level_of
from gravitate.plan.assignment.slp.lp import LpParameters, relax
from gravitate.plan.assignment.slp.rounding import RoundingParameters, rounded

PRECISE = LpParameters(precision=1e-4)


def parts(
    problem: Problem, level: Level, load: int = 60
) -> tuple[Sample, Floats, Incidence, Floats]:
    """A sample of all subscribers, rectangles, the incidence, and room for the load sample."""
    count = len(problem)
    is_load = np.arange(count) < load
    sample = Sample(problem.locations, problem.interests, problem.reach.candidates, is_load)
    rectangles = candidate_rectangles(
        problem.locations, problem.interests, len(level), np.random.default_rng(1)
    )
    room = 3.0 * problem.network.capacity * load
    return sample, rectangles, incidence_of(level, sample, rectangles), room


def optimum(program: lp._Program) -> float:
    """The optimum by the simplex method."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    variables = [solver.NumVar(0.0, 1.0, "") for _ in program.objective]
    rows = program.matrix.tocsr()
    for row, low in enumerate(program.lower.tolist()):
        constraint = solver.Constraint(low, solver.infinity())
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            constraint.SetCoefficient(variables[rows.indices[at]], float(rows.data[at]))
    for variable, cost in zip(variables, program.objective.tolist(), strict=True):
        solver.Objective().SetCoefficient(variable, cost)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(solver.Objective().Value())


@pytest.mark.parametrize("levels", [1, 2])
def test_the_value_is_the_optimum_and_the_bound_is_below(levels: int) -> None:
    problem = drawn(2, subscribers=80, brokers=8, levels=levels)
    level = level_of(problem.network, PUBLISHER)
    sample, _, incidence, room = parts(problem, level)
    found = relax(incidence, level.complexity, sample.is_load, room, PRECISE)
    best = optimum(lp._Program(incidence, level.complexity, sample.is_load, room))
    assert found.value == pytest.approx(best, rel=0.01)
    assert 0.9 * best <= found.bound <= best * (1 + 1e-6)


def test_a_rough_solve_still_has_a_proven_bound_and_is_a_start_for_a_precise_one() -> None:
    problem = drawn(3, subscribers=80, brokers=8)
    level = flat(problem.network)
    sample, _, incidence, room = parts(problem, level)
    best = optimum(lp._Program(incidence, level.complexity, sample.is_load, room))
    given = incidence, level.complexity, sample.is_load, room
    rough = relax(*given, LpParameters(precision=0.1))
    assert rough.bound <= best * (1 + 1e-6)
    assert relax(*given, PRECISE, rough).value == pytest.approx(best, rel=0.01)


def test_options_serve_whom_a_rectangle_holds_and_a_child_may_have() -> None:
    problem = drawn(4, subscribers=60, brokers=10, levels=2)
    level = level_of(problem.network, PUBLISHER)
    sample, rectangles, incidence, _ = parts(problem, level)
    candidates = candidate_lists(sample.candidates, len(level.child))
    children = [{int(level.child[leaf]) for leaf in own} for own in candidates]
    for pair, (subscriber, child) in enumerate(
        zip(incidence.pair_subscriber, incidence.pair_child, strict=True)
    ):
        assert child in children[subscriber]
        start, end = incidence.first_option[pair], incidence.first_option[pair + 1]
        for option in incidence.option[start:end]:
            box = rectangles[incidence.rectangle[option]]
            assert incidence.child[option] == child
            assert (box[0] <= sample.interests[subscriber, 0]).all()
            assert (box[1] >= sample.interests[subscriber, 1]).all()
    assert len(incidence.pair_child) == sum(map(len, children))
    # A rectangle that is no option has a smaller one with the same subscribers.
    for child in range(len(level)):
        own = np.flatnonzero([child in some for some in children])
        held = {tuple(own[_held(box, sample.interests[own])].tolist()): None for box in rectangles}
        assert (incidence.child == child).sum() == len(held.keys() - {()})


def _held(box: Floats, interests: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    within = (box[0] <= interests[:, 0]) & (box[1] >= interests[:, 1])
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = within.all(axis=1)
    return found


def test_what_rounding_takes_covers_the_sample_and_nothing_of_it_is_superfluous() -> None:
    problem = drawn(5, subscribers=120, brokers=6)
    level = flat(problem.network)
    sample, rectangles, incidence, room = parts(problem, level, load=120)
    relaxed = relax(incidence, level.complexity, sample.is_load, room, PRECISE)
    taken = rounded(
        incidence,
        relaxed,
        lambda options: widened(level, sample, rectangles, incidence, options),
        level.complexity,
        sample.is_load,
        room,
        np.random.default_rng(1),
        RoundingParameters(draws=2),
    )

    def covers(options: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
        is_taken = np.isin(incidence.option, options)
        by_pair = np.add.reduceat(is_taken, incidence.first_option[:-1])
        by_pair[np.diff(incidence.first_option) == 0] = 0
        return bool((np.add.reduceat(by_pair, incidence.first_pair[:-1]) > 0).all())

    assert covers(taken)
    assert len(taken) < (relaxed.taken > 1e-3).sum()
    # There is more room than all of them need, so each option is there because of coverage.
    roomy = 1000.0 + room
    fewest = rounded(
        incidence,
        relaxed,
        lambda options: widened(level, sample, rectangles, incidence, options),
        level.complexity,
        sample.is_load,
        roomy,
        np.random.default_rng(1),
        RoundingParameters(draws=1),
    )
    assert covers(fewest)
    assert not any(covers(np.delete(fewest, at)) for at in range(len(fewest)))
