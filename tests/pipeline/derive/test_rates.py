"""The exponential filter, against one series at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.rates import WEIGHT, exponential_filter

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


def test_the_filter_forgets_seven_tenths_at_a_time() -> None:
    smoothed = exponential_filter(np.array([10.0, 0.0, 0.0, 10.0]), np.array([0]), np.array([4]))
    assert smoothed.tolist() == pytest.approx([10.0, 7.0, 4.9, 6.43])
