"""Sets of periods as ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.periods import RANGES_MAX, is_one_of, ranges


@given(st.sets(st.integers(-50, 50)))
def test_ranges_hold_exactly_the_periods(periods: set[int]) -> None:
    found = ranges(periods)
    assert [n for first, last in found for n in range(first, last + 1)] == sorted(periods)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(found))


@pytest.mark.parametrize("count", [0, 1, RANGES_MAX, RANGES_MAX + 1, 10_000])
def test_rows_are_chosen_by_however_many_ranges(spark: Any, count: int) -> None:
    periods = set(range(7, 7 + 3 * count, 3))
    rows = spark.range(0, 3 * count + 20).selectExpr("cast(id as int) as period")
    chosen = rows.where(is_one_of(periods)).agg({"period": "sum", "*": "count"}).collect()[0]
    assert sorted(value or 0 for value in chosen) == sorted((len(periods), sum(periods)))
