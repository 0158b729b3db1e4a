"""Places: a stand-in like the measured ones, regions found by how they lie, bad files named."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from gravitate.errors import FileError
from gravitate.pipeline.workloads import places

MIDDLES = {
    places.ASIA: (-140.0, 0.0),
    places.NORTH_AMERICA: (0.0, 0.0),
    places.EUROPE: (60.0, 20.0),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_round_trips_of_the_stand_in_are_spread_as_the_measured_ones(seed: int) -> None:
    found = places.stand_in(5, seed)
    round_trips = sorted(
        2 * math.dist(one, other)
        for number, one in enumerate(found.points)
        for other in found.points[:number]
    )
    assert len(found) == 490
    for share, stated_ms in places.RTT_MS_QUANTILES.items():
        assert round_trips[int(share * len(round_trips))] == pytest.approx(stated_ms, rel=0.1)


def test_the_stand_in_says_what_it_is_and_depends_on_its_seed_alone() -> None:
    one, same, other = (places.stand_in(5, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)
    assert one.source.startswith("synthetic")
    assert one.relative_error_median is None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_clustering_finds_the_regions_that_the_stand_in_was_made_of(seed: int) -> None:
    made = places.stand_in(5, seed)
    wrong = int((places.regions_of(made.points) != made.regions).sum())
    assert wrong <= 0.01 * len(made)


def test_regions_are_named_by_how_they_lie() -> None:
    random = np.random.default_rng(1)
    regions = random.integers(3, size=60)
    points = np.array([MIDDLES[region] for region in regions]) + random.normal(0, 3, (60, 2))
    assert places.regions_of(points).tolist() == regions.tolist()


def test_measured_places_are_embedded_sorted_by_region_and_say_how_well(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    regions = random.permutation(np.repeat([0, 1, 2], [5, 9, 12]))
    points = np.array([MIDDLES[region] for region in regions]) + random.normal(0, 3, (26, 2))
    _write(tmp_path, [[2 * math.dist(one, other) for other in points] for one in points])
    found = places.places_of(tmp_path, 2, seed=1)
    assert found.source == "PlanetLab-490"
    assert found.regions.tolist() == sorted(regions.tolist())
    statistics = found.statistics()
    assert statistics["embedding_relative_error_median"] < 0.01
    assert [statistics[f"places_{name}"] for name in places.REGIONS] == [5, 9, 12]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0, 1], [1, 0]], "has 2 rows and 2 columns: expected as many rows as columns"),
        ([[0, 1, 2], [1, 0, 2]], "has 2 rows and 3 columns"),
        ([["a", 1], [1, 0]], "is no table of round-trip times"),
        ([[0, 1, 2], [1, 0, -2], [2, 2, 0]], "-2 ms (row 2, column 3) is not accepted"),
    ],
)
def test_files_that_cannot_be_embedded_are_refused(
    tmp_path: Path, rows: list[list[object]], said: str
) -> None:
    file = _write(tmp_path, rows)
    with pytest.raises(FileError) as refused:
        places.places_of(tmp_path, 5, seed=1)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"{places.FILE}: is missing"):
        places.places_of(tmp_path, 5, seed=1)
    (tmp_path / places.FILE).write_bytes(b"not compressed at all")
    with pytest.raises(FileError, match=places.FILE):
        places.places_of(tmp_path, 5, seed=1)


def _write(folder: Path, rows: list[list[object]] | list[list[float]]) -> Path:
    file = folder / places.FILE
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    file.write_bytes(gzip.compress(text.encode()))
    return file
