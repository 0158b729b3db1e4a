"""Kernel that fits the whole arrangement to what is alive.

Owns where lanes are cut into buckets: at quantiles of a sample of the bounds on them, so that
buckets hold about equally many whatever the distribution. Where a conjunction goes is decided in
`placing`; here all are placed anew, those of one cell next to each other.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from gravitate.matching import layout as lay
from gravitate.matching.jit import kernel, pointer
from gravitate.matching.layout import Array, wide
from gravitate.matching.placing import access, put


@kernel
def _adapt_boundaries(head: Array, live: Array, count: int) -> None:
    """Cut every lane at quantiles of a sample of the bounds on it."""
    records = lay.int32(head, lay.RECORDS)
    atoms = lay.double(head, lay.ATOMS)
    boundaries = lay.double(head, lay.BOUNDARIES)
    lanes = head[lay.LANES_USED]
    seen = np.zeros(lanes, np.int64)
    sampled = np.zeros(lanes, np.int64)
    sample = np.empty((lanes, lay.SAMPLE), np.float64)
    for sampling in range(2):
        if sampling == 1:
            strides = seen // lay.SAMPLE + 1
            seen[:] = 0
        for at in range(count):
            base = lay.RECORD_SIZE * live[at]
            first = records[base + lay.OFFSET]
            for atom in range(first, first + records[base + lay.COUNT]):
                lane = int(atoms[3 * atom])
                low = atoms[3 * atom + 1]
                high = atoms[3 * atom + 2]
                if lane < 0 or low > high:
                    continue
                for bound in (low, high):
                    if not np.isfinite(bound):
                        continue
                    if sampling == 1 and seen[lane] % strides[lane] == 0:
                        sample[lane, sampled[lane]] = bound
                        sampled[lane] += 1
                    seen[lane] += 1
    for lane in range(lanes):
        size = sampled[lane]
        if size == 0:
            continue
        ordered = np.sort(sample[lane, :size])
        for at in range(lay.BUCKETS - 1):
            boundaries[lane * lay.BOUNDARY_STRIDE + at] = ordered[(at + 1) * size // lay.BUCKETS]


@kernel
def rearrange(address: int, live_address: int, count: int, spare_address: int) -> int:
    """Adapt the buckets to the `count` live conjunctions and place them all anew.

    Conjunctions that share a cell end up next to each other, their atoms as well: these are
    written to the array at `spare_address`, which the caller puts in the place of `ATOMS`.
    Returns how many atoms there are."""
    head = lay.header(address)
    live = carray(pointer(live_address), (count,), np.int32)
    spare = carray(pointer(spare_address), (lay.UNBOUNDED,), np.float64)
    records = lay.int32(head, lay.RECORDS)
    atoms = lay.double(head, lay.ATOMS)
    cell_head = lay.int32(head, lay.CELL_HEAD)
    _adapt_boundaries(head, live, count)

    lay.int32(head, lay.LANE_CLASSES)[: head[lay.LANES_USED]] = 0
    cells = head[lay.CELLS_USED]
    position = np.zeros(cells + 1, np.int64)
    for at in range(count):
        base = lay.RECORD_SIZE * live[at]
        cell = access(head, records[base + lay.OFFSET], records[base + lay.COUNT])
        records[base + lay.CELL] = cell
        position[cell + 1] += 1
    for cell in range(cells):
        position[cell + 1] += position[cell]
        cell_head[cell] = -1
    order = np.empty(count, np.int32)
    for at in range(count):
        cell = records[lay.RECORD_SIZE * live[at] + lay.CELL]
        order[position[cell]] = live[at]
        position[cell] += 1

    head[lay.BLOCKS_USED] = 0
    head[lay.BLOCKS_FREE] = -1
    head[lay.COLUMNS_USED] = 0
    head[lay.COLUMNS_FREE] = -1
    used = 0
    for record in order:
        base = lay.RECORD_SIZE * record
        offset = records[base + lay.OFFSET]
        size = records[base + lay.COUNT]
        for number in range(3 * size):
            spare[3 * used + number] = atoms[3 * offset + number]
        records[base + lay.OFFSET] = used
        used += size
    head[lay.ATOMS] = spare_address
    for record in order:
        put(head, wide(record))
    return used
