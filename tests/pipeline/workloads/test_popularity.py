"""Zipf laws on a line, and the search for a skew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.pipeline.workloads.popularity import SKEW_MAX, calibrated, ranks_at, zipf


@given(st.integers(1, 50), st.floats(0.0, 8.0))
def test_probabilities_fall_with_rank_by_the_power(ranks: int, skew: float) -> None:
    found = zipf(ranks, skew)
    assert found.sum() == pytest.approx(1.0)
    for rank in range(1, ranks + 1):
        assert found[rank - 1] == pytest.approx(found[0] * rank**-skew)


@given(
    st.integers(1, 20),
    st.floats(0.0, 4.0),
    st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=20),
)
def test_a_position_belongs_to_the_rank_whose_piece_holds_it(
    ranks: int, skew: float, positions: list[float]
) -> None:
    probabilities = zipf(ranks, skew)
    ends = np.cumsum(probabilities)
    for position, rank in zip(positions, ranks_at(np.array(positions), probabilities), strict=True):
        expected = next((r for r in range(ranks) if position < ends[r]), ranks - 1)
        assert rank == expected


def test_the_search_finds_the_skew_of_a_rising_share() -> None:
    assert calibrated(lambda skew: skew / SKEW_MAX, 0.3, "share") == pytest.approx(0.3 * SKEW_MAX)


def test_what_cannot_be_reached_is_said_with_its_bounds() -> None:
    with pytest.raises(InputError, match=r"share 0\.9 .* between 0\.1000 and 0\.5000"):
        calibrated(lambda skew: 0.1 + 0.4 * skew / SKEW_MAX, 0.9, "share")
