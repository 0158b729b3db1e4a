"""Putting the periods of a derived table into files, and into place.

Owns `derived/`. A table's periods are written aside by the tasks that have their rows, and then
moved into place one by one: a period is there as a whole or not at all, and one that has lost all
its rows disappears. Between the two a note says which periods are to change. Whoever finds it
(`finish`) goes on with the moves, so nothing is lost with a process that ends between them.

Tasks write the files themselves: a table has many periods with a few rows each, and Spark's own
writer takes thirty milliseconds a file, more than aggregating the rows in it.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import functions as F

from gravitate.files import read_json, write_json
from gravitate.pipeline.spark.failures import writing
from gravitate.pipeline.spark.shared import check_shared
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables import schemas

_NOTE: Final = "moves.json"

Make = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task makes of its rows."""


class _Moves(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done when all rows are written aside."""

    made: tuple[int, ...]
    """Periods that are moved into place."""
    emptied: tuple[int, ...]
    """Periods that have no rows any more."""


def replace(rows: Any, store: Store, table: str, periods: Collection[int] | None) -> None:
    """Make `rows` all there is of `periods` (None: of all periods) in a derived table.

    `rows` may be made from the table itself, after `finish`."""
    columns = (F.col(field.name).cast(field.dataType) for field in schemas.DERIVED[table].fields)
    in_order = rows.select(*columns).sortWithinPartitions("period")
    replace_with(in_order, _as_they_are, store, table, periods)


def replace_with(
    parts: Any, make: Make, store: Store, table: str, periods: Collection[int] | None
) -> None:
    """The same with what tasks `make` of `parts` and write at once: all rows of a period by one
    task, in the order of periods, with the table's columns."""
    folder, aside = _folders(store, table)
    shutil.rmtree(aside, ignore_errors=True)
    made = _write_aside(parts, make, aside)
    old = {int(path.name.partition("=")[2]) for path in folder.glob("period=*")}
    emptied = (old if periods is None else old & set(periods)) - made
    note = _Moves(tuple(sorted(made)), tuple(sorted(emptied)))
    write_json(aside / _NOTE, note, make_folder=True)
    finish(store, table)


def finish(store: Store, table: str) -> None:
    """Move into place what was written aside completely and is not there yet."""
    folder, aside = _folders(store, table)
    if not (aside / _NOTE).exists():
        return
    moves = read_json(aside / _NOTE, _Moves, "a note of periods to be moved")
    folder.mkdir(parents=True, exist_ok=True)
    for period in moves.emptied:
        _remove(_folder(folder, period))
    for period in moves.made:
        if _folder(aside, period).exists():
            _remove(_folder(folder, period))
            _folder(aside, period).rename(_folder(folder, period))
    shutil.rmtree(aside, ignore_errors=True)


def _remove(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)


def _folders(store: Store, table: str) -> tuple[Path, Path]:
    """Where the periods of a table are, and where they are written before."""
    derived = store.directory / "derived"
    return derived / table, derived / f".{table}.writing"


def _write_aside(parts: Any, make: Make, aside: Path) -> set[int]:
    """Write all rows below `aside`; the periods they are of."""
    work = partial(write_periods, make=make, folder=str(aside))
    written = parts.mapInArrow(work, "period int, file string").collect()
    files: dict[int, set[str]] = defaultdict(set)
    for row in written:
        files[row["period"]].add(row["file"])
    for period, names in files.items():
        check_shared(_folder(aside, period), names)
    return set(files)


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def write_periods(
    batches: Iterator[pa.RecordBatch], folder: str, make: Make = _as_they_are
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows sorted by period become files; the periods and files come back."""
    name = f"part-{_partition():05d}.parquet"
    for period, rows in _by_period(make(batches)):
        target = _folder(Path(folder), period)
        temporary = target / f".{name}.{os.getpid()}.writing"
        with writing(target / name):
            target.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows.drop_columns(["period"]), temporary, compression="zstd")
            temporary.replace(target / name)
        yield pa.RecordBatch.from_pydict({"period": pa.array([period], pa.int32()), "file": [name]})


def _by_period(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of one period after another."""
    current, gathered = 0, list[pa.RecordBatch]()
    for batch in batches:
        periods = batch.column("period").to_numpy()
        starts = np.flatnonzero(np.diff(periods)) + 1
        bounds = [0, *starts.tolist(), len(periods)] if len(periods) else []
        for start, stop in pairwise(bounds):
            if gathered and periods[start] != current:
                yield current, pa.Table.from_batches(gathered)
                gathered = []
            current = int(periods[start])
            gathered.append(batch.slice(start, stop - start))
    if gathered:
        yield current, pa.Table.from_batches(gathered)


def _partition() -> int:
    """The number of the task's partition, which a repeated task has too."""
    task = TaskContext.get()
    return 0 if task is None else int(task.partitionId())


def _folder(table: Path, period: int) -> Path:
    return table / f"period={period}"
