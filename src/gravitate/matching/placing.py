"""Kernels that place conjunctions and take them away.

Owns where a conjunction is kept. Each is kept in one cell, that of its *access atom*: the atom
that the fewest events are expected to satisfy. Besides the cells that the caller names there are
grid cells: a lane is cut into `BUCKETS` buckets at quantiles of the bounds seen on it, and a range
that spans at most 2**w buckets is kept with its width class w and the bucket of its low end.
Cell 0 is visited by every event.

A cell holds a short list of conjunctions, and past `LIST_MAX` a ring of blocks of `BLOCK_SLOTS`. A
block has *columns*, one a lane that its conjunctions look at, of 32 rows: for each of 31 bucket
pairs the bits of the conjunctions that a value there rules out, and in row `ABSENT` of those that
a missing value rules out. A conjunction beyond the first `BLOCK_LANES_MAX` lanes of its block is
ruled out by fewer columns, which costs time and changes no answer.

Invariants: in a ring, blocks with room come before full ones; a bit that is not live is not set
in any column.
"""

from __future__ import annotations

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.matching.layout import (
    AFTER,
    ATOMS,
    BEFORE,
    BLOCK_COLUMNS,
    BLOCK_LANES,
    BLOCK_LANES_MAX,
    BLOCK_LINKS,
    BLOCK_LIVE,
    BLOCK_SLOTS,
    BLOCK_WORDS,
    BLOCKS_FREE,
    BLOCKS_USED,
    BOUNDARIES,
    BUCKETS,
    CELL,
    CELL_GROUP,
    CELL_HEAD,
    CELL_WEIGHT,
    CLASS_BASE,
    COLUMN_COUNT,
    COLUMN_ROWS,
    COLUMN_WORDS,
    COLUMNS,
    COLUMNS_FREE,
    COLUMNS_USED,
    COUNT,
    DESTINATION,
    GROUP_SIZE,
    INSIDE,
    LANE_CLASSES,
    LANE_GRID,
    LINKS_SIZE,
    LIST_MAX,
    LIVE_COUNT,
    NEXT,
    OFFSET,
    RECORD_SIZE,
    RECORDS,
    SLOT,
    SLOT_RECORD,
    SLOT_SIZE,
    SLOTS,
    Array,
    bucket_of,
    double,
    header,
    int32,
    wide,
    word64,
)


@kernel
def access(head: Array, offset: int, count: int) -> int:
    """The cell in which a conjunction is kept: that of its most selective atom."""
    atoms = double(head, ATOMS)
    boundaries = double(head, BOUNDARIES)
    best, cell, best_lane, best_class, best_atom = 4.0, 0, -1, 0, -1
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        high = atoms[3 * atom + 2]
        if lane >= 0:
            if low > high:
                continue
            first = bucket_of(boundaries, lane, low)
            span = bucket_of(boundaries, lane, high) - first + 1
            expected = span / BUCKETS
            if expected < best:
                width_class = 0
                while (1 << width_class) < span:
                    width_class += 1
                best, best_lane, best_class, best_atom = expected, lane, width_class, atom
                cell = (
                    int32(head, LANE_GRID)[lane]
                    + CLASS_BASE[width_class]
                    + (first >> max(0, width_class - 2))
                )
        elif lane == INSIDE:
            named = int(low)
            group = int32(head, CELL_GROUP)[named]
            weight = double(head, CELL_WEIGHT)[named]
            # Even a cell that most events lie in beats cell 0.
            expected = min(2.0, weight / double(head, GROUP_SIZE)[group])
            if expected < best:
                best, cell, best_lane, best_atom = expected, named, -1, atom
    if best_lane >= 0:
        int32(head, LANE_CLASSES)[best_lane] |= 1 << best_class
    if best_atom >= 0:
        # Visitors of the cell mostly satisfy this atom, so the others are to be tried first.
        last = offset + count - 1
        for number in range(3):
            swapped = atoms[3 * last + number]
            atoms[3 * last + number] = atoms[3 * best_atom + number]
            atoms[3 * best_atom + number] = swapped
    return cell


@kernel
def _rule_out(head: Array, block: int, slot: int, offset: int, count: int) -> None:
    """Enter one slot's ranges into its block's columns."""
    atoms = double(head, ATOMS)
    boundaries = double(head, BOUNDARIES)
    links = int32(head, BLOCK_LINKS)
    lanes = int32(head, BLOCK_LANES)
    block_columns = int32(head, BLOCK_COLUMNS)
    columns = word64(head, COLUMNS)
    mask = np.uint64(1) << np.uint64(slot & 63)
    within = slot >> 6
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        high = atoms[3 * atom + 2]
        if lane < 0 or low > high:
            continue
        used = links[LINKS_SIZE * block + COLUMN_COUNT]
        at = 0
        while at < used and lanes[BLOCK_LANES_MAX * block + at] != lane:
            at += 1
        if at == BLOCK_LANES_MAX:
            continue
        if at == used:
            column = head[COLUMNS_FREE]
            if column >= 0:
                head[COLUMNS_FREE] = wide(columns[COLUMN_WORDS * column])
            else:
                column = head[COLUMNS_USED]
                head[COLUMNS_USED] += 1
            for word in range(COLUMN_WORDS):
                columns[COLUMN_WORDS * column + word] = np.uint64(0)
            lanes[BLOCK_LANES_MAX * block + at] = lane
            block_columns[BLOCK_LANES_MAX * block + at] = column
            links[LINKS_SIZE * block + COLUMN_COUNT] = used + 1
        column = wide(block_columns[BLOCK_LANES_MAX * block + at])
        first = bucket_of(boundaries, lane, low) >> 1
        last = bucket_of(boundaries, lane, high) >> 1
        base = COLUMN_WORDS * column + within
        for row in range(COLUMN_ROWS):
            if row < first or row > last:
                columns[base + BLOCK_WORDS * row] |= mask


@kernel
def _link_front(head: Array, cell: int, block: int) -> None:
    links = int32(head, BLOCK_LINKS)
    cells = int32(head, CELL_HEAD)
    first = cells[cell]
    if first < 0:
        links[LINKS_SIZE * block + AFTER] = block
        links[LINKS_SIZE * block + BEFORE] = block
    else:
        last = links[LINKS_SIZE * first + BEFORE]
        links[LINKS_SIZE * block + AFTER] = first
        links[LINKS_SIZE * block + BEFORE] = last
        links[LINKS_SIZE * first + BEFORE] = block
        links[LINKS_SIZE * last + AFTER] = block
    cells[cell] = block


@kernel
def _unlink(head: Array, cell: int, block: int) -> None:
    links = int32(head, BLOCK_LINKS)
    cells = int32(head, CELL_HEAD)
    after = links[LINKS_SIZE * block + AFTER]
    before = links[LINKS_SIZE * block + BEFORE]
    if after == block:
        cells[cell] = -1
        return
    links[LINKS_SIZE * before + AFTER] = after
    links[LINKS_SIZE * after + BEFORE] = before
    if cells[cell] == block:
        cells[cell] = after


@kernel
def _put_in_block(head: Array, cell: int, record: int) -> None:
    records = int32(head, RECORDS)
    links = int32(head, BLOCK_LINKS)
    live = word64(head, BLOCK_LIVE)
    slots = int32(head, SLOTS)
    block = wide(int32(head, CELL_HEAD)[cell])
    if block < 0 or links[LINKS_SIZE * block + LIVE_COUNT] == BLOCK_SLOTS:
        block = head[BLOCKS_FREE]
        if block >= 0:
            head[BLOCKS_FREE] = links[LINKS_SIZE * block + AFTER]
        else:
            block = head[BLOCKS_USED]
            head[BLOCKS_USED] += 1
        for word in range(BLOCK_WORDS * block, BLOCK_WORDS * (block + 1)):
            live[word] = np.uint64(0)
        links[LINKS_SIZE * block + LIVE_COUNT] = 0
        links[LINKS_SIZE * block + COLUMN_COUNT] = 0
        _link_front(head, cell, block)
    word = 0
    while live[BLOCK_WORDS * block + word] == ~np.uint64(0):
        word += 1
    bit = trailing_zeros(~live[BLOCK_WORDS * block + word])
    live[BLOCK_WORDS * block + word] |= np.uint64(1) << bit
    links[LINKS_SIZE * block + LIVE_COUNT] += 1
    within = 64 * word + wide(bit)
    slot = BLOCK_SLOTS * block + within
    at = RECORD_SIZE * record
    records[at + SLOT] = slot
    slots[SLOT_SIZE * slot + OFFSET] = records[at + OFFSET]
    slots[SLOT_SIZE * slot + COUNT] = records[at + COUNT]
    slots[SLOT_SIZE * slot + DESTINATION] = records[at + DESTINATION]
    slots[SLOT_SIZE * slot + SLOT_RECORD] = record
    _rule_out(head, block, within, records[at + OFFSET], records[at + COUNT])
    if links[LINKS_SIZE * block + LIVE_COUNT] == BLOCK_SLOTS:
        # A step along the ring makes the full block its last.
        int32(head, CELL_HEAD)[cell] = links[LINKS_SIZE * block + AFTER]


@kernel
def put(head: Array, record: int) -> None:
    records = int32(head, RECORDS)
    cells = int32(head, CELL_HEAD)
    at = RECORD_SIZE * record
    cell = access(head, records[at + OFFSET], records[at + COUNT])
    records[at + CELL] = cell
    first = cells[cell]
    if first >= 0:
        _put_in_block(head, cell, record)
        return
    # A list is told from a block by its sign: conjunction c heads it as -2 - c.
    length = 0
    each = -2 - first
    while each >= 0 and length < LIST_MAX:
        length += 1
        each = records[RECORD_SIZE * each + NEXT]
    if length < LIST_MAX:
        records[at + SLOT] = -1
        records[at + NEXT] = -2 - first
        cells[cell] = -2 - record
        return
    each = -2 - first
    cells[cell] = -1
    while each >= 0:
        following = records[RECORD_SIZE * each + NEXT]
        _put_in_block(head, cell, each)
        each = following
    _put_in_block(head, cell, record)


@kernel
def place(address: int, record: int, offset: int, count: int, destination: int) -> None:
    """Enter a conjunction: `count` atoms at `offset`, wanted by `destination`.

    A destination below zero, -1 - d, marks a conjunction that the caller has to verify."""
    head = header(address)
    records = int32(head, RECORDS)
    at = RECORD_SIZE * record
    records[at + OFFSET] = offset
    records[at + COUNT] = count
    records[at + DESTINATION] = destination
    put(head, record)


@kernel
def displace(address: int, record: int) -> None:
    """Take a conjunction away. Its atoms stay where they are, for the caller to free."""
    head = header(address)
    records = int32(head, RECORDS)
    links = int32(head, BLOCK_LINKS)
    live = word64(head, BLOCK_LIVE)
    at = RECORD_SIZE * record
    cell = records[at + CELL]
    slot = wide(records[at + SLOT])
    if slot < 0:
        cells = int32(head, CELL_HEAD)
        each = -2 - cells[cell]
        if each == record:
            cells[cell] = -2 - records[at + NEXT]
            return
        while records[RECORD_SIZE * each + NEXT] != record:
            each = records[RECORD_SIZE * each + NEXT]
        records[RECORD_SIZE * each + NEXT] = records[at + NEXT]
        return
    block = slot // BLOCK_SLOTS
    within = slot % BLOCK_SLOTS
    mask = np.uint64(1) << np.uint64(within & 63)
    live[BLOCK_WORDS * block + (within >> 6)] &= ~mask
    links[LINKS_SIZE * block + LIVE_COUNT] -= 1
    left = links[LINKS_SIZE * block + LIVE_COUNT]
    columns = word64(head, COLUMNS)
    block_columns = int32(head, BLOCK_COLUMNS)
    used = links[LINKS_SIZE * block + COLUMN_COUNT]
    if left == 0:
        for column_at in range(used):
            column = wide(block_columns[BLOCK_LANES_MAX * block + column_at])
            columns[COLUMN_WORDS * column] = np.uint64(head[COLUMNS_FREE])
            head[COLUMNS_FREE] = column
        _unlink(head, cell, block)
        links[LINKS_SIZE * block + AFTER] = head[BLOCKS_FREE]
        head[BLOCKS_FREE] = block
        return
    for column_at in range(used):
        column = wide(block_columns[BLOCK_LANES_MAX * block + column_at])
        base = COLUMN_WORDS * column + (within >> 6)
        for row in range(COLUMN_ROWS):
            columns[base + BLOCK_WORDS * row] &= ~mask
    if left == BLOCK_SLOTS - 1:
        _unlink(head, cell, block)
        _link_front(head, cell, block)
