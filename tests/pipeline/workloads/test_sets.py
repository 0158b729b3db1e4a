"""Subscriber sets: stated shares on big samples, rectangles in order, the same rows anyhow."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.config.workload_tables import BROKERS, INTERESTS
from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads import communities, places, set1, set2, set3
from gravitate.pipeline.workloads.catalogue import named
from gravitate.pipeline.workloads.definition import Made
from gravitate.pipeline.workloads.generate import generate, in_process
from gravitate.pipeline.workloads.making import make_workload, parameters_of
from gravitate.pipeline.workloads.subscribers import cumulative, drawn

SAMPLE = 200_000
SETS = (set1, set2, set3)


def _made(module: Any, data: Path | None = None, seed: int = 1, **parameters: Any) -> Made:
    given = {"subscribers": SAMPLE, **parameters}
    made: Made = module.make(parameters_of(module.DEFINITION, given), seed, data)
    return made


def _interests(made: Made, seed: int = 1) -> pa.Table:
    return in_process(made.plans[0], seed)


def _brokers(made: Made) -> pa.Table:
    return in_process(made.plans[1], 1)


def _array(table: pa.Table, column: str) -> np.ndarray:
    """A column of lists of equal length as rows of an array."""
    values = table[column].combine_chunks()
    return values.values.to_numpy().reshape(len(values), -1)


def _assert_frequencies(found: Sequence[int], shares: Sequence[float]) -> None:
    """Counts are as likely as chi-square says: within five standard deviations of its mean."""
    total = sum(found)
    expected = [share * total for share in shares]
    chi_square = sum((f - e) ** 2 / e for f, e in zip(found, expected, strict=True))
    freedom = len(shares) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


def _zipf(count: int, exponent: float) -> list[float]:
    weights = [rank**-exponent for rank in range(1, count + 1)]
    return [weight / sum(weights) for weight in weights]


# --- all sets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_rectangles_are_in_order_within_the_event_space(module: Any) -> None:
    made = _made(module, event_extent=7.0)
    rows = _interests(made)
    assert rows.schema.equals(INTERESTS)
    low, high = _array(rows, "low"), _array(rows, "high")
    assert low.shape == high.shape == (SAMPLE, 2)
    assert (low < high).all()
    assert low.min() >= 0
    assert high.max() <= 7
    assert _array(rows, "location").shape == (SAMPLE, 5)
    assert rows["subscriber"].to_pylist() == list(range(SAMPLE))


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_brokers_have_equal_weights_and_lie_where_subscribers_are(module: Any) -> None:
    made = _made(module, subscribers=20_000, brokers=60)
    brokers = _brokers(made)
    assert brokers.schema.equals(BROKERS)
    assert brokers["broker"].to_pylist()[::59] == ["b01", "b60"]
    assert brokers["weight"].to_pylist() == [pytest.approx(1 / 60)] * 60
    where = _array(_interests(made), "location")
    nearest = [np.linalg.norm(where - at, axis=1).min() for at in _array(brokers, "location")]
    assert max(nearest) < 10.0


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_dimensions_are_parameters(module: Any) -> None:
    rows = _interests(_made(module, subscribers=100, network_dimensions=3, event_dimensions=3))
    shapes = [_array(rows, column).shape for column in ("location", "low", "high")]
    assert shapes == [(100, 3)] * 3


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_the_seed_decides_the_rows(module: Any) -> None:
    one, same, other = (
        _interests(_made(module, seed=seed, subscribers=500), seed) for seed in (1, 1, 2)
    )
    assert one.equals(same)
    assert not one["location"].equals(other["location"])
    assert not one["low"].equals(other["low"])


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_what_is_shipped_to_tasks_is_small(module: Any) -> None:
    from pyspark import cloudpickle

    assert len(cloudpickle.dumps(_made(module).plans)) < 1_000_000


@pytest.mark.parametrize("module", SETS, ids=lambda module: module.DEFINITION.name)
def test_a_block_depends_on_its_number_alone(module: Any) -> None:
    plan = msgspec.structs.replace(_made(module, subscribers=10_000).plans[0], items_per_block=900)
    again = msgspec.structs.replace(_made(module, subscribers=10_000).plans[0], items_per_block=900)
    forwards = [plan.make(block) for block in plan.blocks(1)]
    backwards = [again.make(block) for block in reversed(list(again.blocks(1)))]
    assert len(forwards) == 12
    for one, other in zip(forwards, reversed(backwards), strict=True):
        assert one.rows.equals(other.rows)
        assert one.counts == other.counts


def test_one_task_and_eight_write_the_same_files(spark: Any, tmp_path: Path) -> None:
    interests, brokers = _made(set1, subscribers=10_000).plans
    plans = (
        msgspec.structs.replace(interests, items_per_block=900),
        msgspec.structs.replace(brokers, items_per_block=40),
    )
    files = []
    for tasks in (1, 8):
        folder = tmp_path / str(tasks)
        written = generate(spark, plans, folder, 1, tasks=tasks)
        assert written.rows == {"interests": 10_000, "brokers": 100}
        found = sorted(folder.rglob("*.parquet"))
        files.append({file.relative_to(folder): file.read_bytes() for file in found})
    assert len(files[0]) == 12 + 3
    assert files[0] == files[1]


def test_a_made_workload_can_be_read_and_its_manifest_says_what_it_is(
    spark: Any, tmp_path: Path
) -> None:
    manifest = make_workload(spark, "set1", tmp_path / "made", {"subscribers": 5000, "brokers": 9})
    assert manifest.rows == {"interests": 5000, "brokers": 9}
    assert manifest.source.startswith("synthetic")
    assert manifest.statistics["asia_share"] == pytest.approx(4 / 9, abs=0.04)
    assert manifest.statistics["broad_share"] == pytest.approx(0.01, abs=0.006)
    rows = pq.read_table(tmp_path / "made" / "interests")
    assert rows.equals(_interests(_made(set1, subscribers=5000, brokers=9)))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("set1", {"interest_skewness": "medium"}, "interest_skewness"),
        ("set1", {"topics": "100"}, "write hottest_removed below 100"),
        ("set1", {"subscribers": "-5"}, "subscribers"),
        ("set1", {"broker_regions": "4:1"}, "broker_regions"),
        ("set1", {"broker_regions": "0:0:0"}, "write three numbers that are not all 0"),
        ("set1", {"broker_regions": "1..2:1:1"}, "write three numbers"),
        ("set2", {"locations_per_interest": "1000"}, "write at most 490"),
        ("set2", {"event_extent": "0.5"}, "write at least 1"),
        ("set3", {"widths": "0"}, "widths"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    name: str, given: dict[str, str], said: str
) -> None:
    definition = named(name)
    with pytest.raises(InputError, match=said):
        definition.make(parameters_of(definition, given), 1, None)


def test_nothing_is_drawn_that_has_no_share() -> None:
    sums = cumulative(np.array([0.0, 0.25, 0.0, 0.75, 0.0]))
    found = Counter(drawn(np.random.default_rng(1), sums, 10_000).tolist())
    assert set(found) == {1, 3}
    assert found[1] == pytest.approx(2500, abs=250)


# --- set 1 ----------------------------------------------------------------------------------------


def _regions(rows: pa.Table) -> list[int]:
    """How many rows are in each region."""
    sites = places.stand_in(5, 1)
    points = sites.points.astype(np.float32).tolist()
    region_of = {
        tuple(point): region for point, region in zip(points, sites.regions.tolist(), strict=True)
    }
    found = Counter(region_of[tuple(point)] for point in _array(rows, "location").tolist())
    return [found[region] for region in range(3)]


def test_set1_regions_are_as_four_to_one_to_four() -> None:
    made = _made(set1, scatter_ms=0.0)
    _assert_frequencies(_regions(_interests(made)), [4 / 9, 1 / 9, 4 / 9])
    assert _regions(_brokers(made)) == pytest.approx([44.4, 11.1, 44.4], abs=1)


def test_set1_brokers_can_be_elsewhere_than_subscribers() -> None:
    made = _made(set1, scatter_ms=0.0, broker_regions="1:8:1")
    assert _regions(_brokers(made)) == pytest.approx([10, 80, 10], abs=1)
    assert _interests(made).equals(_interests(_made(set1, scatter_ms=0.0)))


@pytest.mark.parametrize(("setting", "share"), [("low", 0.01), ("high", 0.10)])
def test_set1_broad_interests_get_what_is_passed_upward(setting: str, share: float) -> None:
    made = _made(set1, broad_interests=setting)
    rows = _interests(made)
    topics = rows["community"].to_numpy()
    broad = int((topics < 12 + 120).sum())
    _assert_frequencies([broad, SAMPLE - broad], [share, 1 - share])
    widths = _array(rows, "high") - _array(rows, "low")
    volume = widths.prod(axis=1)
    assert volume.mean() == pytest.approx(made.statistics["interest_volume_mean"], rel=0.05)
    assert volume[topics < 12].min() > np.median(volume[topics >= 132])


def test_set1_topics_are_as_popular_as_communities_without_the_hottest() -> None:
    topics = _interests(_made(set1))["community"].to_numpy()
    found = np.bincount(topics, minlength=132 + 2400)[132:]
    weights = [rank**-1.16 for rank in range(101, 2501)]
    _assert_frequencies(found.tolist(), [weight / sum(weights) for weight in weights])


def test_set1_low_skewness_is_more_even() -> None:
    spread = {}
    for setting in ("low", "high"):
        topics = _interests(_made(set1, interest_skewness=setting))["community"].to_numpy()
        spread[setting] = np.bincount(topics, minlength=2532)[132:].var()
    assert spread["low"] < 0.6 * spread["high"]


def test_set1_rectangles_are_cut_from_those_of_their_topics() -> None:
    exact = _interests(_made(set1, interest_variation=0.0))
    varied = _interests(_made(set1, interest_variation=0.3))
    topics = exact["community"].to_numpy()
    assert np.array_equal(topics, varied["community"].to_numpy())
    low, high = _array(exact, "low"), _array(exact, "high")
    inner_low, inner_high = _array(varied, "low"), _array(varied, "high")
    assert (low <= inner_low).all()
    assert (inner_high <= high).all()
    assert ((inner_high - inner_low) / (high - low)).mean() == pytest.approx(0.7, abs=0.01)
    assert len(np.unique(low, axis=0)) <= len(np.unique(topics))


def test_set1_subscribers_are_scattered_around_places() -> None:
    made = _made(set1, subscribers=3000, scatter_ms=2.0)
    where = _array(_interests(made), "location")
    sites = places.stand_in(5, 1).points
    apart = np.linalg.norm(where[:, None, :] - sites, axis=2).min(axis=1)
    assert 1.0 < apart.mean() < 2.0 * math.sqrt(5)
    assert apart.max() < 2.0 * 6


# --- set 2 ----------------------------------------------------------------------------------------


def test_set2_has_fifty_unit_squares_by_zipf_at_ten_places_each() -> None:
    rows = _interests(_made(set2))
    squares = rows["community"].to_numpy()
    _assert_frequencies(np.bincount(squares, minlength=50).tolist(), _zipf(50, 0.5))
    low, high = _array(rows, "low"), _array(rows, "high")
    assert high - low == pytest.approx(np.ones((SAMPLE, 2)), abs=1e-5)
    assert len(np.unique(low, axis=0)) == 50
    where = _array(rows, "location")
    for square in (0, 7, 49):
        _, counts = np.unique(where[squares == square], axis=0, return_counts=True)
        _assert_frequencies(counts.tolist(), [0.1] * 10)


# --- set 3 ----------------------------------------------------------------------------------------


def test_set3_hot_spots_and_widths_are_by_zipf() -> None:
    # Narrow widths stay within the cell, so that clipping does not hide them.
    rows = _interests(_made(set3, widths=4, width_cells_max=1.0))
    cells = rows["community"].to_numpy()
    by_rank = np.sort(np.bincount(cells, minlength=100))[::-1]
    _assert_frequencies(by_rank.tolist(), _zipf(100, 0.5))
    low, high = _array(rows, "low"), _array(rows, "high")
    centres = (low + high) / 2
    assert centres[:, 0] == pytest.approx(cells // 10 + 0.5, abs=1e-5)
    assert centres[:, 1] == pytest.approx(cells % 10 + 0.5, abs=1e-5)
    for axis in (0, 1):
        steps = np.rint((high - low)[:, axis] * 4).astype(int)
        _assert_frequencies(np.bincount(steps, minlength=5)[1:].tolist(), _zipf(4, 0.5))


def test_set3_places_are_even_and_independent_of_interests() -> None:
    rows = _interests(_made(set3))
    _, at, counts = np.unique(
        _array(rows, "location"), axis=0, return_inverse=True, return_counts=True
    )
    _assert_frequencies(counts.tolist(), [1 / 490] * 490)
    cells = rows["community"].to_numpy()
    hottest = int(np.bincount(cells).argmax())
    there = np.bincount(at.ravel()[cells == hottest], minlength=490)
    _assert_frequencies(there.tolist(), [1 / 490] * 490)


# --- from measurements ----------------------------------------------------------------------------


def test_measurements_take_the_place_of_stand_ins(tmp_path: Path) -> None:
    _write_data(tmp_path)
    made = _made(set1, tmp_path, topics=60, hottest_removed=10, scatter_ms=0.0)
    assert made.source == "PlanetLab-490; Reddit 2013-08 community sizes"
    assert made.statistics["embedding_relative_error_median"] < 0.05
    rows = _interests(made)
    assert len(np.unique(_array(rows, "location"), axis=0)) == 30
    found = np.bincount(rows["community"].to_numpy())[-50:]
    weights = [1000 - 10 * rank for rank in range(10, 60)]
    _assert_frequencies(found.tolist(), [weight / sum(weights) for weight in weights])
    for module in (set2, set3):
        assert _made(module, tmp_path).source == "PlanetLab-490"


def test_a_data_folder_without_the_measurements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=places.FILE):
        _made(set3, tmp_path)


def _write_data(folder: Path) -> None:
    random = np.random.default_rng(1)
    middles = np.array([(-140.0, 0.0), (0.0, 0.0), (60.0, 20.0)])
    points = np.repeat(middles, 10, axis=0) + random.normal(0, 8, (30, 2))
    lines = [
        "\t".join(f"{2 * math.dist(one, other):.3f}" for other in points) + "\n" for one in points
    ]
    (folder / places.FILE).write_bytes(gzip.compress("".join(lines).encode()))
    sizes = [f"c{rank},{1000 - 10 * rank},about" for rank in range(60)]
    (folder / communities.FILE).write_text("\n".join(["subreddit,subscribers,name", *sizes]))
