"""Every derived table holds what a loop over the trace rows of the same run counts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.pipeline.derive.stores import Row, Traced, periods_of, put

from gravitate.pipeline.derive import derive, derive_table
from gravitate.pipeline.derive.rates import WEIGHT
from gravitate.pipeline.store.store import BatchRecord, Store
from gravitate.pipeline.tables import schemas
from gravitate.trace import reader
from gravitate.trace.histogram import bucket_of, percentiles_s

PERIOD_S = 1.0
EVENT = ("publisher", "incarnation", "counter")

RowsOf = Callable[[Store, str], list[Row]]


def _period(row: Row, period_s: float = PERIOD_S) -> int:
    return math.floor(row["at_s"] / period_s)


def _event(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in EVENT)


@pytest.fixture(scope="module")
def store(spark: Any, traced: Traced, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With periods short enough that events are under way when one ends."""
    store = traced.store(tmp_path_factory.mktemp("store"), PERIOD_S)
    derive(spark, store)
    return store


@pytest.fixture(scope="module")
def whole(spark: Any, traced: Traced, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same run as one period."""
    store = traced.store(tmp_path_factory.mktemp("whole"), 1000.0)
    derive(spark, store)
    return store


def test_the_run_is_one_that_says_something(traced: Traced, store: Store, rows_of: RowsOf) -> None:
    assert traced.result.is_sound()
    assert len(traced.rows["hops"]) > 200
    assert len({row["period"] for row in rows_of(store, "broker_load")}) >= 3


@pytest.mark.parametrize("table", schemas.DERIVED)
def test_tables_have_the_columns_that_are_promised(
    spark: Any, store: Store, table: str, rows_of: RowsOf
) -> None:
    found = store.derived(spark, table)
    assert found.columns == schemas.DERIVED[table].names
    for row in rows_of(store, table):
        nulls = {name for name, value in row.items() if value is None}
        assert nulls <= {f.name for f in schemas.DERIVED[table].fields if f.nullable}


def test_publisher_profiles_are_bit_vectors_of_events_matched(
    traced: Traced, store: Store, rows_of: RowsOf
) -> None:
    bits: Counter[tuple[Any, ...]] = Counter()
    deliveries: Counter[tuple[Any, ...]] = Counter()
    for row in traced.rows["hops"]:
        if row["local_deliveries"]:
            word, bit = divmod(row["counter"], 64)
            key = (_period(row), row["publisher"], row["incarnation"], row["broker"], word)
            bits[key] |= 1 << bit
            deliveries[key] += row["local_deliveries"]
    names = ("period", "publisher", "incarnation", "broker", "word")
    found = {
        tuple(row[name] for name in names): row for row in rows_of(store, "publisher_profiles")
    }
    assert {key: row["bits"] % 2**64 for key, row in found.items()} == bits
    assert {key: row["deliveries"] for key, row in found.items()} == deliveries


def _shared(traced: Traced, period_s: float) -> Counter[tuple[int, str, str]]:
    got: dict[str, dict[tuple[Any, ...], int]] = defaultdict(dict)
    for row in traced.rows["hops"]:
        if row["local_deliveries"]:
            got[row["broker"]][_event(row)] = _period(row, period_s)
    return Counter(
        (period, one, other)
        for one, events in got.items()
        for event, period in events.items()
        for other in got
        if other != one and event in got[other]
    )


def test_common_interest_counts_the_events_that_both_brokers_got(
    traced: Traced, store: Store, rows_of: RowsOf
) -> None:
    rows = rows_of(store, "common_interest")
    found = {(row["period"], row["broker"], row["other"]): row["events"] for row in rows}
    assert {key: events for key, events in found.items() if events} == _shared(traced, PERIOD_S)


def test_bloom_filters_find_all_common_events_and_hardly_more(
    store: Store, rows_of: RowsOf
) -> None:
    rows = rows_of(store, "common_interest")
    assert all(row["events_bloom"] >= row["events"] for row in rows)
    assert sum(row["events_bloom"] for row in rows) <= 1.01 * sum(row["events"] for row in rows)


def test_topic_rates_are_smoothed_over_every_period(
    traced: Traced, store: Store, rows_of: RowsOf
) -> None:
    counts = Counter((row["topic"] or "", _period(row)) for row in traced.rows["publications"])
    last = max(period for _, period in counts)
    expected = {}
    for topic in {topic for topic, _ in counts}:
        first = min(period for other, period in counts if other == topic)
        smoothed = counts[topic, first] / PERIOD_S
        for period in range(first, last + 1):
            rate = counts[topic, period] / PERIOD_S
            smoothed = (1 - WEIGHT) * smoothed + WEIGHT * rate
            expected[topic, period] = (counts[topic, period], rate, pytest.approx(smoothed))
    rates = ("publications", "rate_msgs_per_s", "rate_smoothed_msgs_per_s")
    found = {
        (row["topic"], row["period"]): tuple(row[name] for name in rates)
        for row in rows_of(store, "topic_rates")
    }
    assert found == expected


def test_broker_load_and_yield_count_hops(traced: Traced, store: Store, rows_of: RowsOf) -> None:
    load: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    wanted: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for row in traced.rows["hops"]:
        key = _period(row), row["broker"]
        load[key]["in_clients" if row["came_from"] is None else "in_links"] += 1
        load[key]["out_links"] += len(row["links"])
        load[key]["out_clients"] += row["local_deliveries"]
        if row["came_from"] is not None:
            wanted[key]["arrivals"] += 1
            wanted[key]["useful" if row["local_deliveries"] else "pure_forwarders"] += 1
    for table, expected in (("broker_load", load), ("yield", wanted)):
        found = {(row.pop("period"), row.pop("broker")): row for row in rows_of(store, table)}
        assert found == {
            key: {name: counts[name] for name in schemas.DERIVED[table].names[2:]}
            for key, counts in expected.items()
        }


def test_link_load_sums_what_links_say(traced: Traced, store: Store, rows_of: RowsOf) -> None:
    expected: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in traced.rows["links"]:
        expected[_period(row), row["broker"], row["peer"]].append(row)
    found = {
        (row["period"], row["broker"], row["peer"]): row for row in rows_of(store, "link_load")
    }
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        rtts = [row["rtt_s"] for row in rows if row["rtt_s"] is not None]
        assert found[key]["events"] == sum(row["events"] for row in rows)
        assert found[key]["size_bytes"] == sum(row["size_bytes"] for row in rows)
        assert found[key]["rtt_s_sum"] == pytest.approx(sum(rtts))
        assert found[key]["rtt_count"] == len(rtts)
    assert any(row["rtt_count"] for row in found.values())


def test_delays_are_counted_in_their_classes(traced: Traced, store: Store, rows_of: RowsOf) -> None:
    expected: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in traced.rows["deliveries"]:
        bucket = int(bucket_of(row["delay_s"]))
        expected[_period(row), row["broker"], row["hops"], bucket].append(row["delay_s"])
    names = ("period", "broker", "hops", "bucket")
    found = {tuple(row[name] for name in names): row for row in rows_of(store, "delays")}
    assert found.keys() == expected.keys()
    for key, delays_s in expected.items():
        assert found[key]["deliveries"] == len(delays_s)
        assert found[key]["delay_s_sum"] == pytest.approx(sum(delays_s))
        assert found[key]["delay_s_max"] == max(delays_s)


def test_totals_are_those_that_the_simulator_counted(
    traced: Traced, store: Store, rows_of: RowsOf
) -> None:
    metrics = traced.result.metrics
    yields, delays = rows_of(store, "yield"), rows_of(store, "delays")
    load = rows_of(store, "broker_load")
    rates: Counter[str] = Counter()
    for row in load:
        rates[row["broker"]] += sum(row[name] for name in schemas.BROKER_LOAD.names[2:])
    scale = sum(metrics.broker_rates_msgs_per_s.values()) / sum(rates.values())
    assert sum(row["arrivals"] for row in yields) == metrics.arrivals
    assert sum(row["pure_forwarders"] for row in yields) == metrics.pure_forwarders
    assert sum(row["in_clients"] for row in load) == metrics.published
    assert sum(row["deliveries"] for row in delays) == metrics.delivered
    assert sum(row["out_clients"] for row in load) == metrics.delivered
    assert {broker: count * scale for broker, count in rates.items()} == {
        broker: pytest.approx(rate)
        for broker, rate in metrics.broker_rates_msgs_per_s.items()
        if rate
    }
    hops = sum(row["hops"] * row["deliveries"] for row in delays) / metrics.delivered
    assert hops == pytest.approx(metrics.hops_mean)
    buckets, counts = ([row[name] for row in delays] for name in ("bucket", "deliveries"))
    p50_s, p95_s = percentiles_s(buckets, counts, (0.5, 0.95))
    assert 1000 * p50_s == pytest.approx(metrics.delay_ms_p50, rel=0.02)
    assert 1000 * p95_s == pytest.approx(metrics.delay_ms_p95, rel=0.02)
    sent = sum(row["events"] for row in rows_of(store, "link_load"))
    assert sent == sum(row["out_links"] for row in load)


@pytest.mark.parametrize(
    ("table", "key", "sums"),
    [
        ("publisher_profiles", ("publisher", "broker", "word"), ("deliveries",)),
        ("common_interest", ("broker", "other"), ("events",)),
        ("topic_rates", ("topic",), ("publications",)),
        ("broker_load", ("broker",), schemas.BROKER_LOAD.names[2:]),
        ("link_load", ("broker", "peer"), ("events", "size_bytes", "rtt_count")),
        ("delays", ("broker", "hops", "bucket"), ("deliveries",)),
        ("yield", ("broker",), schemas.YIELD.names[2:]),
    ],
)
def test_sums_over_periods_are_those_of_the_whole_run(
    store: Store, whole: Store, rows_of: RowsOf, table: str, key: tuple[str, ...], sums: list[str]
) -> None:
    def totals(of: Store) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = defaultdict(lambda: [0] * len(sums))
        for row in rows_of(of, table):
            at = tuple(row[name] for name in key)
            found[at] = [a + row[b] for a, b in zip(found[at], sums, strict=True)]
        return {at: values for at, values in found.items() if any(values)}

    assert totals(store) == totals(whole)


def test_late_rows_change_what_depends_on_them_and_nothing_else(
    spark: Any, traced: Traced, store: Store, tmp_path: Path, rows_of: RowsOf
) -> None:
    """What comes later than the rest leads to the tables of a run in order."""
    late = traced.store(tmp_path / "late", PERIOD_S)
    missing = 4
    held_back = {}
    for table in ("publications", "hops", "deliveries", "links"):
        rows = reader.read(traced.folder, table)
        is_late = pa.array([period == missing for period in periods_of(rows, PERIOD_S)])
        held_back[table] = rows.filter(is_late)
        put(late, table, 0, rows.filter(pc.invert(is_late)))
    derive(spark, late)
    before = {
        path: path.stat().st_mtime_ns
        for path in (late.directory / "derived" / "broker_load").glob("*/*.parquet")
    }
    for table, rows in held_back.items():
        put(late, table, 1, rows)
    late.record(1, BatchRecord(files=1, rows={}, periods=(missing,)))
    derive(spark, late, {missing})
    for table in schemas.DERIVED:
        assert _sorted(rows_of(late, table)) == _sorted(rows_of(store, table)), table
    assert all(path.stat().st_mtime_ns == before[path] for path in before)


@pytest.mark.parametrize("moved", [0, 2])
def test_periods_that_were_being_moved_when_a_process_ended_are_not_lost(
    spark: Any,
    traced: Traced,
    store: Store,
    tmp_path: Path,
    rows_of: RowsOf,
    monkeypatch: pytest.MonkeyPatch,
    moved: int,
) -> None:
    """Counts of periods that are not due are in the table itself and nowhere else."""
    ended = traced.store(tmp_path / "ended", PERIOD_S)
    derive_table(spark, ended, "topic_rates")
    last = max(row["period"] for row in rows_of(ended, "topic_rates"))
    rename, left = Path.rename, iter(range(moved))

    def rename_some(path: Path, target: Path) -> Path:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename_some)
        with pytest.raises(KeyboardInterrupt):
            derive_table(spark, ended, "topic_rates", {last})
    assert len(rows_of(ended, "topic_rates")) < len(rows_of(store, "topic_rates"))
    derive_table(spark, ended, "topic_rates", {last})
    assert _sorted(rows_of(ended, "topic_rates")) == _sorted(rows_of(store, "topic_rates"))
    assert [path.name for path in (ended.directory / "derived").iterdir()] == ["topic_rates"]


def test_a_period_that_lost_its_rows_keeps_none(
    spark: Any, traced: Traced, tmp_path: Path, rows_of: RowsOf
) -> None:
    shrunk = traced.store(tmp_path / "shrunk", PERIOD_S)
    stale = shrunk.directory / "derived" / "yield" / "period=77"
    stale.mkdir(parents=True)
    (stale / "part-0.parquet").write_bytes(b"outdated")
    derive(spark, shrunk, {77})
    assert rows_of(shrunk, "yield") == []


def test_a_store_without_traces_gives_empty_tables(
    spark: Any, traced: Traced, tmp_path: Path, rows_of: RowsOf
) -> None:
    empty = Store(tmp_path)
    empty.create(traced.folder)
    derive(spark, empty)
    assert all(rows_of(empty, table) == [] for table in schemas.DERIVED)


def _sorted(rows: list[Row]) -> list[Any]:
    return sorted(
        (
            {
                name: pytest.approx(value) if isinstance(value, float) else value
                for name, value in row.items()
            }
            for row in rows
        ),
        key=lambda row: str([value for value in row.values() if isinstance(value, int | str)]),
    )
