"""Rounding: from parts of rectangles to whole ones (paper 4, section 4.1.1).

    taken = rounded(incidence, relaxed, widen, complexity, is_load, room, rng)

Each option is taken with probability `1 - (1 - y)^(ln |sample|)`, again until the sample is
covered.

Beyond the paper: of what is drawn, on average as many times too much as the logarithm says, options
that are not needed are taken back, the largest first: those without which a wider sample is covered
as before and its load still fits. First children with more options than their filter may have boxes
lose some, then everybody. Several draws are made, and the cheapest is kept. The wider sample costs
little, because no program is solved for it, and has less noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs, whole
from gravitate.plan.assignment.slp import rounding_kernels as kernels
from gravitate.plan.assignment.slp.incidence_kernels import Incidence
from gravitate.plan.assignment.slp.lp import Relaxed


class RoundingParameters(msgspec.Struct, frozen=True):
    """What the paper does not say."""

    draws: Annotated[int, msgspec.Meta(ge=1)] = 3
    """How many draws are pruned; the cheapest counts."""
    redraws_max: Annotated[int, msgspec.Meta(ge=0)] = 50
    """How often a draw that does not cover the sample is repeated; it does so with a probability of
    1 / e (theorem 2). Then the largest part of an option for each one left is taken too."""


DEFAULTS: Final = RoundingParameters()
Flags = NDArray[np.bool_]


def rounded(
    incidence: Incidence,
    relaxed: Relaxed,
    widen: Callable[[Longs], Incidence],
    complexity: Ints,
    is_load: Flags,
    room: Floats,
    rng: np.random.Generator,
    parameters: RoundingParameters = DEFAULTS,
) -> Longs:
    """The options that are taken.

    `widen` gives the incidence of the wider sample with some options; `is_load` and `room` are its
    load sample and the room of each leaf for that."""
    best: Longs | None = None
    least = math.inf
    for _ in range(parameters.draws):
        drawn = np.flatnonzero(_draw(incidence, relaxed, rng, parameters.redraws_max))
        is_kept = _pruned(widen(drawn), complexity, is_load, room)
        taken = drawn[is_kept]
        cost = _cost(incidence, taken, complexity)
        if cost < least:
            best, least = taken, cost
    assert best is not None, "there is a draw at least"
    return best


def _draw(
    incidence: Incidence,
    relaxed: Relaxed,
    rng: np.random.Generator,
    redraws_max: int,
) -> Flags:
    sampled = len(incidence.first_pair) - 1
    chance = 1.0 - (1.0 - relaxed.taken) ** max(1.0, math.log(max(1, sampled)))
    covers = np.empty(len(incidence.pair_child), dtype=np.int32)
    for _ in range(redraws_max + 1):
        is_taken = rng.random(len(chance)) < chance
        kernels.count_covers(is_taken, incidence, covers)
        covered = np.add.reduceat(covers, incidence.first_pair[:-1])
        if covered.all():
            return is_taken
    for subscriber in np.flatnonzero(covered == 0):
        start, end = incidence.first_option[
            incidence.first_pair[[subscriber, subscriber + 1]]
        ].tolist()
        serving = incidence.option[start:end]
        is_taken[serving[np.argmax(relaxed.taken[serving])]] = True
    return is_taken


def _cost(incidence: Incidence, taken: Longs, complexity: Ints) -> float:
    """The volume that is taken; what a child has too much of counts once more, since its filter
    will have to be simplified."""
    volume, child = incidence.volume[taken], incidence.child[taken]
    excess = np.bincount(child, minlength=len(complexity)) > complexity
    return float(volume.sum() + volume[excess[child]].sum())


def _pruned(incidence: Incidence, complexity: Ints, is_load: Flags, room: Floats) -> Flags:
    """Which of the options of an incidence are needed."""
    options = len(incidence.child)
    pairs = np.repeat(np.arange(len(incidence.pair_child)), np.diff(incidence.first_option))
    served = pairs[np.argsort(incidence.option, kind="stable")]
    first_served = np.zeros(options + 1, dtype=np.int64)
    np.cumsum(np.bincount(incidence.option, minlength=options), out=first_served[1:])
    is_taken = np.ones(options, dtype=np.bool_)
    covers = np.diff(incidence.first_option).astype(np.int32)
    leaves, everyone = len(room), len(is_load)
    places = kernels.Places(
        is_load=is_load,
        room=whole(room),
        load=np.zeros(leaves, dtype=np.int64),
        leaf=np.full(everyone, kernels.NOWHERE, dtype=np.int32),
        first_on=np.full(leaves, kernels.NOWHERE, dtype=np.int32),
        next_on=np.full(everyone, kernels.NOWHERE, dtype=np.int32),
        from_leaf=np.empty(leaves, dtype=np.int32),
        from_subscriber=np.empty(leaves, dtype=np.int32),
        queue=np.empty(leaves, dtype=np.int32),
    )
    kernels.place_all(incidence, covers, places)
    order = np.argsort(-incidence.volume, kind="stable")
    taken_by = np.bincount(incidence.child, minlength=len(complexity))
    for spared in (complexity, np.zeros_like(complexity)):
        kernels.prune(
            order, spared, taken_by, is_taken, served, first_served, incidence, covers, places
        )
    return is_taken
