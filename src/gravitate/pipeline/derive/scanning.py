"""Reading trace files within tasks, and what of it goes on: sums, not rows.

A *summary* is the first half of an aggregation as a plain function from an Arrow table to one of
the same or a smaller number of rows; Spark's aggregation adds up what tasks made of their files.
Spark's own reader and hash table take three times as long a row: they touch rows one by one,
where arrays are added up here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.pipeline.derive.periods import ranges

Ranges = Sequence[tuple[int, int]]


class Summary(msgspec.Struct, frozen=True):
    """What is read of a trace table, and what is made of it."""

    table: str
    columns: tuple[str, ...]
    """Without `period`, which always is read."""
    make: Callable[[pa.Table], pa.Table]
    """A function of a module; columns of texts come as dictionaries."""
    schema: str
    """Of its result, as Spark writes schemas."""


def summarised(
    numbers: Any, files: Sequence[str], summary: Summary, periods: set[int] | None
) -> Any:
    """The summaries of trace files, of rows of the given periods (None: of all).

    `numbers` has a column `id` with the positions in `files`; tasks are its partitions."""
    wanted = None if periods is None else ranges(periods)
    return numbers.mapInArrow(
        partial(_summarise, files=list(files), summary=summary, wanted=wanted), summary.schema
    )


def together(rows: Any, key: str) -> Any:
    """The rows with equal keys in one partition: what is then grouped by this key and others
    needs no second exchange, nor a first half that tasks have done already."""
    return rows.repartition(key)


def _summarise(
    batches: Iterator[pa.RecordBatch], files: list[str], summary: Summary, wanted: Ranges | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            for rows in read_rows(files[number], summary.columns, wanted):
                yield from summary.make(rows).to_batches()


def read_rows(file: str, columns: Sequence[str], wanted: Ranges | None) -> Iterator[pa.Table]:
    """The rows of a stored trace file by row groups, those without wanted periods left out."""
    footer = pq.read_metadata(file)
    schema = footer.schema.to_arrow_schema()
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    period = footer.schema.names.index("period")
    with pq.ParquetFile(file, metadata=footer, read_dictionary=texts, memory_map=True) as found:
        for group in range(footer.num_row_groups):
            extremes = footer.row_group(group).column(period).statistics
            within = _within(wanted, extremes)
            if within is not False:
                rows = found.read_row_group(group, ["period", *columns], use_threads=False)
                if within is None and wanted is not None:
                    rows = rows.filter(pa.array(_is_wanted(rows["period"].to_numpy(), wanted)))
                if rows.num_rows:
                    yield rows


def last_period(files: Sequence[Path]) -> int:
    """The last period that any row of stored trace files is of, as their footers tell; 0 for
    none."""
    lasts = []
    for file in files:
        footer = pq.read_metadata(file)
        period = footer.schema.names.index("period")
        groups = map(footer.row_group, range(footer.num_row_groups))
        lasts += [group.column(period).statistics.max for group in groups if group.num_rows]
    return max(lasts, default=0)


def _within(wanted: Ranges | None, extremes: Any) -> bool | None:
    """Whether all rows of a group are wanted, or none; None when rows must be asked."""
    if wanted is None:
        return True
    if extremes is None or not extremes.has_min_max:
        return None
    if any(first <= extremes.min and extremes.max <= last for first, last in wanted):
        return True
    if all(extremes.max < first or last < extremes.min for first, last in wanted):
        return False
    return None


def _is_wanted(periods: Any, wanted: Ranges) -> Any:
    chosen = np.zeros(len(periods), dtype=np.bool_)
    for first, last in wanted:
        chosen |= (first <= periods) & (periods <= last)
    return chosen
