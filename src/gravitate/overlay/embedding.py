"""Network coordinates from measured latencies: points whose distance is the one-way latency.

Owns the fit of a matrix of round-trip times by points in a Euclidean space of few dimensions.
It knows neither what the points stand for nor where the times come from.

The stress to be made small is the sum over pairs of the squared *relative* error, so that a
metropolitan link counts as much as one across an ocean:

    sum over i < j of  w_ij (|x_i - x_j| - t_ij)^2,   w_ij = 1 / max(t_ij, floor_ms)^2

with `t` the one-way latency, half of the round-trip time. The start is classical scaling (the
leading eigenvectors of the doubly centred squared latencies); each step is the Guttman transform,
which minimises a quadratic that touches the stress at the current points and lies above it
elsewhere, so the stress never grows (de Leeuw 1977; Borg and Groenen, Modern Multidimensional
Scaling, chapter 8). Real latencies break the triangle inequality, so an error remains; it is
reported.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError

Matrix = NDArray[np.float64]


class EmbeddingOptions(msgspec.Struct, frozen=True):
    """How a fit is made and when it ends."""

    dimensions: int = 5
    """Of the network space; five in the subscriber-assignment paper, section 6."""
    iterations_max: int = 200
    improvement_min: float = 1e-4
    """The fit ends when a step lowers the stress by less than this share of it."""
    floor_ms: float = 5.0
    """One-way latencies below this count as if they were this long: the relative error of a
    tenth of a millisecond between two hosts of one rack says nothing."""


class Embedding(msgspec.Struct, frozen=True):
    """Points, and how well they tell the latencies."""

    points: Any
    """Float64, one row a host; the mean is the origin, the first axis has the widest spread."""
    stress: float
    """Weighted mean of squared errors: near the mean squared relative error."""
    iterations: int
    relative_error_median: float
    """Of `|distance - latency| / latency` over all measured pairs."""
    relative_error_p90: float


def embed(round_trip_ms: Any, seed: int = 1, options: EmbeddingOptions | None = None) -> Embedding:
    """Points in `options.dimensions` dimensions for a square matrix of round-trip times.

    Times of the two directions are averaged; a pair with NaN was not measured and is left free.
    The seed separates hosts that nothing tells apart; the same arguments give the same points."""
    options = options or EmbeddingOptions()
    latency_ms, measured = _checked(round_trip_ms, options)
    count = len(latency_ms)
    if count < 2:
        return Embedding(np.zeros((count, options.dimensions)), 0.0, 0, 0.0, 0.0)
    weights = np.where(measured, 1.0 / np.maximum(latency_ms, options.floor_ms) ** 2, 0.0)
    points = _start(latency_ms, measured, seed, options.dimensions)
    points, stress, iterations = _fitted(points, latency_ms, weights, options)
    median, p90 = _relative_errors(points, latency_ms, measured)
    return Embedding(_turned(points), stress, iterations, median, p90)


def distances(points: Matrix) -> Matrix:
    """Euclidean distances of all pairs of rows."""
    squares = np.einsum("ij,ij->i", points, points)
    squared = squares[:, None] + squares - 2.0 * (points @ points.T)
    found: Matrix = np.sqrt(np.maximum(squared, 0.0))
    np.fill_diagonal(found, 0.0)
    return found


def _checked(round_trip_ms: Any, options: EmbeddingOptions) -> tuple[Matrix, NDArray[np.bool_]]:
    """One-way latencies, symmetric, and which pairs were measured."""
    times = np.asarray(round_trip_ms, dtype=np.float64)
    if times.ndim != 2 or times.shape[0] != times.shape[1]:
        raise InputError(
            f"round-trip times of shape {'x'.join(map(str, times.shape))} cannot be embedded: "
            "give a square matrix, one row and one column a host"
        )
    if options.dimensions < 1:
        raise InputError(f"{options.dimensions} dimensions are not accepted: write at least 1")
    wrong = np.argwhere(np.isinf(times) | (times < 0))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"a round-trip time of {times[row, column]:g} ms (row {row + 1}, column {column + 1}) "
            "is not accepted: write a number of at least 0, or nan for a pair not measured"
        )
    known = ~np.isnan(times)
    values = np.where(known, times, 0.0)
    directions = np.maximum(known.astype(np.int64) + known.T, 1)
    latency_ms = (values + values.T) / directions / 2.0
    measured = known | known.T
    np.fill_diagonal(measured, False)
    np.fill_diagonal(latency_ms, 0.0)
    alone = np.flatnonzero(~measured.any(axis=1))
    if len(times) > 1 and len(alone):
        raise InputError(f"the host in row {alone[0] + 1} has no measured latency: leave it out")
    return latency_ms, measured


def _start(latency_ms: Matrix, measured: NDArray[np.bool_], seed: int, dimensions: int) -> Matrix:
    """Classical scaling, with pairs not measured taken to be as far as the median pair."""
    count = len(latency_ms)
    median = float(np.median(latency_ms[measured]))
    filled = np.where(measured | np.eye(count, dtype=bool), latency_ms, median)
    squared = filled**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    leading = np.argsort(values)[::-1][:dimensions]
    points = np.zeros((count, dimensions))
    points[:, : len(leading)] = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0.0))
    # Coinciding points have no direction to part in, and neither has a dimension that scaling
    # left empty.
    noise = np.random.default_rng(seed).standard_normal(points.shape)
    return points + 1e-3 * max(median, 1e-3) * noise


def _fitted(
    points: Matrix, latency_ms: Matrix, weights: Matrix, options: EmbeddingOptions
) -> tuple[Matrix, float, int]:
    """Guttman transforms until the stress stays; the points, their stress, how many it took."""
    total = float(weights.sum())
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    weighted = weights * latency_ms
    found = distances(points)
    stress = float((weights * (found - latency_ms) ** 2).sum())
    iterations = 0
    while iterations < options.iterations_max:
        iterations += 1
        pulls = weighted / np.where(found > 0.0, found, np.inf)
        moved = inverse @ (pulls.sum(axis=1)[:, None] * points - pulls @ points)
        found = distances(moved)
        now = float((weights * (found - latency_ms) ** 2).sum())
        points, before, stress = moved, stress, now
        if before - stress <= options.improvement_min * before:
            break
    return points, stress / total if total else 0.0, iterations


def _relative_errors(
    points: Matrix, latency_ms: Matrix, measured: NDArray[np.bool_]
) -> tuple[float, float]:
    pairs = np.triu(measured & (latency_ms > 0.0))
    if not pairs.any():
        return 0.0, 0.0
    errors = np.abs(distances(points)[pairs] - latency_ms[pairs]) / latency_ms[pairs]
    median, p90 = np.quantile(errors, [0.5, 0.9])
    return float(median), float(p90)


def _turned(points: Matrix) -> Matrix:
    """The same shape around its mean, on its own axes, widest first, signs fixed: so that equal
    latencies give equal points, not a mirror image of them."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=True)
    turned: Matrix = centred @ axes.T
    largest = np.abs(turned).argmax(axis=0)
    signs = np.sign(turned[largest, np.arange(turned.shape[1])])
    return turned * np.where(signs == 0.0, 1.0, signs)
