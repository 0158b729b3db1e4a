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

from gravitate.matching import layout as lay
from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.matching.layout import Array, wide


@kernel
def access(head: Array, offset: int, count: int) -> int:
    """The cell in which a conjunction is kept: that of its most selective atom."""
    atoms = lay.double(head, lay.ATOMS)
    boundaries = lay.double(head, lay.BOUNDARIES)
    best, cell, best_lane, best_class, best_atom = 4.0, 0, -1, 0, -1
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        high = atoms[3 * atom + 2]
        if lane >= 0:
            if low > high:
                continue
            first = lay.bucket_of(boundaries, lane, low)
            span = lay.bucket_of(boundaries, lane, high) - first + 1
            expected = span / lay.BUCKETS
            if expected < best:
                width_class = 0
                while (1 << width_class) < span:
                    width_class += 1
                best, best_lane, best_class, best_atom = expected, lane, width_class, atom
                cell = (
                    lay.int32(head, lay.LANE_GRID)[lane]
                    + lay.CLASS_BASE[width_class]
                    + (first >> max(0, width_class - 2))
                )
        elif lane == lay.INSIDE:
            named = int(low)
            group = lay.int32(head, lay.CELL_GROUP)[named]
            weight = lay.double(head, lay.CELL_WEIGHT)[named]
            # Even a cell that most events lie in beats cell 0.
            expected = min(2.0, weight / lay.double(head, lay.GROUP_SIZE)[group])
            if expected < best:
                best, cell, best_lane, best_atom = expected, named, -1, atom
    if best_lane >= 0:
        lay.int32(head, lay.LANE_CLASSES)[best_lane] |= 1 << best_class
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
    atoms = lay.double(head, lay.ATOMS)
    boundaries = lay.double(head, lay.BOUNDARIES)
    links = lay.int32(head, lay.BLOCK_LINKS)
    lanes = lay.int32(head, lay.BLOCK_LANES)
    block_columns = lay.int32(head, lay.BLOCK_COLUMNS)
    columns = lay.word64(head, lay.COLUMNS)
    mask = np.uint64(1) << np.uint64(slot & 63)
    within = slot >> 6
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        high = atoms[3 * atom + 2]
        if lane < 0 or low > high:
            continue
        used = links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT]
        at = 0
        while at < used and lanes[lay.BLOCK_LANES_MAX * block + at] != lane:
            at += 1
        if at == lay.BLOCK_LANES_MAX:
            continue
        if at == used:
            column = head[lay.COLUMNS_FREE]
            if column >= 0:
                head[lay.COLUMNS_FREE] = wide(columns[lay.COLUMN_WORDS * column])
            else:
                column = head[lay.COLUMNS_USED]
                head[lay.COLUMNS_USED] += 1
            for word in range(lay.COLUMN_WORDS):
                columns[lay.COLUMN_WORDS * column + word] = np.uint64(0)
            lanes[lay.BLOCK_LANES_MAX * block + at] = lane
            block_columns[lay.BLOCK_LANES_MAX * block + at] = column
            links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT] = used + 1
        column = wide(block_columns[lay.BLOCK_LANES_MAX * block + at])
        first = lay.bucket_of(boundaries, lane, low) >> 1
        last = lay.bucket_of(boundaries, lane, high) >> 1
        base = lay.COLUMN_WORDS * column + within
        for row in range(lay.COLUMN_ROWS):
            if row < first or row > last:
                columns[base + lay.BLOCK_WORDS * row] |= mask


@kernel
def _link_front(head: Array, cell: int, block: int) -> None:
    links = lay.int32(head, lay.BLOCK_LINKS)
    cells = lay.int32(head, lay.CELL_HEAD)
    first = cells[cell]
    if first < 0:
        links[lay.LINKS_SIZE * block + lay.AFTER] = block
        links[lay.LINKS_SIZE * block + lay.BEFORE] = block
    else:
        last = links[lay.LINKS_SIZE * first + lay.BEFORE]
        links[lay.LINKS_SIZE * block + lay.AFTER] = first
        links[lay.LINKS_SIZE * block + lay.BEFORE] = last
        links[lay.LINKS_SIZE * first + lay.BEFORE] = block
        links[lay.LINKS_SIZE * last + lay.AFTER] = block
    cells[cell] = block


@kernel
def _unlink(head: Array, cell: int, block: int) -> None:
    links = lay.int32(head, lay.BLOCK_LINKS)
    cells = lay.int32(head, lay.CELL_HEAD)
    after = links[lay.LINKS_SIZE * block + lay.AFTER]
    before = links[lay.LINKS_SIZE * block + lay.BEFORE]
    if after == block:
        cells[cell] = -1
        return
    links[lay.LINKS_SIZE * before + lay.AFTER] = after
    links[lay.LINKS_SIZE * after + lay.BEFORE] = before
    if cells[cell] == block:
        cells[cell] = after


@kernel
def _put_in_block(head: Array, cell: int, record: int) -> None:
    records = lay.int32(head, lay.RECORDS)
    links = lay.int32(head, lay.BLOCK_LINKS)
    live = lay.word64(head, lay.BLOCK_LIVE)
    slots = lay.int32(head, lay.SLOTS)
    block = wide(lay.int32(head, lay.CELL_HEAD)[cell])
    if block < 0 or links[lay.LINKS_SIZE * block + lay.LIVE_COUNT] == lay.BLOCK_SLOTS:
        block = head[lay.BLOCKS_FREE]
        if block >= 0:
            head[lay.BLOCKS_FREE] = links[lay.LINKS_SIZE * block + lay.AFTER]
        else:
            block = head[lay.BLOCKS_USED]
            head[lay.BLOCKS_USED] += 1
        for word in range(lay.BLOCK_WORDS * block, lay.BLOCK_WORDS * (block + 1)):
            live[word] = np.uint64(0)
        links[lay.LINKS_SIZE * block + lay.LIVE_COUNT] = 0
        links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT] = 0
        _link_front(head, cell, block)
    word = 0
    while live[lay.BLOCK_WORDS * block + word] == ~np.uint64(0):
        word += 1
    bit = trailing_zeros(~live[lay.BLOCK_WORDS * block + word])
    live[lay.BLOCK_WORDS * block + word] |= np.uint64(1) << bit
    links[lay.LINKS_SIZE * block + lay.LIVE_COUNT] += 1
    within = 64 * word + wide(bit)
    slot = lay.BLOCK_SLOTS * block + within
    at = lay.RECORD_SIZE * record
    records[at + lay.SLOT] = slot
    slots[lay.SLOT_SIZE * slot + lay.OFFSET] = records[at + lay.OFFSET]
    slots[lay.SLOT_SIZE * slot + lay.COUNT] = records[at + lay.COUNT]
    slots[lay.SLOT_SIZE * slot + lay.DESTINATION] = records[at + lay.DESTINATION]
    slots[lay.SLOT_SIZE * slot + lay.SLOT_RECORD] = record
    _rule_out(head, block, within, records[at + lay.OFFSET], records[at + lay.COUNT])
    if links[lay.LINKS_SIZE * block + lay.LIVE_COUNT] == lay.BLOCK_SLOTS:
        # A step along the ring makes the full block its last.
        lay.int32(head, lay.CELL_HEAD)[cell] = links[lay.LINKS_SIZE * block + lay.AFTER]


@kernel
def put(head: Array, record: int) -> None:
    records = lay.int32(head, lay.RECORDS)
    cells = lay.int32(head, lay.CELL_HEAD)
    at = lay.RECORD_SIZE * record
    cell = access(head, records[at + lay.OFFSET], records[at + lay.COUNT])
    records[at + lay.CELL] = cell
    first = cells[cell]
    if first >= 0:
        _put_in_block(head, cell, record)
        return
    # A list is told from a block by its sign: conjunction c heads it as -2 - c.
    length = 0
    each = -2 - first
    while each >= 0 and length < lay.LIST_MAX:
        length += 1
        each = records[lay.RECORD_SIZE * each + lay.NEXT]
    if length < lay.LIST_MAX:
        records[at + lay.SLOT] = -1
        records[at + lay.NEXT] = -2 - first
        cells[cell] = -2 - record
        return
    each = -2 - first
    cells[cell] = -1
    while each >= 0:
        following = records[lay.RECORD_SIZE * each + lay.NEXT]
        _put_in_block(head, cell, each)
        each = following
    _put_in_block(head, cell, record)


@kernel
def place(address: int, record: int, offset: int, count: int, destination: int) -> None:
    """Enter a conjunction: `count` atoms at `offset`, wanted by `destination`.

    A destination below zero, -1 - d, marks a conjunction that the caller has to verify."""
    head = lay.header(address)
    records = lay.int32(head, lay.RECORDS)
    at = lay.RECORD_SIZE * record
    records[at + lay.OFFSET] = offset
    records[at + lay.COUNT] = count
    records[at + lay.DESTINATION] = destination
    put(head, record)


@kernel
def displace(address: int, record: int) -> None:
    """Take a conjunction away. Its atoms stay where they are, for the caller to free."""
    head = lay.header(address)
    records = lay.int32(head, lay.RECORDS)
    links = lay.int32(head, lay.BLOCK_LINKS)
    live = lay.word64(head, lay.BLOCK_LIVE)
    at = lay.RECORD_SIZE * record
    cell = records[at + lay.CELL]
    slot = wide(records[at + lay.SLOT])
    if slot < 0:
        cells = lay.int32(head, lay.CELL_HEAD)
        each = -2 - cells[cell]
        if each == record:
            cells[cell] = -2 - records[at + lay.NEXT]
            return
        while records[lay.RECORD_SIZE * each + lay.NEXT] != record:
            each = records[lay.RECORD_SIZE * each + lay.NEXT]
        records[lay.RECORD_SIZE * each + lay.NEXT] = records[at + lay.NEXT]
        return
    block = slot // lay.BLOCK_SLOTS
    within = slot % lay.BLOCK_SLOTS
    mask = np.uint64(1) << np.uint64(within & 63)
    live[lay.BLOCK_WORDS * block + (within >> 6)] &= ~mask
    links[lay.LINKS_SIZE * block + lay.LIVE_COUNT] -= 1
    left = links[lay.LINKS_SIZE * block + lay.LIVE_COUNT]
    columns = lay.word64(head, lay.COLUMNS)
    block_columns = lay.int32(head, lay.BLOCK_COLUMNS)
    used = links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT]
    if left == 0:
        for column_at in range(used):
            column = wide(block_columns[lay.BLOCK_LANES_MAX * block + column_at])
            columns[lay.COLUMN_WORDS * column] = np.uint64(head[lay.COLUMNS_FREE])
            head[lay.COLUMNS_FREE] = column
        _unlink(head, cell, block)
        links[lay.LINKS_SIZE * block + lay.AFTER] = head[lay.BLOCKS_FREE]
        head[lay.BLOCKS_FREE] = block
        return
    for column_at in range(used):
        column = wide(block_columns[lay.BLOCK_LANES_MAX * block + column_at])
        base = lay.COLUMN_WORDS * column + (within >> 6)
        for row in range(lay.COLUMN_ROWS):
            columns[base + lay.BLOCK_WORDS * row] &= ~mask
    if left == lay.BLOCK_SLOTS - 1:
        _unlink(head, cell, block)
        _link_front(head, cell, block)
