"""Delay classes: merging loses nothing, percentiles are within 1 % of the sorted delays'."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravitate.trace.histogram import (
    BUCKETS,
    DELAY_S_MIN,
    RATIO,
    bucket_delay_s,
    bucket_of,
    percentiles_s,
)

DELAYS_S = st.floats(min_value=DELAY_S_MIN, max_value=1e5)
SHARES = (0.01, 0.5, 0.95, 0.99, 1.0)


@given(DELAYS_S)
def test_a_class_stands_for_its_delays_within_one_percent(delay_s: float) -> None:
    assert math.isclose(float(bucket_delay_s(bucket_of(delay_s))), delay_s, rel_tol=0.01)


@given(st.lists(DELAYS_S, min_size=1, max_size=60))
def test_percentiles_are_those_of_the_delays_themselves(delays_s: list[float]) -> None:
    expected = np.percentile(delays_s, [100 * share for share in SHARES])
    found = percentiles_s(bucket_of(delays_s), np.ones(len(delays_s)), SHARES)
    assert all(
        math.isclose(one, other, rel_tol=0.01) for one, other in zip(found, expected, strict=True)
    )


@given(st.lists(DELAYS_S, min_size=2, max_size=60), st.data())
def test_parts_put_together_give_the_percentiles_of_the_whole(
    delays_s: list[float], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(delays_s)))
    parts = [
        np.bincount(bucket_of(part), minlength=BUCKETS) for part in (delays_s[:cut], delays_s[cut:])
    ]
    classes = np.tile(np.arange(BUCKETS), 2)
    together = percentiles_s(classes, np.concatenate(parts), SHARES)
    assert together == percentiles_s(bucket_of(delays_s), np.ones(len(delays_s)), SHARES)


def test_no_delay_and_impossible_delays_are_class_zero() -> None:
    assert bucket_of([0.0, -1.0, DELAY_S_MIN / 3]).tolist() == [0, 0, 0]
    assert percentiles_s([0, 0], [3, 1], (0.5,)) == [0.0]


def test_the_longest_delays_share_the_last_class() -> None:
    assert bucket_of([1e30]).tolist() == [BUCKETS - 1]
    assert DELAY_S_MIN * RATIO ** (BUCKETS - 2) > 1e5


def test_weights_count_and_a_known_maximum_bounds() -> None:
    buckets = bucket_of([1.0, 2.0])
    assert math.isclose(percentiles_s(buckets, [0.25, 0.75], (0.5,))[0], 2.0, rel_tol=0.01)
    assert percentiles_s(buckets, [1, 1], (1.0,), delay_s_max=2.0)[0] <= 2.0


def test_nothing_counted_is_no_delay() -> None:
    assert percentiles_s([], [], (0.5, 0.99)) == [0.0, 0.0]
