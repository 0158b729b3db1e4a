"""Who of a sample may be served where, and by which rectangles.

    incidence = incidence_of(level, sample, rectangles)

An *option* is a rectangle that a child of the level may take into its filter. Rectangles that hold
the same subscribers which a child may serve are alike for it but for their volume, so it is offered
the smallest alone; that changes no optimum of the program (`lp`).

Owns the sparse arrays that the linear program and its rounding have in common. A *pair* is a
subscriber with a child below which it has a candidate, a *way* is a subscriber with a candidate.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs, Words
from gravitate.plan.assignment.slp import incidence_kernels as kernels
from gravitate.plan.assignment.slp.incidence_kernels import Incidence
from gravitate.plan.assignment.slp.level import Level

_MARKS_SEED: Final = 20260714
_NO_OPTION: Final = -1


class Sample(msgspec.Struct, frozen=True, eq=False):
    """Subscribers that stand for all."""

    locations: Floats
    interests: Floats
    candidates: Words
    is_load: NDArray[np.bool_]
    """Whether a subscriber is of the uniform sample that stands for the load."""

    def __len__(self) -> int:
        return len(self.interests)


def incidence_of(level: Level, sample: Sample, rectangles: Floats) -> Incidence:
    """The incidence of a sample with the rectangles that filters are made of."""
    ways = _Ways(level, sample)
    holder, first = kernels.holders(rectangles, sample.interests)
    volumes = np.prod(rectangles[:, 1] - rectangles[:, 0], axis=1)
    marks = np.random.default_rng(_MARKS_SEED).integers(1, 2**64, len(sample), dtype=np.uint64)
    audience = kernels.audiences(
        ways.pair_subscriber,
        ways.pair_child,
        len(level),
        len(rectangles),
        holder,
        first,
        marks,
    )
    column = _options(audience, volumes)
    child, rectangle = (axis.astype(np.int32) for axis in np.nonzero(column != _NO_OPTION))
    return ways.incidence(child, rectangle, volumes[rectangle], holder, first, column)


def incidence_of_options(
    level: Level, sample: Sample, rectangles: Floats, known: Incidence, options: Longs
) -> Incidence:
    """The incidence of another sample with some options of a known incidence, and no others.

    They are numbered in the order given, which has to be ascending."""
    ways = _Ways(level, sample)
    child, rectangle = known.child[options], known.rectangle[options]
    used, number = np.unique(rectangle, return_inverse=True)
    holder, first = kernels.holders(rectangles[used], sample.interests)
    column = np.full((len(level), len(used)), _NO_OPTION, dtype=np.int64)
    column[child, number] = np.arange(len(options))
    return ways.incidence(child, rectangle, known.volume[options], holder, first, column)


class _Ways:
    """Ways and pairs of a sample."""

    def __init__(self, level: Level, sample: Sample) -> None:
        ways = kernels.count_ways(sample.candidates, level.child)
        self.way_leaf = np.empty(ways, dtype=np.int32)
        self.way_pair = np.empty(ways, dtype=np.int64)
        self.pair_subscriber, self.pair_child, self.first_way, self.first_pair = kernels.ways(
            sample.candidates, level.child, len(level), self.way_leaf, self.way_pair
        )

    def incidence(
        self,
        child: Ints,
        rectangle: Ints,
        volume: Floats,
        holder: Ints,
        first: Longs,
        column: Longs,
    ) -> Incidence:
        option, first_option = kernels.nesting(
            self.pair_subscriber, self.pair_child, holder, first, column
        )
        return Incidence(
            child=child,
            rectangle=rectangle,
            volume=volume,
            pair_subscriber=self.pair_subscriber,
            pair_child=self.pair_child,
            first_pair=self.first_pair,
            option=option,
            first_option=first_option,
            way_leaf=self.way_leaf,
            way_pair=self.way_pair,
            first_way=self.first_way,
        )


def _options(audience: Words, volumes: Floats) -> Longs:
    """The number of each (child, rectangle) as an option; `_NO_OPTION` where a smaller rectangle
    has the same audience, or nobody is in it."""
    by_volume = np.argsort(volumes, kind="stable")
    is_option = np.zeros(audience.shape, dtype=np.bool_)
    for child, row in enumerate(audience):
        different, at = np.unique(row[by_volume], return_index=True)
        is_option[child, by_volume[at[different != 0]]] = True
    found = np.full(audience.shape, _NO_OPTION, dtype=np.int64)
    found[is_option] = np.arange(int(is_option.sum()))
    return found
