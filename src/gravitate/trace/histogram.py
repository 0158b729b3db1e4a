"""Delays counted in classes of growing width: histograms that add up, percentiles within 1 %.

Owns the classes. Class 0 holds what is below `DELAY_S_MIN`, counted as 0; class b from 1 on holds

    DELAY_S_MIN * RATIO ** (b - 1)  <=  delay  <  DELAY_S_MIN * RATIO ** b

and stands for the geometric middle of its bounds, which is off by at most `sqrt(RATIO) - 1`, less
than 1 %. The last class has no upper bound. Histograms of parts (periods, brokers, partitions)
are merged by adding their counts; counts may be weights. Nothing is known here of who waited.

A *percentile* at a share is the delay that stands there among all delays in order, between two of
them in proportion: the definition of `numpy.percentile`, which `trace.metrics` uses too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

DELAY_S_MIN: Final = 1e-6
RATIO: Final = 1.02
BUCKETS: Final = 1400
"""Enough for a million seconds."""
_HAIR: Final = 1e-6
"""Sums of weights need not be exact; ranks this near to a whole number are one."""


def bucket_of(delay_s: ArrayLike) -> NDArray[np.int32]:
    """The classes of delays; negative ones (clocks that disagree) fall into class 0."""
    delays_s = np.maximum(np.asarray(delay_s, dtype=np.float64), DELAY_S_MIN / 2)
    steps = np.floor(np.log(delays_s / DELAY_S_MIN) / math.log(RATIO)) + 1
    buckets: NDArray[np.int32] = np.clip(steps, 0, BUCKETS - 1).astype(np.int32)
    return buckets


def bucket_delay_s(bucket: ArrayLike) -> NDArray[np.float64]:
    """The delays that classes stand for."""
    buckets = np.asarray(bucket, dtype=np.float64)
    return np.where(buckets < 1, 0.0, DELAY_S_MIN * RATIO ** (buckets - 0.5))


def percentiles_s(
    buckets: ArrayLike, counts: ArrayLike, shares: Sequence[float], delay_s_max: float = math.inf
) -> list[float]:
    """The delays at `shares` (0.5 for the median) of a histogram given by its classes and counts.

    A class may occur several times, as when parts are put together. `delay_s_max`, where it is
    known, bounds the answers. Nothing counted: 0 for every share."""
    weights: NDArray[Any] = np.bincount(
        np.asarray(buckets, dtype=np.int64), np.asarray(counts, dtype=np.float64), 1
    )
    kept = np.flatnonzero(weights)
    if not len(kept):
        return [0.0] * len(shares)
    # Weights below 1 are read in units of the smallest, as if they were counts.
    ends = np.cumsum(weights[kept]) / min(1.0, weights[kept].min())
    place = np.asarray(shares) * (ends[-1] - 1.0)
    before = np.floor(place + _HAIR)
    below, above = (
        bucket_delay_s(
            kept[np.minimum(np.searchsorted(ends, rank + _HAIR, "right"), len(kept) - 1)]
        )
        for rank in (before, before + 1)
    )
    found = below + np.maximum(place - before, 0.0) * (above - below)
    return [min(float(delay_s), delay_s_max) for delay_s in found]
