"""The arena: the arrays that the kernels work on, grown as needed.

Owns memory and addresses, nothing else: what the numbers mean is said in `layout`. Arrays
that share an index grow together, by doubling, and the header always holds their current
addresses. Invariant: `header[which]` is the address of `arrays[which]`, which stays alive.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gravitate.matching import layout

LANES, CELLS, GROUPS, RECORDS, ATOMS, BLOCKS, COLUMNS, DESTINATIONS = range(8)
INPUT, EVENTS, VISITS, OUTPUT, UNSURE, ROWS, HITS = range(8, 15)

# Per family its arrays: place in the header, type, numbers an index, what fresh ones hold.
_Layout = tuple[int, Any, int, float]
_FAMILIES: Final[tuple[tuple[_Layout, ...], ...]] = (
    (
        (layout.VALUES, np.float64, 1, np.nan),
        (layout.ROWS, np.uint8, 1, layout.ABSENT),
        (layout.BOUNDARIES, np.float64, layout.BOUNDARY_STRIDE, np.inf),
        (layout.LANE_GRID, np.int32, 1, 0),
        (layout.LANE_CLASSES, np.int32, 1, 0),
    ),
    (
        (layout.CELL_HEAD, np.int32, 1, -1),
        (layout.CELL_STAMP, np.int64, 1, 0),
        (layout.CELL_WEIGHT, np.float64, 1, 0),
        (layout.CELL_GROUP, np.int32, 1, 0),
        (layout.CELL_CHAIN, np.int32, 1, 0),
    ),
    ((layout.GROUP_SIZE, np.float64, 1, 0),),
    ((layout.RECORDS, np.int32, layout.RECORD_SIZE, 0),),
    ((layout.ATOMS, np.float64, 3, 0),),
    (
        (layout.BLOCK_LIVE, np.uint64, layout.BLOCK_WORDS, 0),
        (layout.BLOCK_LINKS, np.int32, layout.LINKS_SIZE, 0),
        (layout.BLOCK_LANES, np.int32, layout.BLOCK_LANES_MAX, 0),
        (layout.BLOCK_COLUMNS, np.int32, layout.BLOCK_LANES_MAX, 0),
        (layout.SLOTS, np.int32, layout.BLOCK_SLOTS * layout.SLOT_SIZE, 0),
    ),
    ((layout.COLUMNS, np.uint64, layout.COLUMN_WORDS, 0),),
    ((layout.DESTINATION_STAMP, np.int64, 1, 0),),
    ((layout.INPUT, np.float64, 1, 0),),
    (
        (layout.COUNTS, np.int32, 2, 0),
        (layout.OUTPUT_ENDS, np.int64, 1, 0),
        (layout.UNSURE_ENDS, np.int64, 1, 0),
        (layout.CELL_START, np.int64, 1, 0),
    ),
    (
        (layout.VISITS, np.int32, 1, 0),
        (layout.VISIT_EVENT, np.int32, 1, 0),
        (layout.VISIT_NEXT, np.int32, 1, 0),
    ),
    ((layout.OUTPUT, np.int32, 1, 0),),
    ((layout.UNSURE, np.int32, 1, 0),),
    ((layout.EVENT_VALUES, np.float64, 1, 0), (layout.EVENT_ROWS, np.uint8, 1, 0)),
    (
        (layout.HIT_EVENT, np.int32, 1, 0),
        (layout.HIT_CODE, np.int32, 1, 0),
        (layout.HIT_ORDER, np.int32, 1, 0),
    ),
)
_SMALLEST: Final = (8, 256, 8, 32, 128, 1, 1, 32, 256, 16, 256, 64, 16, 16, 64)


class Arena:
    """Arrays by their place in the header, and the header's address for the kernels."""

    def __init__(self) -> None:
        self.header = np.zeros(layout.HEADER_SIZE, np.int64)
        self.counters = self.header.data
        self.address: int = self.header.ctypes.data
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}
        self.views: dict[int, memoryview] = {}
        self.capacity = [0] * len(_FAMILIES)
        self.header[layout.BLOCKS_FREE] = -1
        self.header[layout.COLUMNS_FREE] = -1
        self.put(layout.SURVIVORS, np.zeros(layout.BLOCK_WORDS, np.uint64))
        for family, smallest in enumerate(_SMALLEST):
            self.reserve(family, smallest)

    def reserve(self, family: int, size: int) -> None:
        """Make room for `size` indices of a family, keeping what is there."""
        capacity = self.capacity[family]
        if size <= capacity:
            return
        capacity = max(size, 2 * capacity)
        for which, dtype, stride, fresh in _FAMILIES[family]:
            grown = _fresh(capacity * stride, dtype, fresh)
            old = self.arrays.get(which)
            if old is not None:
                grown[: len(old)] = old
            self.put(which, grown)
        self.capacity[family] = capacity

    def put(self, which: int, array: np.ndarray[Any, Any]) -> None:
        """Use `array` from now on."""
        self.arrays[which] = array
        self.views[which] = array.data
        self.header[which] = array.ctypes.data


def _fresh(size: int, dtype: Any, value: float) -> np.ndarray[Any, Any]:
    # Zero pages come from the operating system untouched, so spare capacity costs no memory.
    return np.zeros(size, dtype) if value == 0 else np.full(size, value, dtype)
