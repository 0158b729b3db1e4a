"""k-means as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel


@kernel
def _square(points: Any, point: Any, means: Any, mean: Any) -> Any:
    square = 0.0
    for axis in range(points.shape[1]):
        step = points[point, axis] - means[mean, axis]
        square += step * step
    return square


@kernel
def k_means(points: Any, draws: Any, steps_max: Any, group: Any) -> None:
    """Fills `group`; `draws` has a number from 0 to 1 for each group.

    The first mean is a point drawn evenly, each further one a point drawn by the square of its
    distance to the means before (k-means++). When all points are means there are no more groups. A
    group that loses all points keeps its mean."""
    count, axes = points.shape
    means = np.empty((len(draws), axes))
    means[0] = points[min(count - 1, int(draws[0] * count))]
    nearest = np.empty(count)
    for point in range(count):
        nearest[point] = _square(points, point, means, 0)
    groups = 1
    while groups < len(draws):
        total = nearest.sum()
        if total <= 0.0:
            break
        left = draws[groups] * total
        chosen = -1
        for point in range(count):
            if nearest[point] > 0.0:
                chosen = point
                left -= nearest[point]
                if left < 0.0:
                    break
        means[groups] = points[chosen]
        for point in range(count):
            nearest[point] = min(nearest[point], _square(points, point, means, groups))
        groups += 1
    sizes = np.empty(groups, dtype=np.int64)
    group[:] = -1
    for _ in range(steps_max):
        is_moved = False
        for point in range(count):
            best, best_square = 0, np.inf
            for mean in range(groups):
                square = _square(points, point, means, mean)
                if square < best_square:
                    best, best_square = mean, square
            if group[point] != best:
                group[point] = best
                is_moved = True
        if not is_moved:
            break
        sizes[:] = 0
        for point in range(count):
            sizes[group[point]] += 1
        for mean in range(groups):
            if sizes[mean] > 0:
                means[mean] = 0.0
        for point in range(count):
            for axis in range(axes):
                means[group[point], axis] += points[point, axis]
        for mean in range(groups):
            if sizes[mean] > 0:
                means[mean] /= sizes[mean]
