"""Choosing rows by their periods."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from pyspark.sql import functions as F


def is_one_of(periods: Collection[int]) -> Any:
    """The condition that a row's `period` is one of some.

    Written as ranges: new rows are mostly of consecutive periods, and files whose rows lie outside
    a range are not opened."""
    period = F.col("period")
    within = (period.between(first, last) for first, last in ranges(periods))
    return reduce(or_, within, F.lit(False))


def ranges(numbers: Collection[int]) -> list[tuple[int, int]]:
    """The stretches of consecutive numbers, first and last of each."""
    ordered = sorted(set(numbers))
    gaps = [i + 1 for i, (one, other) in enumerate(pairwise(ordered)) if other > one + 1]
    bounds = [0, *gaps, len(ordered)] if ordered else []
    return [(ordered[start], ordered[stop - 1]) for start, stop in pairwise(bounds)]
