"""Sets of periods as ranges."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.periods import ranges


@given(st.sets(st.integers(-50, 50)))
def test_ranges_hold_exactly_the_periods(periods: set[int]) -> None:
    found = ranges(periods)
    assert [n for first, last in found for n in range(first, last + 1)] == sorted(periods)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(found))
