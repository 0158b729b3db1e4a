"""Is a trace file fit to be taken in? From its footer before, from its rows while it is read.

`look` costs a millisecond a file: it is Parquet, complete, has the columns of its table and no
nulls where there must be none. `sound_rows` finds what only reading shows: a damaged page, a
time that is none. Both raise `Unfit` with a reason.

Only what a file holds makes it unfit. A file that cannot be got at (it is not on this machine,
permission is denied, the disk fails, too many files are open) raises `FileError`, for it may well
be fit. Knows nothing of stores, batches and Spark.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.errors import FileError
from gravitate.pipeline.store.store import PERIODS_MAX
from gravitate.pipeline.tables import schemas
from gravitate.trace.schemas import TABLES

ROWS_AT_ONCE: Final = 262_144
_AFTER_FOOTER_BYTES: Final = 8
"""The footer's length in four bytes, and the magic word."""


class Unfit(Exception):
    """A file is not to be taken in; `reason` is a sentence without its subject."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class Look(msgspec.Struct, frozen=True):
    """What the footer of a sound file says."""

    rows: int
    fingerprint: str
    """Hash of the footer: sizes, places and extremes of all columns of all row groups."""


def look(path: Path, table: str) -> Look:
    """Check a file by its footer."""
    try:
        with pq.ParquetFile(path) as file:
            columns, footer = file.schema_arrow, file.metadata
        fingerprint = hashlib.blake2b(_footer_bytes(path), digest_size=16).hexdigest()
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(path, problem) from None
    try:
        schemas.check_columns(columns, path, table, schemas.TRACES[table])
    except FileError as problem:
        raise Unfit(path, str(problem).removeprefix(f"{problem.path}: ")) from None
    if column := _column_with_nulls(footer, table):
        raise Unfit(path, _has_nulls(column, table))
    return Look(footer.num_rows, fingerprint)


def sound_rows(path: Path, table: str, period_s: float) -> Iterator[pa.Table]:
    """The rows of a file, checked, in pieces and in the table's own schema."""
    schema = TABLES[table]
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
                _refuse_odd_rows(path, batch, table, period_s)
                yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: Path, problem: Exception) -> Unfit | FileError:
    """What is wrong with the file, or with the way to it.

    Arrow raises `OSError` for both; the operating system's own complaints have a number."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return FileError(f"cannot be read: {os.strerror(problem.errno)}", str(path))
    said = str(problem).splitlines()[0]
    if isinstance(problem, pa.ArrowMemoryError | pa.ArrowCancelled):
        return FileError(f"cannot be read: {said}", str(path))
    return Unfit(path, f"cannot be read as Parquet: {said}")


def _footer_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-_AFTER_FOOTER_BYTES, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-_AFTER_FOOTER_BYTES - length, 2)
        return file.read(length)


def _column_with_nulls(footer: pq.FileMetaData, table: str) -> str | None:
    """A column that has nulls according to the footer and must not have any."""
    required = {field.name for field in TABLES[table] if not field.nullable}
    for column in range(footer.num_columns):
        name = footer.schema.column(column).path
        if name not in required or footer.schema.column(column).max_definition_level == 0:
            continue
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(column).statistics
            if statistics is not None and statistics.null_count:
                return str(name)
    return None


def _refuse_odd_rows(path: Path, rows: pa.RecordBatch, table: str, period_s: float) -> None:
    for field in TABLES[table]:
        if not field.nullable and rows.column(field.name).null_count:
            raise Unfit(path, _has_nulls(field.name, table))
    at_s = rows.column("at_s").to_numpy()
    odd = ~(np.abs(at_s / period_s) < PERIODS_MAX)
    if odd.any():
        reason = f"column 'at_s' of table '{table}' has {at_s[odd][0]}, which is no time"
        raise Unfit(path, reason)


def _has_nulls(column: str, table: str) -> str:
    return f"column '{column}' of table '{table}' has nulls, which are not accepted there"
