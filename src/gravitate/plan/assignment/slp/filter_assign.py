"""FilterAssign: preliminary filters for the children of a level (paper 4, section 4.1).

    assigned = assign_filters(level, population, capacity, seed)
    print(assigned.yardstick, assigned.uncovered)

Everybody's program would be far too large. A sample stands for all: subscribers drawn by weight
(Q), together with a uniform sample for the load. Filters that serve the sample are expanded a
little; when they cover everybody, they are the answer. Otherwise who was not covered is drawn twice
as likely the next time; when that does not help within a stage, the sample doubles.

Deviations:

- a stage has `solves_per_stage` programs at most, not `4 g ln(|S| / g)` of them, and there are
  `stages` of them. Filters that leave out at most `leftover_max` of all count as covering: the
  rest is served where filters have to grow least (`population.Population.choices`). When no filters
  do, those that leave out the fewest are taken;
- an iteration that is not valid (more than 1/8 of the weight uncovered) counts as a program;
- rectangles are chosen with a larger uniform sample at hand (`rounding`), which is drawn once, and
  made into filters of no more boxes than allowed by a local search on that sample (`sharpening`);
- programs are solved roughly; the one whose filters are taken is then solved more precisely from
  there on, for the yardstick;
- the room for the load sample is what the wanted factor gives, or what the sample itself needs when
  that is more: a program with too little room has no solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import msgspec
import numpy as np

from gravitate.model.seeds import generator
from gravitate.plan.assignment.boxes.rectangles import RectangleParameters, candidate_rectangles
from gravitate.plan.assignment.greedy.balance import balanced, grouped
from gravitate.plan.assignment.problem.problem import Floats
from gravitate.plan.assignment.problem.solution import Filters, filters_of
from gravitate.plan.assignment.search.searching import SearchParameters
from gravitate.plan.assignment.slp.incidence import Sample, incidence_of, incidence_of_options
from gravitate.plan.assignment.slp.level import Level
from gravitate.plan.assignment.slp.lp import LpParameters, Relaxed, relax
from gravitate.plan.assignment.slp.population import Drawn, Population
from gravitate.plan.assignment.slp.rounding import RoundingParameters, rounded
from gravitate.plan.assignment.slp.sharpening import sharpened


class FilterAssignParameters(msgspec.Struct, frozen=True):
    """Defaults are the paper's where it has them, section 4.1.2."""

    epsilon: Annotated[float, msgspec.Meta(ge=0.0)] = 0.05
    """By how much filters are expanded, relative to the length of each side. Not stated."""
    certificate_size: Annotated[int, msgspec.Meta(ge=2)] = 512
    """g in the first stage; samples have `g ln g` subscribers. Not stated."""
    stages: Annotated[int, msgspec.Meta(ge=1)] = 2
    solves_per_stage: Annotated[int, msgspec.Meta(ge=1)] = 2
    leftover_max: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.02
    uncovered_weight_max: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.125
    """Of a valid iteration."""
    load_sample_per_child: Annotated[int, msgspec.Meta(ge=1)] = 10
    """In one level; 20 inside a tree (section 6)."""
    rounding_sample_per_child: Annotated[int, msgspec.Meta(ge=1)] = 100
    """Of the larger uniform sample. Not in the paper."""
    rounding_sample_min: Annotated[int, msgspec.Meta(ge=1)] = 5_000
    lp: LpParameters = LpParameters(precision=1e-2)
    yardstick_precision: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 1e-3
    rectangles: RectangleParameters = RectangleParameters()
    rounding: RoundingParameters = RoundingParameters()
    search: SearchParameters = SearchParameters(rounds=30)


DEFAULTS: Final = FilterAssignParameters()


class Capacity(msgspec.Struct, frozen=True, eq=False):
    """What leaves may have."""

    fair: Floats
    """The fair share of each leaf, as a fraction of all subscribers."""
    total: int
    """All subscribers, not those of a part of the tree alone."""
    beta: float
    beta_max: float


class Assigned(msgspec.Struct, frozen=True, eq=False):
    """Preliminary filters, and what programs said."""

    filters: Filters
    """Of each child, expanded."""
    uncovered: int
    """How many subscribers the filters leave out."""
    yardstick: float
    """The value of the program that the filters are from."""
    solves: int
    """How many programs were solved."""


def assign_filters(
    level: Level,
    population: Population,
    capacity: Capacity,
    seed: int,
    about: str = "",
    parameters: FilterAssignParameters = DEFAULTS,
) -> Assigned:
    """Filters for the children of a level. `about` tells apart what is drawn for levels."""
    stage = _Iterations(level, population, capacity, seed, about, parameters)
    allowed = int(parameters.leftover_max * len(population))
    best: _Iteration | None = None
    for doublings in range(parameters.stages):
        population.forget_weights()
        certificate = parameters.certificate_size * 2**doublings
        for _ in range(parameters.solves_per_stage):
            found = stage.iterate(certificate)
            if best is None or found.uncovered < best.uncovered:
                best = found
            if best.uncovered <= allowed:
                return stage.assigned(best)
            share = population.coverage(level, found.plain).uncovered_share
            if share <= parameters.uncovered_weight_max:
                population.double_uncovered(level, found.plain)
    assert best is not None, "there is a stage at least"
    return stage.assigned(best)


def expanded(filters: Filters, epsilon: float) -> Filters:
    """Each box longer by `epsilon`, half of it at each end."""
    longer = (filters.boxes[:, 1] - filters.boxes[:, 0]) * (epsilon / 2)
    boxes = np.stack([filters.boxes[:, 0] - longer, filters.boxes[:, 1] + longer], axis=1)
    return Filters(boxes, filters.first)


class _Iteration(msgspec.Struct, frozen=True, eq=False):
    """What one program led to."""

    plain: Filters
    """Not expanded."""
    filters: Filters
    uncovered: int
    solve: Callable[[LpParameters, Relaxed | None], Relaxed]
    relaxed: Relaxed


class _Iterations:
    """What iterations have in common, and how many there were."""

    def __init__(
        self,
        level: Level,
        population: Population,
        capacity: Capacity,
        seed: int,
        about: str,
        parameters: FilterAssignParameters,
    ) -> None:
        self._level = level
        self._population = population
        self._capacity = capacity
        self._seed = seed
        self._about = about
        self._parameters = parameters
        self._load_size = parameters.load_sample_per_child * len(level)
        wide = max(
            self._load_size,
            parameters.rounding_sample_per_child * len(level),
            parameters.rounding_sample_min,
        )
        self._uniform = population.sample(wide, f"{about}uniform")
        self.solves = 0

    def iterate(self, certificate: int) -> _Iteration:
        """One program, and the filters that come of it."""
        level, parameters = self._level, self._parameters
        about = f"{self._about}{self.solves}"
        rng = generator(self._seed, "assignment", "filters", about)
        size = math.ceil(certificate * math.log(certificate))
        weighted = self._population.sample(size, about, by_weight=True)
        load = _some(self._uniform, self.solves * self._load_size, self._load_size)
        self.solves += 1
        sample = _sample(weighted, load)
        rectangles = candidate_rectangles(
            sample.locations, sample.interests, len(level), rng, parameters.rectangles
        )
        incidence = incidence_of(level, sample, rectangles)
        solve = partial(relax, incidence, level.complexity, sample.is_load, self._room(load))
        relaxed = solve(parameters.lp)
        wide = _sample(weighted, self._uniform)
        taken = rounded(
            incidence,
            relaxed,
            lambda options: incidence_of_options(level, wide, rectangles, incidence, options),
            level.complexity,
            wide.is_load,
            self._room(self._uniform),
            rng,
            parameters.rounding,
        )
        child, which = incidence.child[taken], incidence.rectangle[taken]
        rough = filters_of(
            [rectangles[which[child == number]] for number in range(len(level))],
            rectangles.shape[2],
        )
        scale = self._capacity.total / len(self._population)
        plain = sharpened(
            level,
            rough,
            wide,
            self._capacity.fair * scale,
            self._capacity.beta,
            self._seed,
            parameters.search,
        )
        filters = expanded(plain, parameters.epsilon)
        uncovered = self._population.coverage(level, filters).uncovered_count
        return _Iteration(plain, filters, uncovered, solve, relaxed)

    def assigned(self, iteration: _Iteration) -> Assigned:
        """The answer from an iteration, with its program solved precisely."""
        precise = msgspec.structs.replace(
            self._parameters.lp, precision=self._parameters.yardstick_precision
        )
        relaxed = iteration.solve(precise, iteration.relaxed)
        return Assigned(iteration.filters, iteration.uncovered, relaxed.value, self.solves + 1)

    def _room(self, load: Drawn) -> Floats:
        """How many of a uniform sample each leaf may have."""
        capacity = self._capacity
        groups = grouped(load.candidates & self._level.leaves_mask())
        scaled = len(load) * capacity.total / len(self._population)
        needed = balanced(groups.masks, groups.sizes, capacity.fair, total=round(scaled)).factor
        return capacity.fair * scaled * max(capacity.beta, needed)


def _some(drawn: Drawn, start: int, size: int) -> Drawn:
    """`size` of those drawn, from `start` on, around the end."""
    at = (start + np.arange(min(size, len(drawn)))) % max(1, len(drawn))
    return Drawn(
        drawn.key[at],
        drawn.number[at],
        drawn.locations[at],
        drawn.interests[at],
        drawn.candidates[at],
    )


def _sample(weighted: Drawn, load: Drawn) -> Sample:
    return Sample(
        np.concatenate([weighted.locations, load.locations]),
        np.concatenate([weighted.interests, load.interests]),
        np.concatenate([weighted.candidates, load.candidates]),
        np.arange(len(weighted) + len(load)) >= len(weighted),
    )
