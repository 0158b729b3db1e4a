"""Candidate rectangles out of which filters are chosen (FilterGen: paper 4, section 4.1.3).

    rectangles = candidate_rectangles(locations, interests, brokers=100, rng=rng)

1. Subscribers are clustered by place and interest; the box around the interests of a cluster is a
   *super-interest*.
2. On each axis of the event space there are families of intervals of doubling length. Those of
   one family start at super-interests, at least half a length apart, so that no two overlap by
   more than half; each is shrunk to the super-interests it holds.
3. Rectangles are the products of intervals, shrunk to the interests that they hold; equal ones
   count once, and those that hold nothing are left out.

Every super-interest lies within a rectangle of at most four times its length on each axis (lemma
2); so does every interest.

Deviations:

- both spaces are scaled to the same spread before clustering, because ms and attributes have no
  common unit; `network_weight` says how much places count;
- there is one family more than printed, up to `ceil(log2) + 1`: the last has room for intervals
  longer than half of everything, which are in no family otherwise;
- lengths double `families_max` times at most, from the longest down, when the shortest interval is
  much shorter ("chosen more carefully" in the paper).
"""

from __future__ import annotations

import math
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes import rectangle_kernels as kernels
from gravitate.plan.assignment.boxes.clustering import enclosing_boxes, k_means

Floats = NDArray[np.float64]


class RectangleParameters(msgspec.Struct, frozen=True):
    """Defaults are the paper's where it has them, section 4.1.3."""

    super_interests_per_broker: Annotated[int, msgspec.Meta(ge=1)] = 5
    overlap: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.5
    """Of two intervals of a family, as a part of its length."""
    network_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 1.0
    """How far places count in clustering, interests counting 1. Not in the paper."""
    families_max: Annotated[int, msgspec.Meta(ge=1)] = 12
    """On each axis. Not in the paper."""


DEFAULTS: Final = RectangleParameters()


def candidate_rectangles(
    locations: Floats,
    interests: Floats,
    brokers: int,
    rng: np.random.Generator,
    parameters: RectangleParameters = DEFAULTS,
) -> Floats:
    """Rectangles for the filters of `brokers` brokers, as boxes in lexical order."""
    if len(locations) != len(interests):
        raise InputError(
            f"{len(interests)} interests for {len(locations)} locations are not accepted: "
            "write one of each for every subscriber"
        )
    if len(interests) == 0:
        return interests
    wanted = parameters.super_interests_per_broker * brokers
    supers = super_interests(locations, interests, wanted, rng, parameters.network_weight)
    families = [
        interval_family(supers[:, :, axis], parameters) for axis in range(interests.shape[2])
    ]
    return shrunk_products(families, interests)


def super_interests(
    locations: Floats,
    interests: Floats,
    wanted: int,
    rng: np.random.Generator,
    network_weight: float = 1.0,
) -> Floats:
    """At most `wanted` boxes, each around the interests of subscribers that are alike."""
    corners = interests.reshape(len(interests), -1)
    points = np.concatenate([_scaled(locations) * network_weight, _scaled(corners)], axis=1)
    group = k_means(points, wanted, rng)
    return enclosing_boxes(interests, group, int(group.max()) + 1)


def interval_family(intervals: Floats, parameters: RectangleParameters = DEFAULTS) -> Floats:
    """Intervals of doubling length such that each given one lies within one of them that is at
    most four times as long, or as long as the shortest family has it. Rows are (low, high)."""
    low, high = intervals[:, 0], intervals[:, 1]
    lengths = high - low
    widest = float(high.max() - low.min())
    if widest == 0.0:
        return np.array([[low.min(), high.max()]])
    shortest = max(float(lengths.min()), widest / 2.0 ** (parameters.families_max - 1))
    doublings = math.ceil(math.log2(widest / shortest)) + 1
    found: list[Floats] = []
    for doubling in range(1, doublings + 1):
        length = shortest * 2.0**doubling
        if doubling == doublings:
            length = max(length, 2.0 * widest)  # whatever the logarithm was rounded to
        members = intervals[lengths <= length / 2]
        ordered = np.ascontiguousarray(members[np.argsort(members[:, 0], kind="stable")])
        found.append(kernels.scanned(ordered, length, parameters.overlap))
    return np.unique(np.concatenate(found), axis=0)


def shrunk_products(families: list[Floats], interests: Floats) -> Floats:
    """Products of an interval of each family, shrunk to the interests within, each once."""
    sizes = np.array([len(family) for family in families], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    held = kernels.held_on_axes(np.concatenate(families), sizes, starts, interests)
    found = kernels.shrunk(held, sizes, starts, interests)
    flat = np.unique(found.reshape(len(found), 2 * interests.shape[2]), axis=0)
    return np.ascontiguousarray(flat.reshape(-1, 2, interests.shape[2]))


def _scaled(points: Floats) -> Floats:
    """Points as far from their mean as 1, in the square mean."""
    centred = points - points.mean(axis=0)
    spread = math.sqrt(float(np.mean(np.sum(centred**2, axis=1))))
    scaled: Floats = centred / spread if spread > 0.0 else centred
    return scaled
