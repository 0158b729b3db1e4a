"""Embedding: distances come back, errors are told, the same arguments give the same points."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.overlay.embedding import Embedding, EmbeddingOptions, distances, embed


def _round_trips_ms(points: np.ndarray) -> np.ndarray:
    """By the textbook formula, pair by pair."""
    return np.array([[2 * math.dist(one, other) for other in points] for one in points])


def _scattered(count: int, dimensions: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 100, (count, dimensions))


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_latencies_of_points_are_recovered(dimensions: int) -> None:
    round_trips = _round_trips_ms(_scattered(40, dimensions, seed=3))
    found = embed(round_trips, options=EmbeddingOptions(dimensions, floor_ms=0.1))
    assert found.points.shape == (40, dimensions)
    assert found.relative_error_median < 0.01
    assert 2 * distances(found.points) == pytest.approx(round_trips, abs=2.0)


def test_distance_is_one_way_latency() -> None:
    found = embed([[0, 80], [80, 0]], options=EmbeddingOptions(dimensions=2))
    assert math.dist(*found.points) == pytest.approx(40, rel=1e-3)


def test_the_same_arguments_give_the_same_points() -> None:
    round_trips = _round_trips_ms(_scattered(30, 6, seed=5))
    one, other = embed(round_trips, seed=7), embed(round_trips.copy(), seed=7)
    assert np.array_equal(one.points, other.points)
    assert one.stress == other.stress


def test_more_steps_never_fit_worse() -> None:
    round_trips = _round_trips_ms(_scattered(30, 8, seed=6))
    round_trips *= np.random.default_rng(1).uniform(0.7, 1.3, round_trips.shape)
    fits = [_fit(round_trips, steps) for steps in (1, 2, 5, 20, 80)]
    assert [fit.iterations for fit in fits] == [1, 2, 5, 20, 80]
    assert all(a.stress >= b.stress for a, b in itertools.pairwise(fits))


def _fit(round_trips: np.ndarray, steps: int) -> Embedding:
    return embed(round_trips, options=EmbeddingOptions(2, steps, improvement_min=0.0))


def test_reported_errors_are_those_of_the_points() -> None:
    round_trips = _round_trips_ms(_scattered(25, 5, seed=8))
    found = embed(round_trips, options=EmbeddingOptions(dimensions=2))
    errors = [
        abs(math.dist(found.points[i], found.points[j]) / (round_trips[i, j] / 2) - 1)
        for i in range(25)
        for j in range(i)
    ]
    assert found.relative_error_median == pytest.approx(np.median(errors))
    assert found.relative_error_p90 == pytest.approx(np.quantile(errors, 0.9))


def test_directions_are_averaged_and_one_is_enough() -> None:
    nan = float("nan")
    averaged = embed([[0, 60], [100, 0]], options=EmbeddingOptions(1)).points
    assert abs(averaged[0] - averaged[1]) == pytest.approx(40, rel=1e-3)
    single = embed([[0, 60], [nan, 0]], options=EmbeddingOptions(1)).points
    assert abs(single[0] - single[1]) == pytest.approx(30, rel=1e-3)


def test_pairs_that_were_not_measured_are_left_free() -> None:
    points = _scattered(40, 2, seed=9)
    complete = _round_trips_ms(points)
    unknown = np.triu(np.random.default_rng(2).random(complete.shape) < 0.3)
    partial = np.where(unknown | unknown.T, np.nan, complete)
    np.fill_diagonal(partial, 0.0)
    options = EmbeddingOptions(2, iterations_max=500, improvement_min=1e-6)
    found = embed(partial, options=options)
    errors = np.abs(2 * distances(found.points) - complete)[np.isnan(partial)]
    assert np.median(errors) < 2.0


def test_hosts_that_nothing_tells_apart_stay_together() -> None:
    points = np.repeat(_scattered(10, 3, seed=4), 3, axis=0)
    found = embed(_round_trips_ms(points), options=EmbeddingOptions(dimensions=3)).points
    for site in range(0, 30, 3):
        assert distances(found[site : site + 3]).max() < 2.0


@settings(max_examples=25, deadline=None)
@given(count=st.integers(2, 12), dimensions=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_any_matrix_gives_finite_centred_points(count: int, dimensions: int, seed: int) -> None:
    round_trips = np.random.default_rng(seed).uniform(0, 300, (count, count))
    found = embed(round_trips, seed, EmbeddingOptions(dimensions, iterations_max=20))
    assert found.points.shape == (count, dimensions)
    assert np.isfinite(found.points).all()
    assert found.points.mean(axis=0) == pytest.approx(np.zeros(dimensions), abs=1e-6)
    assert 1 <= found.iterations <= 20


def test_one_host_and_none_are_at_the_origin() -> None:
    assert embed([[0.0]]).points.tolist() == [[0.0] * 5]
    assert embed(np.zeros((0, 0))).points.shape == (0, 5)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([[0, 1, 2], [1, 0, 2]], "shape 2x3 cannot be embedded"),
        ([[0, -3], [-3, 0]], "-3 ms (row 1, column 2) is not accepted"),
        ([[0, float("inf")], [1, 0]], "inf ms (row 1, column 2)"),
        ([[0, 1, float("nan")], [1, 0, float("nan")], [float("nan")] * 3], "row 3 has no measured"),
    ],
)
def test_what_is_no_matrix_of_latencies_is_refused(times: list[list[float]], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        embed(times)
