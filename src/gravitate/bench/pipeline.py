"""How fast the slow loop takes traces in and derives its tables, beside DuckDB on the same files.

Traces of 5, 20 and 40 million hops are made once (`bench.traces`). `ingest` is all trace rows
checked and copied into a store; the other cases are the derived tables, each from the trace rows
in the store to Parquet files by period, `common_interest` with the profiles it is made from. Rows
a second are rows of the trace table that is read. Rounds take turns, the median counts; Spark's
start and a warm-up on the smallest traces are not timed. Both sides have all cores, and their
results are compared.

`GRAVITATE_BENCH_TRACES` names a folder in which the traces are kept and found again.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from gravitate.bench.duckdb_baseline import QUERIES, Baseline
from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.bench.traces import Block, Scene, Traffic, save_manifest, write_share
from gravitate.trace import reader
from gravitate.trace.schemas import TABLES

BENCH: Final = "pipeline"
KEPT: Final = "GRAVITATE_BENCH_TRACES"
HOPS: Final = (5_000_000, 20_000_000, 40_000_000)
ROUNDS: Final = 3
INGEST: Final = "ingest"
CASES: Final = (INGEST, *QUERIES)
SOURCES: Final = {
    "publisher_profiles": "hops",
    "common_interest": "hops",
    "topic_rates": "publications",
    "broker_load": "hops",
    "link_load": "links",
    "delays": "deliveries",
    "yield": "hops",
}
"""The trace table that each derived table is made from."""


def run(
    cases: Sequence[str] | None = None,
    *,
    progress: Progress = silent,
    hops: Sequence[int] = HOPS,
    rounds: int = ROUNDS,
    warm_up: bool = True,
    spark: Any = None,
) -> list[Record]:
    """The figures of `gravitate bench pipeline`, for every number of hop rows."""
    wanted = chosen(BENCH, CASES, cases)
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="gravitate-bench-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        if spark is None:
            progress("starting Spark")
            spark = stack.enter_context(_spark())
        kept = os.environ.get(KEPT)
        runs = make_runs(spark, Path(kept) if kept else scratch, hops, Traffic(), progress)
        records = []
        for size, folder in runs.items():
            warm = warm_up and size == min(hops)
            bench = _Bench(spark, folder, scratch / f"{size}", progress)
            stack.callback(bench.baseline.close)
            records += bench.measure(wanted, _label(size), rounds, warm)
            shutil.rmtree(scratch / f"{size}")
    return records


@contextmanager
def _spark() -> Iterator[Any]:
    from gravitate.pipeline.spark.session import session, stop, told_plainly

    with told_plainly():
        try:
            yield session()
        finally:
            stop()


def _label(hops: int) -> str:
    return f"{hops // 1_000_000}m" if hops >= 1_000_000 else str(hops)


# --- measuring ------------------------------------------------------------------------------------


class _Bench:
    """One run's traces, its store and its baseline."""

    def __init__(self, spark: Any, run: Path, scratch: Path, progress: Progress) -> None:
        from gravitate.pipeline.store.store import PERIOD_S, Store

        self._spark = spark
        self._run = run
        self._scratch = scratch
        self._progress = progress
        scratch.mkdir(parents=True)
        self._store = Store(scratch / "store")
        self.baseline = Baseline(scratch, PERIOD_S)

    def measure(self, cases: Sequence[str], label: str, rounds: int, warm_up: bool) -> list[Record]:
        self._look_at(self._run, "*")
        taking_in = rounds if INGEST in cases else 1
        if warm_up and INGEST in cases:
            self._progress("ingest: warming up")
            self._ingest()
        times = [self._timed(f"ingest-{label}", n, taking_in, INGEST) for n in range(taking_in)]
        rows = self._store.manifest().rows
        records = []
        if INGEST in cases:
            records.append(_record(f"{INGEST}-{label}", sum(rows.values()), times))
        self._look_at(self._store.directory / "traces", "batch=*/*")
        for case in (case for case in cases if case != INGEST):
            if warm_up:
                self._progress(f"{case}: warming up")
                self._derive(case)
                self.baseline.derive(case)
            name = f"{case}-{label}"
            times = [self._timed(name, number, rounds, case) for number in range(rounds)]
            self._compare(case)
            records.append(_record(name, rows[SOURCES[case]], times))
        return records

    def _timed(self, name: str, number: int, rounds: int, case: str) -> tuple[float, float]:
        """Seconds of the pipeline and of the baseline."""
        self._progress(f"{name}: round {number + 1} of {rounds}")
        if case == INGEST:
            return _seconds(self._ingest), _seconds(self._copy)
        return _seconds(lambda: self._derive(case)), _seconds(lambda: self.baseline.derive(case))

    def _ingest(self) -> None:
        from gravitate.pipeline.ingest import ingest

        shutil.rmtree(self._store.directory, ignore_errors=True)
        taken = ingest(self._spark, self._run, self._store.directory, derived=False)
        assert not taken.quarantined, taken.quarantined

    def _copy(self) -> None:
        rows = self._store.manifest().rows
        for table in set(SOURCES.values()):
            copied = self.baseline.copy(table)
            assert copied == rows[table], (table, copied, rows)

    def _derive(self, table: str) -> None:
        from gravitate.pipeline.derive import derive_table

        if table == "common_interest":
            derive_table(self._spark, self._store, "publisher_profiles")
        derive_table(self._spark, self._store, table)

    def _compare(self, table: str) -> None:
        """Both sides came to the same sums."""
        ours = self.baseline.sums(table, self._store.directory / "derived" / table)
        theirs = self.baseline.sums(table, self._scratch / table)
        same = [math.isclose(one, other) for one, other in zip(ours, theirs, strict=True)]
        assert all(same), (table, ours, theirs)

    def _look_at(self, folder: Path, pattern: str) -> None:
        for table in set(SOURCES.values()):
            self.baseline.look_at(table, sorted((folder / table).glob(f"{pattern}.parquet")))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _record(case: str, rows: int, times: Sequence[tuple[float, float]]) -> Record:
    ours_s, theirs_s = (statistics.median(seconds) for seconds in zip(*times, strict=True))
    return measured(BENCH, case, rows / ours_s, "rows/s", rows / theirs_s)


# --- traces ---------------------------------------------------------------------------------------


def make_runs(
    spark: Any, directory: Path, hops: Sequence[int], traffic: Traffic, progress: Progress = silent
) -> dict[int, Path]:
    """A run with at least so many rows of `hops` for each number; the larger ones begin with the
    files of the smaller. What `directory` has already is not made again."""
    runs = {size: directory / f"run-{_label(size)}" for size in sorted(hops)}
    description = msgspec.json.encode({"hops": sorted(hops), "traffic": traffic})
    marker = directory / "traces.json"
    if marker.exists() and marker.read_bytes() == description:
        return runs
    scene = Scene(traffic)
    hops_per_block = Block(scene, 0).hops
    first = 0
    pieces: list[Path] = []
    for size, run in runs.items():
        # Blocks differ in length by less than a hundredth.
        stop = math.ceil(1.01 * size / hops_per_block)
        progress(f"making traces: up to {size:,} hops")
        pieces.append(directory / f"piece-{_label(size)}")
        for folder in (pieces[-1], run):
            shutil.rmtree(folder, ignore_errors=True)
        _write(spark, pieces[-1], traffic, range(first, stop))
        for piece in pieces:
            _link(piece, run)
        save_manifest(run, traffic)
        first = stop
    marker.write_bytes(description)
    return runs


def _write(spark: Any, folder: Path, traffic: Traffic, blocks: range) -> None:
    shares = 4 * (os.cpu_count() or 2)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column("id").to_pylist():
                rows = write_share(folder, traffic, blocks, share, shares)
                yield pa.RecordBatch.from_pylist([{"rows": sum(rows.values())}])

    spark.range(0, shares, 1, shares).mapInArrow(work, "rows long").agg({"rows": "sum"}).collect()


def _link(piece: Path, run: Path) -> None:
    """Let a run have the files of a piece too, under numbers that it has not given yet."""
    for table in TABLES:
        (run / table).mkdir(parents=True, exist_ok=True)
        for file in reader.files(piece, table):
            stem = file.stem.rpartition("-")[0]
            number = len(list((run / table).glob(f"{stem}-*.parquet")))
            os.link(file, run / table / f"{stem}-{number:05d}.parquet")
