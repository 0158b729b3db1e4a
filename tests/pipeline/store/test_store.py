from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.errors import FileError, InputError
from gravitate.pipeline.store.store import BatchRecord, Quarantined, Store
from gravitate.trace.manifest import RunManifest
from gravitate.trace.schemas import LINKS


@pytest.fixture
def run(tmp_path: Path) -> Path:
    RunManifest(network="[[brokers]]", clock="virtual", seed=7, sampling_rate=0.5).save(tmp_path)
    return tmp_path


def put_link(store: Store, number: int, peer: str) -> None:
    folder = store.batch_folder("links", number)
    folder.mkdir(parents=True)
    row = {"broker": "b1", "peer": peer, "at_s": 61.0, "events": 1, "size_bytes": 1, "period": 1}
    schema = LINKS.append(pa.field("period", pa.int32()))
    pq.write_table(pa.Table.from_pylist([row], schema), folder / "part-00000.parquet")


def test_a_store_knows_what_its_run_was(run: Path) -> None:
    store = Store.of_run(run)
    made = store.create(run, 30.0)
    assert store.directory == run / "tables"
    assert store.manifest() == made
    assert (made.seed, made.sampling_rate, made.period_s) == (7, 0.5, 30.0)


def test_a_store_is_found_by_its_run_and_by_itself(run: Path, tmp_path: Path) -> None:
    store = Store.of_run(run)
    store.create(run)
    assert Store.of_run(run / "tables").directory == store.directory
    assert not Store(tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf")])
def test_periods_are_positive_numbers(run: Path, period_s: float) -> None:
    with pytest.raises(InputError, match="write a number above 0"):
        Store(run / "tables").create(run, period_s)


def test_periods_of_nodes_can_be_counted_from_the_beginning_of_unix_time(run: Path) -> None:
    RunManifest(network="[[brokers]]", clock="unix").save(run)
    with pytest.raises(InputError, match=r"0\.5 s is not accepted: write a number of at least 1"):
        Store(run / "tables").create(run, 0.5)


def test_rows_of_a_batch_count_when_it_is_recorded(run: Path, spark: object) -> None:
    store = Store.of_run(run)
    store.create(run)
    put_link(store, 0, "b2")
    put_link(store, 1, "b3")
    record = BatchRecord(files=1, rows={"links": 1}, periods=(1,))
    store.record(0, record)
    assert (store.batches(), store.batch(0)) == ([0], record)
    (row,) = store.traces(spark, "links").collect()
    assert (row["peer"], row["period"]) == ("b2", 1)


def test_of_batches_without_the_periods_asked_for_no_file_is_opened(
    run: Path, spark: object
) -> None:
    store = Store.of_run(run)
    store.create(run)
    for number, peer in enumerate(("b2", "b3")):
        put_link(store, number, peer)
        store.record(number, BatchRecord(files=1, rows={"links": 1}, periods=(number, 9)))
    (store.batch_folder("links", 0) / "part-00000.parquet").write_bytes(b"never looked at")
    (row,) = store.traces(spark, "links", {1, 5}).collect()
    assert row["peer"] == "b3"
    assert store.traces(spark, "links", {5}).isEmpty()
    with pytest.raises(FileError, match=r"batch=0/part-00000\.parquet: cannot be read as Parquet"):
        store.traces(spark, "links", {9})


def test_a_derived_file_with_other_columns_is_refused_by_name(run: Path, spark: object) -> None:
    store = Store.of_run(run)
    store.create(run)
    row = {"broker": "b1", "peer": "b2", "events": 1, "size_bytes": 1}
    for period, round_trips in ((3, {"rtt_s_mean": 0.1}), (4, {"rtt_s_sum": 0.1, "rtt_count": 1})):
        folder = store.directory / "derived" / "link_load" / f"period={period}"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([row | round_trips]), folder / "part-00000.parquet")
    reason = r"period=3/part-00000\.parquet: column 'rtt_s_sum' of table 'link_load' is missing"
    with pytest.raises(FileError, match=reason):
        store.derived(spark, "link_load")
    (found,) = store.derived(spark, "link_load", {4, 5}).where("period = 4").collect()
    assert (found["period"], found["rtt_count"]) == (4, 1)
    assert store.derived(spark, "link_load", {5}).isEmpty()


def test_tables_without_rows_are_empty(run: Path, spark: object) -> None:
    store = Store.of_run(run)
    store.create(run)
    assert store.traces(spark, "hops").columns[-1] == "period"
    assert store.traces(spark, "hops").isEmpty()
    assert store.derived(spark, "delays").isEmpty()


def test_a_node_that_starts_again_does_not_make_it_another_run(run: Path) -> None:
    before = RunManifest(network="[[brokers]]", clock="unix", started_at_s=1e9)
    again = RunManifest(network="[[brokers]]", clock="unix", started_at_s=1e9 + 60)
    other = RunManifest(network="[[others]]", clock="unix", started_at_s=1e9)
    before.save(run)
    store = Store.of_run(run).create(run)
    assert store.is_of(before)
    assert store.is_of(again)
    assert not store.is_of(other)


def test_a_manifest_is_read_as_it_was_written(run: Path) -> None:
    store = Store.of_run(run)
    store.create(run)
    (run / "tables" / "store.json").write_text('{"clock": "sundial"}')
    with pytest.raises(FileError, match=r"store\.json: is not the manifest of a store: .*clock"):
        store.manifest()
    assert Quarantined("links/part-0.parquet", "why").size_bytes == -1


def test_a_store_that_cannot_be_written_says_so(run: Path) -> None:
    (run / "file").write_text("")
    with pytest.raises(FileError, match=r"file/tables/store\.json: cannot be written"):
        Store(run / "file" / "tables").create(run)
