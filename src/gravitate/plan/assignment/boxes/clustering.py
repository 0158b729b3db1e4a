"""k-means: points into groups, for super-interests and for filters (paper 4, sections 4.1.3, 4.3).

Seeds are spread as k-means++ does; then points and means take turns until nobody moves. Pure, and
the same for the same generator. Knows points alone.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes import cluster_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class ClusteringParameters(msgspec.Struct, frozen=True):
    """The paper does not say how k-means is run."""

    steps_max: Annotated[int, msgspec.Meta(ge=1)] = 30


DEFAULTS: Final = ClusteringParameters()


def k_means(
    points: Floats,
    groups: int,
    rng: np.random.Generator,
    parameters: ClusteringParameters = DEFAULTS,
) -> Ints:
    """A group for each point, numbered from 0; no more groups than there are different points.

    Groups are never empty: the numbers in use are consecutive."""
    if groups < 1:
        raise InputError(f"{groups} groups are not accepted: write 1 or more")
    if len(points) == 0:
        return np.empty(0, dtype=np.int32)
    rows = np.ascontiguousarray(points, dtype=np.float64)
    draws = rng.random(min(groups, len(rows)))
    group = np.empty(len(rows), dtype=np.int32)
    kernels.k_means(rows, draws, parameters.steps_max, group)
    numbers, found = np.unique(group, return_inverse=True)
    return found.astype(np.int32) if len(numbers) <= group.max() else group


def enclosing_boxes(boxes: Floats, group: Ints, groups: int) -> Floats:
    """The smallest box around the boxes of each group; none of the groups may be empty."""
    found = np.empty((groups, 2, boxes.shape[2]))
    found[:, 0], found[:, 1] = np.inf, -np.inf
    np.minimum.at(found[:, 0], group, boxes[:, 0])
    np.maximum.at(found[:, 1], group, boxes[:, 1])
    assert np.isfinite(found).all(), "every group has a box"
    return found
