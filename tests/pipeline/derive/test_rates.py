"""The exponential filter, against one series at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.rates import (
    FORGOTTEN_PERIODS,
    WEIGHT,
    _smoothed,
    exponential_filter,
)

SERIES = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


@given(st.lists(SERIES, max_size=8))
def test_each_series_is_smoothed_by_itself(series: list[list[float]]) -> None:
    lengths = np.array([len(values) for values in series], dtype=np.int64)
    offsets = np.cumsum(lengths) - lengths
    values = np.array([value for one in series for value in one], dtype=np.float64)
    expected = []
    for one in series:
        smoothed = one[0]
        for value in one:
            smoothed = (1 - WEIGHT) * smoothed + WEIGHT * value
            expected.append(smoothed)
    assert exponential_filter(values, offsets, lengths).tolist() == pytest.approx(expected)


COUNTS = st.dictionaries(st.integers(0, 900), st.integers(1, 50), min_size=1, max_size=12)


@given(st.dictionaries(st.sampled_from("abc"), COUNTS, min_size=1))
def test_rows_are_left_out_where_nothing_is_left_of_a_rate(
    topics: dict[str, dict[int, int]],
) -> None:
    last = max(max(counts) for counts in topics.values())
    found = {(row["topic"], row["period"]): row for row in _rates(topics)}
    for topic, counts in topics.items():
        smoothed = float(counts[min(counts)])
        for period in range(min(counts), last + 1):
            smoothed = (1 - WEIGHT) * smoothed + WEIGHT * counts.get(period, 0)
            row = found.pop((topic, period), None)
            near = range(period - FORGOTTEN_PERIODS, period + 2)
            assert (row is not None) == any(other in counts for other in near)
            told = row["rate_smoothed_msgs_per_s"] if row else 0.0
            assert told == pytest.approx(smoothed, abs=1e-12)
            assert (row["publications"] if row else 0) == counts.get(period, 0)
    assert not found


def test_one_wrong_clock_does_not_make_a_row_a_period() -> None:
    now = 29_000_000
    found = _rates({"a": {0: 1, now: 5}, "b": {now - 2: 3}})
    assert len(found) <= 2 * (FORGOTTEN_PERIODS + 3)
    ahead = _rates({"a": {0: 1}, "b": {now: 3}})
    assert len(ahead) == FORGOTTEN_PERIODS + 2


def _rates(topics: dict[str, dict[int, int]]) -> list[dict[str, Any]]:
    """The rows of topics with so many publications in these periods of one second."""
    last = max(max(counts) for counts in topics.values())
    rows = [
        {"period": period, "topic": topic, "publications": count}
        for topic, counts in sorted(topics.items())
        for period, count in sorted(counts.items())
    ]
    batches = list(_smoothed(iter(pa.Table.from_pylist(rows).to_batches()), last, 1.0, WEIGHT))
    return pa.Table.from_batches(batches).to_pylist()


def test_the_filter_forgets_seven_tenths_at_a_time() -> None:
    smoothed = exponential_filter(np.array([10.0, 0.0, 0.0, 10.0]), np.array([0]), np.array([4]))
    assert smoothed.tolist() == pytest.approx([10.0, 7.0, 4.9, 6.43])
