"""Rolling Parquet files of one table.

A file grows under a temporary name that readers ignore and takes its own,
`TABLE/part-WRITER-NNNNN.parquet`, when it is complete. Numbers go on where earlier runs of the
same writer stopped, so nothing is overwritten. Knows columns only as a schema.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE = 262_144
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class RollingFile:
    """Takes tables of rows; `close` completes the last file."""

    def __init__(
        self,
        directory: Path,
        table: str,
        schema: pa.Schema,
        writer: str,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        self._folder = directory / table
        self._schema = schema
        self._stem = f"part-{_UNSAFE.sub('_', writer)}"
        self._rows_per_file = rows_per_file
        self._rows = 0
        self._number = self._next_number()
        self._open: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Append rows; the file is completed once it is long enough."""
        if self._open is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._open = pq.ParquetWriter(
                self._temporary, self._schema, compression="zstd", write_page_checksum=True
            )
        self._open.write_table(rows)
        self._rows += rows.num_rows
        if self._rows >= self._rows_per_file:
            self.close()

    def close(self) -> None:
        """Complete the file that is being written, if any."""
        if self._open is None:
            return
        self._open.close()
        self._open = None
        self._temporary.rename(self._folder / f"{self._stem}-{self._number:05d}.parquet")
        self._number += 1
        self._rows = 0

    @property
    def _temporary(self) -> Path:
        return self._folder / f".{self._stem}-{self._number:05d}.parquet.writing"

    def _next_number(self) -> int:
        numbers = [
            int(path.stem.rpartition("-")[2])
            for path in self._folder.glob(f"{self._stem}-[0-9][0-9][0-9][0-9][0-9].parquet")
        ]
        return max(numbers, default=-1) + 1
