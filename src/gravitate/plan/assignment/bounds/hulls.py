"""What leaves must let pass at least because their filters have few boxes (beyond paper 4).

    hulls = captive_hulls(network, candidates, interests)

A *captive* of a leaf has no other candidate, so in every valid solution the leaf's filter holds
its interest. A filter is a union of at most alpha boxes, so it holds any chosen points of captives'
interests by at most alpha boxes; each box holds the smallest box around the points that it holds.
Hence the filter's volume is at least the least, over all ways to deal the points out to alpha
groups, of the volume of the union of the boxes around the groups. Points, and not interests, are
dealt out because an interest may lie in several boxes together.

Points are few, or there are too many ways: corners of captives' interests that are far from each
other. Fewer points or captives only make the bound weaker, so a sample of subscribers will do.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gravitate.plan.assignment.boxes.cover_kernels import TOO_LONG, cover_volume
from gravitate.plan.assignment.problem.problem import Floats, Network, Words

POINTS_MAX: Final = 16
STEPS_MAX: Final = 100_000
"""A leaf's points are made fewer until so many steps suffice."""


def captive_hulls(network: Network, candidates: Words, interests: Floats) -> Floats:
    """For each leaf the least volume of its filter; 0 for those without captives."""
    bits = candidates != 0
    is_captive = (bits.sum(axis=1) == 1) & _is_power(np.bitwise_or.reduce(candidates, axis=1))
    found = np.zeros(len(network.leaves))
    for leaf, broker in enumerate(network.leaves.tolist()):
        bit = np.uint64(1) << np.uint64(leaf % 64)
        own = interests[is_captive & (candidates[:, leaf // 64] == bit)]
        if len(own):
            found[leaf] = least_volume(own, int(network.complexity[broker]))
    return found


def least_volume(boxes: Floats, complexity: int) -> float:
    """A bound on the volume of any union of at most `complexity` boxes that has all `boxes`."""
    if complexity == 1:
        return float(np.prod(boxes[:, 1].max(axis=0) - boxes[:, 0].min(axis=0)))
    points = _far_apart(np.unique(boxes.reshape(-1, boxes.shape[2]), axis=0), POINTS_MAX)
    for count in range(len(points), 0, -1):
        inside = np.stack([points[:count], points[:count]], axis=1)
        group = np.empty(count, dtype=np.int64)
        volume = float(cover_volume(inside, complexity, STEPS_MAX, group))
        if volume != TOO_LONG:
            return volume
    return 0.0


def _far_apart(points: Floats, count: int) -> Floats:
    """Some of the points, each as far as possible from those before."""
    spread = np.ptp(points, axis=0)
    scaled = points / np.where(spread > 0.0, spread, 1.0)
    chosen = [int(np.argmin(scaled.sum(axis=1)))]
    nearest = np.linalg.norm(scaled - scaled[chosen[0]], axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(scaled - scaled[chosen[-1]], axis=1))
    return np.ascontiguousarray(points[chosen])


def _is_power(words: Words) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether a word has one bit."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (words & (words - np.uint64(1))) == 0
    return found
