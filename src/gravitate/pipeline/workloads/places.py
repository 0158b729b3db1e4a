"""Places: where hosts are in the network space, and in which part of the world.

Owns two sources of places. `measured` embeds the round-trip times of a data folder and finds the
three parts of the world by clustering, since the hosts there have no names. `stand_in` scatters
as many hosts around six areas, fitted to the same measurements. Both give `Places`: points whose
distance is one-way latency in ms, sorted by region.

Runs on the driver and knows nothing of subscribers; a few hundred places are small.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gravitate.errors import FileError, InputError
from gravitate.overlay.embedding import EmbeddingOptions, Matrix, distances, embed
from gravitate.pipeline.workloads.generate import generator

REGIONS: Final = ("asia", "north_america", "europe")
ASIA, NORTH_AMERICA, EUROPE = range(3)

FILE: Final = "planetlab_490_median_rtt_ms.tsv.gz"
SOURCE: Final = "PlanetLab-490"
STAND_IN_SOURCE: Final = "synthetic places fitted to PlanetLab-490 (490 hosts, RTT quantiles)"

MISSING: Final = "is missing: the data folder must have it for this workload"

RTT_MS_QUANTILES: Final = {0.05: 19.0, 0.5: 135.0, 0.95: 331.0}
"""Of PlanetLab-490 over all pairs, as published with it: what the stand-in is fitted to."""

# Six clusters of PlanetLab-490 when its embedding is split by k-means. The names are guesses from
# the latencies between them; the figures are measured, but for the last: a shape for which short
# round trips are as frequent as in the data.
_AREA_REGIONS: Final = (NORTH_AMERICA, NORTH_AMERICA, NORTH_AMERICA, NORTH_AMERICA, EUROPE, ASIA)
"""East, west, south and far west of the Americas, Europe, Asia; the far west and the south lie
nearest to North America, which is where three clusters put them."""
_AREA_HOSTS: Final = (142, 50, 15, 10, 222, 51)
_AREA_RTT_MS: Final = (
    (0, 75, 193, 207, 133, 227),
    (75, 0, 223, 155, 189, 178),
    (193, 223, 0, 366, 289, 400),
    (207, 155, 366, 0, 332, 274),
    (133, 189, 289, 332, 0, 292),
    (227, 178, 400, 274, 292, 0),
)
"""Medians of the round trips between hosts of two areas."""
_AREA_RADIUS_MS: Final = (11.1, 10.1, 33.2, 8.3, 17.3, 30.1)
"""Mean distance of an area's hosts from its middle, one way."""
_RADIUS_SHAPE: Final = 1.5
"""Of the gamma distribution of that distance."""

_STARTS: Final = 30
_STEPS_MAX: Final = 50
"""Of a clustering into regions."""


@dataclass(frozen=True)
class Places:
    """Hosts in the network space; `points[i]` is in `REGIONS[regions[i]]`, regions ascending."""

    points: Matrix
    regions: NDArray[np.int64]
    source: str
    relative_error_median: float | None = None
    """Of distances against the measured latencies; none for places that were not measured."""

    def __len__(self) -> int:
        return len(self.points)

    def statistics(self) -> dict[str, float]:
        """What a manifest says about the places."""
        pairs = np.triu_indices(len(self), 1)
        rtt_ms = 2.0 * distances(self.points)[pairs]
        p5, median, p95 = np.quantile(rtt_ms, [0.05, 0.5, 0.95])
        found = {
            "places": float(len(self)),
            "place_rtt_ms_p5": float(p5),
            "place_rtt_ms_median": float(median),
            "place_rtt_ms_p95": float(p95),
        }
        for number, name in enumerate(REGIONS):
            found[f"places_{name}"] = float((self.regions == number).sum())
        if self.relative_error_median is not None:
            found["embedding_relative_error_median"] = self.relative_error_median
        return found


def places_of(data: Path | None, dimensions: int, seed: int) -> Places:
    """The places of a data folder, or a stand-in for them."""
    if data is None:
        return stand_in(dimensions, seed)
    return measured(data / FILE, dimensions, seed)


def measured(file: Path, dimensions: int, seed: int) -> Places:
    """Hosts embedded from a file of round-trip times, tab-separated, one row a host."""
    if not file.exists():
        raise FileError(MISSING, str(file))
    return _embedded(file, file.stat().st_mtime_ns, dimensions, seed)


@lru_cache(maxsize=4)
def _embedded(file: Path, _written_ns: int, dimensions: int, seed: int) -> Places:
    """Embedding takes seconds, and a study asks many times. Invalidated by: when the file was
    last written."""
    times = _round_trips_ms(file)
    try:
        fit = embed(times, seed, EmbeddingOptions(dimensions=dimensions))
    except InputError as problem:
        raise FileError(str(problem), str(file)) from None
    return _sorted(fit.points, regions_of(fit.points), SOURCE, fit.relative_error_median)


def stand_in(dimensions: int, seed: int) -> Places:
    """As many hosts as were measured, scattered around six areas in any direction."""
    random = generator(seed, "places", dimensions)
    areas = embed(_AREA_RTT_MS, seed, EmbeddingOptions(dimensions=dimensions)).points
    area = np.repeat(np.arange(len(_AREA_HOSTS)), _AREA_HOSTS)
    directions = random.standard_normal((len(area), dimensions))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    scale_ms = np.array(_AREA_RADIUS_MS)[area] / _RADIUS_SHAPE
    radius_ms = random.gamma(_RADIUS_SHAPE, scale_ms)
    points = areas[area] + directions * radius_ms[:, None]
    return _sorted(points, np.array(_AREA_REGIONS)[area], STAND_IN_SOURCE, None)


def regions_of(points: Matrix) -> NDArray[np.int64]:
    """Which region each point is in: three clusters, told apart by how they lie.

    North America is between the others, having the least distance to both; of the others Europe
    is the nearer to it."""
    clusters, medoids = _clustered(distances(points), len(REGIONS))
    apart = distances(points[medoids])
    between = int(apart.sum(axis=1).argmin())
    outer = sorted(
        (c for c in range(len(REGIONS)) if c != between), key=lambda c: apart[between, c]
    )
    region_of_cluster = np.empty(len(REGIONS), dtype=np.int64)
    region_of_cluster[[between, *outer]] = (NORTH_AMERICA, EUROPE, ASIA)
    return region_of_cluster[clusters]


def _clustered(apart: Matrix, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clusters around the `count` points to which the others are nearest in sum, and these
    points: k-medoids, the best of several starts. Medoids, because the few hosts that latencies
    place far off everything would have a mean for themselves."""
    random = np.random.default_rng(len(apart))
    best_sum_ms = np.inf
    best = np.zeros(len(apart), dtype=np.int64), np.zeros(count, dtype=np.int64)
    for _ in range(_STARTS):
        medoids = random.choice(len(apart), count, replace=False)
        for _ in range(_STEPS_MAX):
            clusters = apart[:, medoids].argmin(axis=1)
            moved = np.array([_medoid(apart, clusters == c, medoids[c]) for c in range(count)])
            if np.array_equal(moved, medoids):
                break
            medoids = moved
        sum_ms = float(apart[:, medoids].min(axis=1).sum())
        if sum_ms < best_sum_ms:
            best_sum_ms, best = sum_ms, (apart[:, medoids].argmin(axis=1), medoids)
    return best


def _medoid(apart: Matrix, members: NDArray[np.bool_], medoid: int) -> int:
    """The member with the least sum of distances to the others; the old one when none is left."""
    if not members.any():
        return medoid
    inside = np.flatnonzero(members)
    return int(inside[apart[np.ix_(inside, inside)].sum(axis=1).argmin()])


def _sorted(points: Matrix, regions: NDArray[np.int64], source: str, error: float | None) -> Places:
    order = np.argsort(regions, kind="stable")
    return Places(points[order], regions[order], source, error)


def _round_trips_ms(file: Path) -> Matrix:
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            times: Matrix = np.loadtxt(file, delimiter="\t", ndmin=2)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise FileError(f"cannot be read: {reason}", str(file)) from None
    except (ValueError, EOFError) as problem:
        raise FileError(f"is no table of round-trip times: {problem}", str(file)) from None
    if times.shape[0] != times.shape[1] or len(times) < len(REGIONS):
        raise FileError(
            f"has {times.shape[0]} rows and {times.shape[1]} columns: expected as many rows as "
            f"columns, at least {len(REGIONS)}, one a host",
            str(file),
        )
    return times
