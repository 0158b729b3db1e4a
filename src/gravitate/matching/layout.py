"""How the matching engine's arrays are laid out, and how kernels reach them.

Owns the constants and accessors that all kernels share, and what an *atom* is. Kernels know
neither names nor texts: an event arrives as numbers on *lanes* (one lane a numeric attribute) and
as the *cells* it lies in (one cell a text, topic pattern or other condition that an event either
meets or not). A conjunction is a list of atoms over lanes and cells:

    lane >= 0, low <= high    the lane's value lies within [low, high]
    lane >= 0, low > high     the lane's value does not lie strictly between high and low
    lane == INSIDE            the event lies in cell `low`
    lane == OUTSIDE           the event does not lie in cell `low`

All arrays are reached through one header of addresses, because unpacking array arguments would
cost more than matching an event. Invariants: the owner of the arrays (`arena`) keeps them alive
and large enough; `VALUES` is NaN and `ROWS` is `ABSENT` between events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from gravitate.matching.jit import kernel, pointer

Array = np.ndarray[Any, np.dtype[Any]]
wide: Any = np.int64

INSIDE = -1
OUTSIDE = -2

# Addresses in the header, one an array.
VALUES, ROWS, BOUNDARIES, LANE_GRID, LANE_CLASSES = 0, 1, 2, 3, 4
CELL_HEAD, CELL_STAMP, CELL_WEIGHT, CELL_GROUP, GROUP_SIZE = 5, 6, 7, 8, 9
RECORDS, ATOMS = 10, 11
BLOCK_LIVE, BLOCK_LINKS, BLOCK_LANES, BLOCK_COLUMNS, SLOTS, COLUMNS = 12, 13, 14, 15, 16, 17
INPUT, COUNTS, VISITS, OUTPUT, OUTPUT_ENDS, UNSURE, UNSURE_ENDS, DESTINATION_STAMP = range(18, 26)
# Counters in the header.
SERIAL, BLOCKS_USED, BLOCKS_FREE, COLUMNS_USED, COLUMNS_FREE = range(26, 31)
OUTPUT_CAPACITY, OUTPUT_EVENT_MAX, UNSURE_CAPACITY, UNSURE_EVENT_MAX, LANES_USED = range(31, 36)
CELLS_USED, HITS_CAPACITY = 36, 37
# Arrays of batches: one row of lanes an event, and chains of the events that visit a cell.
EVENT_VALUES, EVENT_ROWS, CELL_CHAIN, VISIT_EVENT, VISIT_NEXT = range(38, 43)
CELL_START, HIT_EVENT, HIT_CODE, HIT_ORDER, SURVIVORS = range(43, 48)
HEADER_SIZE = 48

# A record: one conjunction. `SLOT` is -1 while it is in a cell's list, chained by `NEXT`.
RECORD_SIZE = 6
OFFSET, COUNT, DESTINATION, SLOT, CELL, NEXT = 0, 1, 2, 3, 4, 5
# A block's links.
LINKS_SIZE = 4
AFTER, BEFORE, LIVE_COUNT, COLUMN_COUNT = 0, 1, 2, 3
# A block's slots repeat what matching needs of a record.
SLOT_SIZE = 4
SLOT_RECORD = 3

BUCKETS = 62
BOUNDARY_STRIDE = 64
BLOCK_WORDS = 4
BLOCK_SLOTS = 256
COLUMN_ROWS = 32
COLUMN_WORDS = BLOCK_WORDS * COLUMN_ROWS
ABSENT = 31
BLOCK_LANES_MAX = 16
LIST_MAX = 32
SAMPLE = 4096
CLASS_BASE = (0, 62, 124, 186, 217, 233, 241)
GRID_CELLS = 245
UNBOUNDED = 1 << 40


@kernel
def header(address: int) -> Array:
    return carray(pointer(address), (HEADER_SIZE,), np.int64)  # type: ignore[no-any-return]


@kernel
def byte(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.uint8)  # type: ignore[no-any-return]


@kernel
def int32(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.int32)  # type: ignore[no-any-return]


@kernel
def int64(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.int64)  # type: ignore[no-any-return]


@kernel
def word64(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.uint64)  # type: ignore[no-any-return]


@kernel
def double(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.float64)  # type: ignore[no-any-return]


@kernel
def bucket_of(boundaries: Array, lane: int, value: float) -> int:
    """How many of the lane's boundaries are at most `value`."""
    base = lane * BOUNDARY_STRIDE
    low = 0
    size = BUCKETS - 1
    while size > 0:
        half = size >> 1
        if boundaries[base + low + half] <= value:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low
