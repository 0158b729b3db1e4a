"""Columns in the making: what a writer has seen and not yet written.

Brokers report batches, tables have rows. A `BatchColumns` keeps what is the same for a whole
batch once, with the number of its rows, and repeats it only when the table is made; what
differs within a batch is extended from sequences in one call. Nothing here runs Python code for
each event. `take` sets the rows so far apart as they are, which costs next to nothing; their
table may be made later, and in another thread.

Columns know about how many bytes they take, and say when they are long or heavy enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from sys import getsizeof
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

ROWS_PER_GROUP: Final = 16_384
BYTES_PER_GROUP: Final = 16 * 2**20

VALUE_BYTES: Final = 40
"""About what a value of a row takes beside its text: a reference and a small object."""
BATCH_BYTES: Final = 64
BATCH_VALUE_BYTES: Final = 16
"""Most values of a batch are shared with others; of each there is a reference at least."""


class Group(Protocol):
    """Rows of one table that are written together."""

    @property
    def rows(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """About what they take in memory."""
        ...

    def table(self) -> pa.Table: ...


class BatchColumns:
    """Rows that come in batches: `per_batch` columns repeat, `per_row` columns do not."""

    def __init__(
        self,
        schema: pa.Schema,
        per_batch: Sequence[str],
        per_row: Sequence[str],
        rows_max: int = ROWS_PER_GROUP,
        bytes_max: int = BYTES_PER_GROUP,
    ) -> None:
        assert {*per_batch, *per_row} == set(schema.names)
        self._schema = schema
        self._batch_names = per_batch
        self._row_names = per_row
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._batch_bytes = BATCH_BYTES + BATCH_VALUE_BYTES * len(per_batch)
        self._row_bytes = VALUE_BYTES * len(per_row)
        self._empty()

    def _empty(self) -> None:
        self.rows = 0
        self.size_bytes = 0
        self._lengths: list[int] = []
        self._batches: list[tuple[object, ...]] = []
        self._per_row: list[list[object]] = [[] for _ in self._row_names]

    def append(
        self,
        count: int,
        per_batch: tuple[object, ...],
        per_row: Iterable[Iterable[object]],
        text_bytes: int,
    ) -> bool:
        """Add `count` rows; values in the order of the names given to the constructor, and what
        their texts weigh. Whether it is time to take the rows."""
        self.rows += count
        self.size_bytes += self._batch_bytes + count * self._row_bytes + text_bytes
        self._lengths.append(count)
        self._batches.append(per_batch)
        for rows, values in zip(self._per_row, per_row, strict=True):
            rows.extend(values)
        return self.rows >= self._rows_max or self.size_bytes >= self._bytes_max

    def take(self) -> BatchColumns:
        """All rows so far, apart; these columns are empty afterwards."""
        taken = copy(self)
        self._empty()
        return taken

    def table(self) -> pa.Table:
        """The rows, of which there are some, as a table of the schema."""
        repeat = pa.array(np.repeat(np.arange(len(self._lengths)), self._lengths))
        per_batch = zip(*self._batches, strict=True)
        arrays = {
            name: pa.array(values, self._schema.field(name).type).take(repeat)
            for name, values in zip(self._batch_names, per_batch, strict=True)
        }
        for name, values in zip(self._row_names, self._per_row, strict=True):
            arrays[name] = pa.array(values, self._schema.field(name).type)
        return pa.table([arrays[name] for name in self._schema.names], schema=self._schema)


class RowColumns:
    """Rows that come one by one."""

    def __init__(
        self, schema: pa.Schema, rows_max: int = ROWS_PER_GROUP, bytes_max: int = BYTES_PER_GROUP
    ) -> None:
        self._schema = schema
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._empty()

    def _empty(self) -> None:
        self.size_bytes = 0
        self._rows: list[tuple[object, ...]] = []

    @property
    def rows(self) -> int:
        return len(self._rows)

    def append(self, *values: object) -> bool:
        """Add a row; values in the order of the schema. Whether it is time to take the rows."""
        self._rows.append(values)
        self.size_bytes += getsizeof(values) + sum(map(getsizeof, values))
        return self.rows >= self._rows_max or self.size_bytes >= self._bytes_max

    def take(self) -> RowColumns:
        """All rows so far, apart; these columns are empty afterwards."""
        taken = copy(self)
        self._empty()
        return taken

    def table(self) -> pa.Table:
        """The rows, of which there are some, as a table of the schema."""
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        return pa.table(arrays, schema=self._schema)
