"""Zipf popularity over ranks, and the search for the skew that gives a stated share.

An interest has a *position* in [0, 1). The ranks divide that line into pieces as long as they
are popular; the most popular comes first. Positions do not depend on the skew, so the same draws
serve every step of a search, and the share grows with the skew as steadily as draws allow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gravitate.errors import InputError
from gravitate.pipeline.workloads.columns import Floats, Integers

SKEW_MAX = 8.0
"""Where the first rank has 99.6 % of everything."""
STEPS = 40


def zipf(ranks: int, skew: float) -> Floats:
    """Probabilities proportional to rank ** -skew, most popular first."""
    weights = np.arange(1, ranks + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def ranks_at(positions: Floats, probabilities: Floats) -> Integers:
    """The rank, from 0, whose piece of [0, 1) holds each position."""
    ends = np.cumsum(probabilities)
    return np.minimum(np.searchsorted(ends, positions, side="right"), len(ends) - 1)


def calibrated(share_of: Callable[[float], float], share: float, what: str) -> float:
    """The skew at which `share_of` gives `share`, by bisection between 0 and `SKEW_MAX`."""
    low, high = 0.0, SKEW_MAX
    least, most = share_of(low), share_of(high)
    if not least <= share <= most:
        raise InputError(
            f"{what} {share:g} cannot be reached with these parameters: "
            f"write a value between {least:.4f} and {most:.4f}"
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        if share_of(middle) < share:
            low = middle
        else:
            high = middle
    return high
