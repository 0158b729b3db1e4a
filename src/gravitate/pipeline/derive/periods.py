"""Choosing rows by their periods."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, Final

from pyspark.sql import functions as F

RANGES_MAX: Final = 50
"""Each range is one level of nesting, and Spark follows a condition's levels recursively."""


def is_one_of(periods: Collection[int]) -> Any:
    """The condition that a row's `period` is one of some.

    Written as ranges: new rows are mostly of consecutive periods, and files whose rows lie outside
    a range are not opened. Many ranges become one and the set of periods in it."""
    period = F.col("period")
    found = ranges(periods)
    if len(found) > RANGES_MAX:
        numbers = ", ".join(map(str, sorted(set(periods))))
        return period.between(found[0][0], found[-1][1]) & F.expr(f"period in ({numbers})")
    within = (period.between(first, last) for first, last in found)
    return reduce(or_, within, F.lit(False))


def widened(periods: Collection[int], by: int) -> set[int]:
    """The periods, and as many as `by` on both sides of each."""
    return {
        period for first, last in ranges(periods) for period in range(first - by, last + by + 1)
    }


def ranges(numbers: Collection[int]) -> list[tuple[int, int]]:
    """The stretches of consecutive numbers, first and last of each."""
    ordered = sorted(set(numbers))
    gaps = [i + 1 for i, (one, other) in enumerate(pairwise(ordered)) if other > one + 1]
    bounds = [0, *gaps, len(ordered)] if ordered else []
    return [(ordered[start], ordered[stop - 1]) for start, stop in pairwise(bounds)]
