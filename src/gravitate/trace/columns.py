"""Columns in the making: what a writer has seen and not yet written.

Brokers report batches, tables have rows. A `BatchColumns` keeps what is the same for a whole
batch once, with the number of its rows, and repeats it only when the table is made; what
differs within a batch is extended from sequences in one call. Nothing here runs Python code for
each event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa


class BatchColumns:
    """Rows that come in batches: `per_batch` columns repeat, `per_row` columns do not."""

    def __init__(self, schema: pa.Schema, per_batch: Sequence[str], per_row: Sequence[str]) -> None:
        assert {*per_batch, *per_row} == set(schema.names)
        self.rows = 0
        self._schema = schema
        self._lengths: list[int] = []
        self._per_batch: dict[str, list[object]] = {name: [] for name in per_batch}
        self._per_row: dict[str, list[object]] = {name: [] for name in per_row}

    def append(
        self, count: int, per_batch: Iterable[object], per_row: Iterable[Iterable[object]]
    ) -> None:
        """Add `count` rows; values in the order of the names given to the constructor."""
        self.rows += count
        self._lengths.append(count)
        for column, value in zip(self._per_batch.values(), per_batch, strict=True):
            column.append(value)
        for rows, values in zip(self._per_row.values(), per_row, strict=True):
            rows.extend(values)

    def take(self) -> pa.Table:
        """All rows so far as a table of the schema; the columns are empty afterwards."""
        repeat = pa.array(np.repeat(np.arange(len(self._lengths)), self._lengths))
        arrays = {}
        for name, values in self._per_batch.items():
            kind = self._schema.field(name).type
            arrays[name] = pa.array(values, kind).take(repeat)
            values.clear()
        for name, values in self._per_row.items():
            arrays[name] = pa.array(values, self._schema.field(name).type)
            values.clear()
        self._lengths.clear()
        self.rows = 0
        return pa.table([arrays[name] for name in self._schema.names], schema=self._schema)


class RowColumns:
    """Rows that come one by one."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[object, ...]] = []

    @property
    def rows(self) -> int:
        return len(self._rows)

    def append(self, *values: object) -> None:
        """Add a row; values in the order of the schema."""
        self._rows.append(values)

    def take(self) -> pa.Table:
        """All rows so far as a table of the schema; none are left afterwards."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._schema)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._rows.clear()
        return pa.table(arrays, schema=self._schema)
