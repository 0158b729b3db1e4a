"""Grouping rows of arrays by several integer keys, and sums over the groups.

The first half of every aggregation over traces: what a task does with the rows it has read. Keys
of traces lie close together (periods, places in a dictionary, words of consecutive counters), so
that a table with a cell for every combination is usually small, and filling it is several times as
fast as sorting or hashing rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

CELLS_MAX: Final = 1 << 22
"""Tables up to this size are filled; with more combinations rows are sorted."""
_COMBINATIONS_MAX: Final = 1 << 62

Ints = NDArray[np.int64]


class Groups:
    """Rows with equal keys. `keys` are those of each group, in the order they were given."""

    def __init__(self, *keys: NDArray[Any]) -> None:
        rows = len(keys[0])
        self._cell = np.zeros(rows, dtype=np.int64)
        self._cells = 1
        for key in keys:
            low, high = (int(key.min()), int(key.max())) if rows else (0, 0)
            span = high - low + 1
            if self._cells > _COMBINATIONS_MAX // span:
                self._close_ranks()
            self._cell *= span
            self._cell += key
            self._cell -= low
            self._cells *= span
        if self._cells > rows:
            self._close_ranks()
        self._used = np.flatnonzero(np.bincount(self._cell, minlength=self._cells))
        example = np.empty(self._cells, dtype=np.int64)
        example[self._cell] = np.arange(rows)
        self.keys = tuple(key[example[self._used]] for key in keys)

    def _close_ranks(self) -> None:
        """Number the combinations that occur, without gaps."""
        if self._cells > CELLS_MAX:
            found, self._cell = np.unique(self._cell, return_inverse=True)
            self._cells = len(found)
        else:
            used = np.zeros(self._cells, dtype=np.bool_)
            used[self._cell] = True
            rank = np.cumsum(used, dtype=np.int64) - 1
            self._cell, self._cells = rank[self._cell], int(used.sum())

    def __len__(self) -> int:
        return len(self._used)

    def counts(self, chosen: NDArray[np.bool_] | None = None) -> Ints:
        """Rows of each group, or those that are chosen."""
        rows = self._cell if chosen is None else self._cell[chosen]
        return np.bincount(rows, minlength=self._cells)[self._used]

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Exact for integers as long as the sums are below 2 ** 53."""
        sums: NDArray[Any] = np.bincount(self._cell, values, minlength=self._cells)[self._used]
        return sums.astype(np.float64, copy=False)

    def int_sums(self, values: NDArray[Any]) -> Ints:
        return self.sums(values).astype(np.int64)

    def maxima(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        largest = np.full(self._cells, -np.inf)
        np.maximum.at(largest, self._cell, values)
        return largest[self._used]

    def disjunctions(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The bits that are set in any value of a group."""
        bits = np.zeros(self._cells, dtype=np.uint64)
        np.bitwise_or.at(bits, self._cell, values)
        return bits[self._used]


def codes(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """The distinct values of a column of texts, and for each row the position of its own; -1 for
    null."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return array.dictionary, indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)


def texts(values: pa.Array, positions: NDArray[np.int32]) -> pa.Array:
    """What `codes` stand for."""
    return values.take(pa.array(positions, mask=positions < 0))


def numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers without nulls."""
    return np.asarray(column.to_numpy())
