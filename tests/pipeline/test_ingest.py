"""Ingest, batch and incremental: each file once, whatever happens to files and to the process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.runs import counted, damage, derived, files_of, share, taken, trace_run, traced

from gravitate.errors import FileError, InputError
from gravitate.pipeline import ingest as ingesting
from gravitate.pipeline.ingest import ingest, open_store
from gravitate.pipeline.store.arrivals import Arrivals
from gravitate.pipeline.store.store import Store
from gravitate.trace import reader
from gravitate.trace.manifest import RunManifest
from gravitate.trace.schemas import TABLES

PERIOD_S = 2.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    trace_run(folder)
    return folder


@pytest.fixture(scope="module")
def whole(spark: Any, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of an ingest that took everything at once and was left alone."""
    place = tmp_path_factory.mktemp("whole")
    assert ingest(spark, run, place, period_s=PERIOD_S).periods > 2
    return Store(place)


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A copy of the run to tamper with."""
    return share(run, tmp_path / "traces", files_of(run))


def copy_in(spark: Any, run: Path) -> ingesting.Ingested:
    """Ingest without the derived tables, whose tests are elsewhere."""
    return ingest(spark, run, period_s=PERIOD_S, derived=False)


def modify(path: Path, content: bytes) -> None:
    """Write a file anew, as later as a clock can tell."""
    modified_ns = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))


# --- batch and incremental ------------------------------------------------------------------------


def test_a_store_holds_the_rows_of_the_traces(spark: Any, run: Path, whole: Store) -> None:
    expected = traced(run)
    assert all(sum(rows.values()) > 0 for rows in expected.values())
    assert taken(whole) == expected
    rows = whole.traces(spark, "hops").drop("period").collect()
    assert counted(row.asDict() for row in rows) == expected["hops"]


def test_the_manifest_counts_what_was_taken(run: Path, whole: Store) -> None:
    manifest = whole.manifest()
    assert manifest.rows == {table: reader.read(run, table).num_rows for table in TABLES}
    assert manifest.files == len(files_of(run))
    assert manifest.derived_through == manifest.taken_through == 0
    assert manifest.quarantined == ()


def test_small_files_become_few(whole: Store) -> None:
    for table in TABLES:
        assert len(list(whole.batch_folder(table, 0).glob("*.parquet"))) == 1


def test_waves_of_files_give_the_tables_of_one_and_late_rows_find_their_period(
    spark: Any, run: Path, whole: Store, tmp_path: Path
) -> None:
    late = f"hops/{reader.files(run, 'hops')[0].name}"
    files = [name for name in files_of(run) if name != late]
    store = Store(tmp_path / "tables")
    for wave, derive in ((files[::2], True), (files[1::2], False)):
        news = ingest(spark, share(run, tmp_path, wave), period_s=PERIOD_S, derived=derive)
        assert news.files == len(wave)
    assert derived(store)["broker_load"] != derived(whole)["broker_load"]
    news = ingest(spark, share(run, tmp_path, [late]))
    touched = {row["at_s"] // PERIOD_S for row in pq.read_table(tmp_path / late).to_pylist()}
    assert news.rows == {"hops": pq.read_metadata(tmp_path / late).num_rows}
    assert touched <= {*store.batch(1).periods, *store.batch(2).periods}
    assert len(touched) == len(store.batch(2).periods) < len(store.batch(0).periods)
    assert taken(store) == taken(whole)
    assert derived(store) == derived(whole)


# --- files that are not fit -----------------------------------------------------------------------


def tamper(folder: Path) -> dict[str, str]:
    """One file of each kind that must not be taken in; their names with what is said of them."""
    one, two, three = reader.files(folder, "hops")[:3]
    one.write_bytes(one.read_bytes()[:-100])
    damage(two)
    rows = pq.read_table(three)
    pq.write_table(rows.set_column(6, "hops", rows["hops"].cast(pa.int64())), three)
    four = reader.files(folder, "links")[0]
    four.write_bytes(b"")
    return {
        f"hops/{one.name}": "cannot be read as Parquet: ",
        f"hops/{two.name}": "cannot be read as Parquet: ",
        f"hops/{three.name}": "column 'hops' of table 'hops' is bigint, expected smallint",
        f"links/{four.name}": "cannot be read as Parquet: ",
    }


def test_unfit_files_are_left_out_with_their_reasons_until_they_are_replaced(
    spark: Any, run: Path, folder: Path
) -> None:
    unfit = tamper(folder)
    news = copy_in(spark, folder)
    assert {file.file for file in news.quarantined} == set(unfit)
    for file in news.quarantined:
        assert file.reason.startswith(unfit[file.file])
    store = Store.of_run(folder)
    assert {file.file for file in store.manifest().quarantined} == set(unfit)
    fit = share(run, folder.with_name("fit"), sorted({*files_of(run)} - {*unfit}))
    assert taken(store) == traced(fit)
    assert not copy_in(spark, folder).is_news

    for name in unfit:
        modify(folder / name, (run / name).read_bytes())
    again = copy_in(spark, folder)
    assert (again.files, again.quarantined) == (len(unfit), ())
    assert taken(store) == traced(run)
    manifest = store.manifest()
    assert manifest.rows == {table: reader.read(run, table).num_rows for table in TABLES}
    assert manifest.quarantined == ()


# --- interruptions --------------------------------------------------------------------------------


def interrupt(*arguments: object, **named: object) -> None:
    raise RuntimeError("interrupted")


@pytest.mark.parametrize("before", ["_stream", "_record"])
def test_an_interrupted_ingest_is_taken_up_where_it_was(
    spark: Any, run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ingesting, before, interrupt)
        with pytest.raises(Exception, match="interrupted"):
            copy_in(spark, folder)
    assert not any(taken(Store.of_run(folder)).values())
    copy_in(spark, folder)
    assert taken(Store.of_run(folder)) == traced(run)


def test_files_that_a_worker_does_not_see_wait_for_one_that_does(
    spark: Any, run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ingesting._stream
    with monkeypatch.context() as patched:
        patched.setattr(
            ingesting,
            "_stream",
            lambda spark, run, store: stream(spark, run / "elsewhere", store),
        )
        with pytest.raises(Exception, match=r"parquet: cannot be read: No such file or directory"):
            copy_in(spark, folder)
    assert copy_in(spark, folder).quarantined == ()
    assert taken(Store.of_run(folder)) == traced(run)


def test_rows_that_the_driver_does_not_see_are_not_recorded(run: Path, tmp_path: Path) -> None:
    store = open_store(run, tmp_path)
    Arrivals(run, store).note_new()
    part = {"batch": 0, "table": "hops", "name": "part-00000.parquet", "files": 1, "rows": 1}
    part |= {"periods": [0], "damaged": [], "reasons": []}
    reason = r"hops/batch=0: is not on storage that all workers share: part-00000\.parquet was"
    with pytest.raises(FileError, match=reason):
        ingesting._record(store, 0, [part])
    assert store.batches() == []
    ingesting._record(store, 0, [{**part, "rows": 0}])
    assert store.batches() == [0]


def test_a_moved_store_goes_on_without_the_memory_of_its_stream(
    spark: Any, run: Path, folder: Path
) -> None:
    late = reader.files(folder, "hops")[0]
    late = late.rename(folder / late.name)
    copy_in(spark, folder)
    moved = folder.rename(folder.with_name("moved"))
    (moved / late.name).rename(moved / "hops" / late.name)
    news = copy_in(spark, moved)
    assert news.files == 1
    assert taken(Store.of_run(moved)) == traced(run)


COMMAND = """
import os, signal, sys, threading, time
from pathlib import Path
from gravitate.cli.main import main
from gravitate.pipeline.store import arrivals
from gravitate.pipeline.derive import all as deriving

def end():
    os.kill(os.getpid(), signal.SIGKILL)

def end_when_the_first_part_is_there(store):
    while not any(store.glob("traces/*/batch=*/part-*.parquet")):
        time.sleep(0.001)
    end()

point, store = sys.argv.pop(1), Path(sys.argv.pop(1))
arrivals.PART_BYTES = 1
if point == "copying":
    threading.Thread(target=end_when_the_first_part_is_there, args=(store,), daemon=True).start()
else:
    derive_table, done = deriving.derive_table, []
    def derive_some(*arguments):
        if len(done) == 3:
            end()
        done.append(derive_table(*arguments))
    deriving.derive_table = derive_some
main()
"""
"""The command, with an end at a point of the test's choice."""


@pytest.mark.processor_time(600)
def test_an_ingest_that_was_killed_gives_the_tables_of_one_that_was_not(
    spark: Any, run: Path, whole: Store, folder: Path, tmp_path: Path
) -> None:
    store = Store.of_run(folder)
    options = ["ingest", str(folder), "--period", f"{PERIOD_S:g}", "--memory", "0.75"]
    for point in ("copying", "deriving"):
        killed = subprocess.run(
            [sys.executable, "-c", COMMAND, point, str(store.directory), *options],
            env={
                **os.environ,
                "GRAVITATE_SPARK_MASTER": "local[2]",
                "TMPDIR": str(tmp_path),  # what a killed process leaves behind
            },
            capture_output=True,
            text=True,
        )
        assert killed.returncode == -9, killed.stderr
        if point == "copying":
            assert store.batches() == []
    assert store.batches() == [0]
    assert 0 < sum(len(rows) > 0 for rows in derived(store).values()) < len(derived(whole))
    last = ingest(spark, folder)
    assert (last.files, last.periods) == (0, len({*store.batch(0).periods}))
    assert taken(store) == taken(whole)
    assert derived(store) == derived(whole)


# --- what is refused ------------------------------------------------------------------------------


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"has no run\.json: give the folder that traces were"):
        open_store(tmp_path)


def test_the_store_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    RunManifest(network="[[brokers]]", clock="virtual", seed=99).save(tmp_path / "other")
    open_store(tmp_path / "other", tmp_path / "store")
    with pytest.raises(FileError, match="store: holds the tables of another run than"):
        open_store(run, tmp_path / "store")


def test_another_period_than_the_stores_is_refused(run: Path, tmp_path: Path) -> None:
    open_store(run, tmp_path, 30.0)
    assert open_store(run, tmp_path).manifest().period_s == 30.0
    with pytest.raises(InputError, match=r"period of 60 s is not that of .*, which has 30 s"):
        open_store(run, tmp_path, 60.0)


def test_two_ingests_into_one_store_do_not_meet(spark: Any, folder: Path) -> None:
    store = open_store(folder)
    store.checkpoint.mkdir(parents=True)
    with (store.checkpoint / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another ingest is at work on"):
            ingest(spark, folder)
