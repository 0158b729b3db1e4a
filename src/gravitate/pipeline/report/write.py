"""From the folder of a run to its report: take traces in where that is still to be done, gather,
compare, write the page."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from gravitate import __version__
from gravitate.errors import FileError
from gravitate.files import write_whole
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.report import metrics
from gravitate.pipeline.report.figures import Report, RunFigures
from gravitate.pipeline.report.gather import gather
from gravitate.pipeline.report.page import render
from gravitate.pipeline.store import arrivals
from gravitate.pipeline.store.store import PERIOD_S, Store
from gravitate.trace import manifest as run_manifest
from gravitate.trace import reader
from gravitate.trace.schemas import TABLES

Tell = Callable[[str], None]

PERIODS_WANTED: Final = 30
"""A short run is cut into about so many periods, so that a line over time shows something."""
_PERIODS_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, PERIOD_S)


def write_report(
    spark: Any,
    run: Path,
    out: Path,
    compare: Path | None = None,
    tell: Tell = lambda sentence: None,
) -> Report:
    """Write the page of `run`, beside `compare` if given, to `out`; returns its numbers."""
    report = make_report(spark, run, compare, tell)
    tell("writing the page")
    write_page(report, out)
    return report


def make_report(
    spark: Any, run: Path, compare: Path | None = None, tell: Tell = lambda sentence: None
) -> Report:
    """The numbers alone."""
    first = _figures(spark, Path(run), tell)
    if compare is None:
        return Report(gravitate_version=__version__, run=first)
    second = _figures(spark, Path(compare), tell)
    return Report(
        gravitate_version=__version__,
        run=first,
        compared=second,
        differences=metrics.differences(first.headline, second.headline),
        caveats=metrics.caveats(first.facts, second.facts),
    )


def write_page(report: Report, out: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(out, render(report).encode())


def check_run(run: Path) -> None:
    """Refuse a folder that is neither a run nor the store of one."""
    if Store.of_run(run).exists() or (run / run_manifest.NAME).exists():
        return
    what = "holds neither traces nor tables" if run.is_dir() else "is not a folder"
    raise FileError(
        f"{what}: give the folder of a run, as `gravitate simulate demo --trace DIR` writes it",
        str(run),
    )


def check_page(out: Path) -> None:
    """Refuse a place for the page before the work is done."""
    if out.is_dir():
        raise FileError("is a folder: give the name of a file, such as report.html", str(out))
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise FileError("cannot be written: its folder is not there or not writable", str(out))


def files_not_taken(run: Path) -> int:
    """How many trace files of `run` its store does not know."""
    if not (run / run_manifest.NAME).exists():
        return 0
    store = Store.of_run(run)
    known = {file.file for file in store.manifest().quarantined}
    for number in store.batches():
        known |= arrivals.noted(store, number).keys()
    there = {f"{table}/{path.name}" for table in TABLES for path in reader.files(run, table)}
    return len(there - known)


def _figures(spark: Any, run: Path, tell: Tell) -> RunFigures:
    store = complete_store(spark, run, tell)
    tell(f"gathering the numbers of {run}")
    return gather(spark, run, store)


def complete_store(spark: Any, run: Path, tell: Tell = lambda sentence: None) -> Store:
    """The store of a run, with its traces taken in and all tables derived."""
    check_run(run)
    store = Store.of_run(run)
    if not store.exists():
        tell(f"taking in the traces of {run}")
        ingest(spark, run, period_s=period_s_for(run), tell=tell)
    elif not store.is_complete() and (run / run_manifest.NAME).exists():
        tell(f"completing the tables of {run}")
        ingest(spark, run, tell=tell)
    return store


def period_s_for(run: Path) -> float:
    """A period that cuts the run into about `PERIODS_WANTED`, from what file footers say."""
    first_s, last_s = float("inf"), float("-inf")
    for path in reader.files(run, "publications"):
        try:
            footer = pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            continue  # Ingest puts it into quarantine and says why.
        for group in range(footer.num_row_groups):
            for column in range(footer.num_columns):
                part = footer.row_group(group).column(column)
                if part.path_in_schema == "at_s" and part.is_stats_set:
                    first_s = min(first_s, part.statistics.min)
                    last_s = max(last_s, part.statistics.max)
    if first_s > last_s:
        return PERIOD_S
    wanted_s = (last_s - first_s) / PERIODS_WANTED
    return next((period_s for period_s in _PERIODS_S if period_s >= wanted_s), PERIOD_S)
