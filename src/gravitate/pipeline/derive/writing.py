"""Putting the periods of a derived table into files, and into place.

Owns `derived/`. A table's periods are written aside by the tasks that have their rows, and then
moved into place one by one: a period is there as a whole or not at all, and one that has lost all
its rows disappears.

Tasks write the files themselves: a table has many periods with a few rows each, and Spark's own
writer takes thirty milliseconds a file, more than aggregating the rows in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.pipeline.store import Store

FILE: Final = "part-00000.parquet"


def replace(rows: Any, store: Store, table: str, periods: Collection[int] | None) -> None:
    """Make `rows` all there is of `periods` (None: of all periods) in a derived table."""
    derived = store.directory.absolute() / "derived"
    folder, aside = derived / table, derived / f".{table}.writing"
    shutil.rmtree(aside, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    made = _write_aside(rows, table, aside)
    old = {int(path.name.partition("=")[2]) for path in folder.glob("period=*")}
    for period in sorted(made | (old if periods is None else old & set(periods))):
        place = _folder(folder, period)
        if place.exists():
            shutil.rmtree(place)
        if period in made:
            _folder(aside, period).rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def _write_aside(rows: Any, table: str, aside: Path) -> set[int]:
    """Write all rows below `aside`; the periods they are of."""
    columns = (F.col(field.name).cast(field.dataType) for field in schemas.DERIVED[table].fields)
    written = (
        rows.select(*columns)
        .repartition("period")
        .sortWithinPartitions("period")
        .mapInArrow(partial(write_periods, folder=str(aside)), "period int")
        .collect()
    )
    return {row["period"] for row in written}


def write_periods(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows of whole periods, sorted by period, become one file a period."""
    for period, rows in _by_period(batches):
        target = _folder(Path(folder), period)
        target.mkdir(parents=True, exist_ok=True)
        temporary = target / f".{FILE}.{os.getpid()}.writing"
        pq.write_table(rows.drop_columns(["period"]), temporary, compression="zstd")
        temporary.replace(target / FILE)
        yield pa.RecordBatch.from_pydict({"period": pa.array([period], pa.int32())})


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


def _folder(table: Path, period: int) -> Path:
    return table / f"period={period}"
