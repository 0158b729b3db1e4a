"""The copying of trace files into a store, as a Spark task does it: plain Arrow, a part at a time.

A part is some files of one table that become one file of a batch. It grows under a hidden name
and gets its own when it is complete, so a part that is copied again replaces itself. A file that
turns out to be damaged is left out whole, and its part is begun again without it; what was left
out is part of the answer, and the other files are not touched by it. A file that cannot be got at
ends the copying: its batch is not recorded and waits for the next ingest.

Tasks write the files themselves because Spark's own reader and writer lose a job to one damaged
file, or keep the rows before the damage, and take four times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from gravitate.pipeline.spark.failures import writing
from gravitate.pipeline.store.quarantine import Unfit, sound_rows
from gravitate.pipeline.store.store import Store
from gravitate.trace.schemas import TABLES

PART: Final = StructType(
    [
        StructField("batch", LongType()),
        StructField("part", IntegerType()),
        StructField("table", StringType()),
        StructField("files", ArrayType(StringType())),
    ]
)
"""What of a part the tasks need; `arrivals` writes it, and more."""

COPIED: Final = (
    "batch long, table string, name string, files long, rows long, periods array<int>, "
    "damaged array<string>, reasons array<string>"
)
"""What became of a part: `name` is that of its file, `reasons` are those of the files in
`damaged`, in their order."""
_COPIED_ARROW: Final = pa.schema(
    [
        ("batch", pa.int64()),
        ("table", pa.string()),
        ("name", pa.string()),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("periods", pa.list_(pa.int32())),
        ("damaged", pa.list_(pa.string())),
        ("reasons", pa.list_(pa.string())),
    ]
)

_PERIOD: Final = pa.field("period", pa.int32(), nullable=False)


class Copied(msgspec.Struct):
    """A part as it was written."""

    files: int
    rows: int
    periods: set[int]


def copy_parts(
    parts: Iterator[pa.RecordBatch], run: str, store: str, period_s: float
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows of `PART` in, rows of `COPIED` out."""
    folder = Store(store)
    for batch in parts:
        for part in batch.to_pylist():
            target = folder.batch_folder(part["table"], part["batch"])
            sources = [Path(run) / file for file in part["files"]]
            name = f"part-{part['part']:05d}.parquet"
            copied, damaged = copy_part(sources, part["table"], target / name, period_s)
            answer = {
                "batch": part["batch"],
                "table": part["table"],
                "name": name,
                "files": copied.files,
                "rows": copied.rows,
                "periods": sorted(copied.periods),
                "damaged": [str(path.relative_to(run)) for path in damaged],
                "reasons": list(damaged.values()),
            }
            yield pa.RecordBatch.from_pylist([answer], _COPIED_ARROW)


def copy_part(
    sources: list[Path], table: str, target: Path, period_s: float
) -> tuple[Copied, dict[Path, str]]:
    """Copy the sound ones of `sources` into one file; the others come back with their reasons."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.writing")
    damaged: dict[Path, str] = {}
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        while sound := [path for path in sources if path not in damaged]:
            try:
                copied = _copy_files(sound, table, temporary, period_s)
            except Unfit as found:
                damaged[found.path] = found.reason
            else:
                temporary.replace(target)
                return copied, damaged
        temporary.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
    return Copied(0, 0, set()), damaged


def _copy_files(sources: list[Path], table: str, target: Path, period_s: float) -> Copied:
    copied = Copied(len(sources), 0, set())
    schema = TABLES[table].append(_PERIOD)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in sources:
            for rows in sound_rows(path, table, period_s):
                periods = np.floor(rows["at_s"].to_numpy() / period_s).astype(np.int32)
                copied.periods.update(np.unique(periods).tolist())
                copied.rows += rows.num_rows
                writer.write_table(rows.append_column(_PERIOD, pa.array(periods)))
    return copied
