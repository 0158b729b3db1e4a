"""Which leaves are near enough for a subscriber, as a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel


@kernel
def reach(
    locations: Any,
    leaf_points: Any,
    leaf_ms: Any,
    delay_max: Any,
    shortest_ms: Any,
    candidates: Any,
) -> None:
    """The shortest latency of each subscriber over all leaves, and bits for the leaves through
    which it is at most `1 + delay_max` times as long. `candidates` must be zero."""
    leaves, dimensions = leaf_points.shape
    latency_ms = np.empty(leaves)
    for subscriber in range(len(locations)):
        shortest = np.inf
        for leaf in range(leaves):
            square = 0.0
            for axis in range(dimensions):
                step = locations[subscriber, axis] - leaf_points[leaf, axis]
                square += step * step
            latency_ms[leaf] = leaf_ms[leaf] + np.sqrt(square)
            shortest = min(shortest, latency_ms[leaf])
        shortest_ms[subscriber] = shortest
        # The shortest way itself must pass, whatever the product is rounded to.
        bound = max(shortest, shortest * (1.0 + delay_max[subscriber]))
        for leaf in range(leaves):
            if latency_ms[leaf] <= bound:
                candidates[subscriber, leaf // 64] |= np.uint64(1) << np.uint64(leaf % 64)
