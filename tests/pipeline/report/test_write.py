"""When traces are taken in for a report, and in which periods."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.reports import run_figures, trace_scenario

from gravitate.errors import FileError
from gravitate.pipeline.ingest import open_store
from gravitate.pipeline.report import write
from gravitate.pipeline.report.figures import RunFigures
from gravitate.pipeline.report.write import (
    files_not_taken,
    make_report,
    period_s_for,
    write_page,
    write_report,
)
from gravitate.pipeline.store import arrivals
from gravitate.pipeline.store.arrivals import Arrivals
from gravitate.pipeline.store.store import BatchRecord, Store, StoreManifest
from gravitate.trace import reader
from gravitate.trace.manifest import RunManifest

MANIFEST = RunManifest(network="", clock="virtual")


class Steps:
    """Stands for the work on Spark, and notes what was asked for."""

    def __init__(self) -> None:
        self.ingested: list[tuple[str, float | None]] = []

    def ingest(self, spark: Any, run: Path, *, period_s: float | None = None, tell: Any) -> None:
        self.ingested.append((run.name, period_s))

    def gather(self, spark: Any, run: Path, store: Store) -> RunFigures:
        return run_figures(run.name, faster=2.0 if run.name == "after" else 1.0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setattr(write, "ingest", steps.ingest)
    monkeypatch.setattr(write, "gather", steps.gather)
    return steps


def traced(folder: Path) -> Path:
    MANIFEST.save(folder)
    return folder


def stored(folder: Path, taken_through: int, derived_through: int) -> Path:
    manifest = StoreManifest(
        network="", clock="virtual", taken_through=taken_through, derived_through=derived_through
    )
    Store(folder / "tables").save(manifest)
    return traced(folder)


def test_traces_without_tables_are_taken_in(steps: Steps, tmp_path: Path) -> None:
    make_report(None, traced(tmp_path / "run"))
    assert steps.ingested == [("run", 60.0)]


def test_tables_that_are_complete_are_used_as_they_are(steps: Steps, tmp_path: Path) -> None:
    make_report(None, stored(tmp_path / "run", 3, 3))
    assert steps.ingested == []


def test_tables_of_an_ingest_that_was_ended_are_completed_in_their_own_period(
    steps: Steps, tmp_path: Path
) -> None:
    make_report(None, stored(tmp_path / "run", 3, 2))
    assert steps.ingested == [("run", None)]


def test_two_runs_are_compared_from_the_first_to_the_second(steps: Steps, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    report = write_report(
        None, stored(tmp_path / "before", 0, 0), out, stored(tmp_path / "after", 0, 0)
    )
    medians = next(one for one in report.differences if one.metric == "delay_ms_p50")
    assert (medians.first, medians.second, medians.verdict) == (40.0, 20.0, "better")
    assert "before → after" in out.read_text()


def test_files_that_are_not_taken_are_counted_by_their_names(tmp_path: Path) -> None:
    trace_scenario(tmp_path)
    store = open_store(tmp_path)
    taken = reader.files(tmp_path, "hops")[0]
    Arrivals(tmp_path, store).note_new()
    assert files_not_taken(tmp_path) > 0
    store.record(0, BatchRecord(files=len(arrivals.noted(store, 0)), rows={}, periods=()))
    assert files_not_taken(tmp_path) == 0
    # Taken and refused since: one file, known twice.
    pq.write_table(pq.read_table(taken).slice(0, 1), taken)
    assert len(Arrivals(tmp_path, store).note_new()) == 1
    shutil.copy(taken, taken.with_name("part-new-00000.parquet"))
    assert files_not_taken(tmp_path) == 1


def test_a_folder_without_a_run_is_refused(steps: Steps, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds neither traces nor tables"):
        make_report(None, tmp_path)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    report = write.Report(gravitate_version="0", run=run_figures())
    with pytest.raises(FileError, match="cannot be written"):
        write_page(report, tmp_path / "missing" / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_short_run_gets_short_periods(tmp_path: Path) -> None:
    trace_scenario(tmp_path)
    assert period_s_for(tmp_path) == 1.0
    (tmp_path / "publications" / "part-broken-00000.parquet").write_bytes(b"PAR1")
    assert period_s_for(tmp_path) == 1.0


def test_a_run_without_publications_gets_the_usual_period(tmp_path: Path) -> None:
    assert period_s_for(traced(tmp_path)) == 60.0
