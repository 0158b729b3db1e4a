"""The Parquet files of traces: one after the other for each table.

A file grows under a temporary name that readers ignore and takes its own,
`TABLE/part-WRITER-NNNNN.parquet`, when it is complete. Numbers go on where earlier runs of the
same writer stopped, so nothing is overwritten. The writer's name is part of the file names, so
writers share a directory without knowing each other.

What raises while a file is written ends that file: it is removed, its rows are gone, and the next
rows begin another one. That one is completed early, and those after it step by step later, so
that a disk which has little room gets what fits. Nothing half-written ever has a final name.
"""

from __future__ import annotations

import contextlib
import errno
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.trace import manifest, schemas
from gravitate.trace.columns import Group

ROWS_PER_FILE = 262_144
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class TraceFiles:
    """The files of all tables of one writer: a sink that writes groups of rows at once.

    With a manifest given, the folder has one whenever rows are written."""

    def __init__(
        self,
        directory: str | Path,
        name: str,
        rows_per_file: int = ROWS_PER_FILE,
        run: manifest.RunManifest | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._run = run
        self._files = {
            table: RollingFile(self._directory, table, schema, name, rows_per_file)
            for table, schema in schemas.TABLES.items()
        }

    @property
    def rows_written(self) -> int:
        """In files that are complete."""
        return sum(file.rows_written for file in self._files.values())

    @property
    def rows_unfinished(self) -> int:
        """In files that are not complete yet."""
        return sum(file.rows_unfinished for file in self._files.values())

    def put(self, table: str, group: Group) -> None:
        rows = group.table()
        if self._run is not None and not (self._directory / manifest.NAME).exists():
            self._run.save(self._directory)
        self._files[table].write(rows)

    def close(self) -> None:
        """Complete the files that are being written, as many as can be; raises what first went
        wrong. Rows that come later begin new ones."""
        failures = []
        for file in self._files.values():
            try:
                file.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]


class RollingFile:
    """Takes rows of one table; `close` completes the last file. Knows columns only as a schema."""

    def __init__(
        self,
        directory: Path,
        table: str,
        schema: pa.Schema,
        writer: str,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        self.rows_written = 0
        """In files that are complete."""
        self.rows_unfinished = 0
        """In the file that is being written."""
        self._folder = directory / table
        self._schema = schema
        self._stem = f"part-{_UNSAFE.sub('_', writer)}"
        self._rows_per_file = rows_per_file
        self._rows_wanted = rows_per_file
        self._number = self._next_number()
        self._stream: pa.OSFile | None = None
        self._parquet: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Append rows; the file is completed once it is long enough."""
        self.rows_unfinished += rows.num_rows
        try:
            if self._parquet is None:
                self._parquet = self._begin()
            elif not self._temporary.exists():
                # The system would go on writing into a file that nobody can find any more.
                raise FileNotFoundError(errno.ENOENT, "has vanished", str(self._temporary))
            self._parquet.write_table(rows)
        except Exception:
            self._abandon()
            raise
        if self.rows_unfinished >= self._rows_wanted:
            self.close()

    def close(self) -> None:
        """Complete the file that is being written, if any."""
        if self._parquet is None or self._stream is None:
            return
        try:
            self._parquet.close()
            self._stream.close()
            self._temporary.rename(self._folder / f"{self._stem}-{self._number:05d}.parquet")
        except Exception:
            self._abandon()
            raise
        self._stream = self._parquet = None
        self._number += 1
        self._rows_wanted = min(
            2 * max(self._rows_wanted, self.rows_unfinished), self._rows_per_file
        )
        self.rows_written += self.rows_unfinished
        self.rows_unfinished = 0

    def _begin(self) -> pq.ParquetWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._stream = pa.OSFile(str(self._temporary), "wb")
        return pq.ParquetWriter(
            self._stream, self._schema, compression="zstd", write_page_checksum=True
        )

    def _abandon(self) -> None:
        """Let go of the file that is being written; what cannot be undone stays as it is."""
        self._rows_wanted = 1
        self.rows_unfinished = 0
        if self._parquet is not None:
            # It would try to complete the file again when it is collected.
            self._parquet.is_open = False
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink()
        self._stream = self._parquet = None

    @property
    def _temporary(self) -> Path:
        return self._folder / f".{self._stem}-{self._number:05d}.parquet.writing"

    def _next_number(self) -> int:
        numbers = [
            int(path.stem.rpartition("-")[2])
            for path in self._folder.glob(f"{self._stem}-[0-9][0-9][0-9][0-9][0-9].parquet")
        ]
        return max(numbers, default=-1) + 1
