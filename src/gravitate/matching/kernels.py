"""Kernels of the matching engine: placing conjunctions, taking them away, matching events.

Owns the layout of the engine's arrays and everything that runs compiled. It knows neither
names nor texts: an event arrives as numbers on *lanes* (one lane a numeric attribute) and as
the *cells* it lies in (one cell a text, topic pattern or other condition that an event either
meets or not). A conjunction is a list of atoms over lanes and cells:

    lane >= 0, low <= high    the lane's value lies within [low, high]
    lane >= 0, low > high     the lane's value does not lie strictly between high and low
    lane == INSIDE            the event lies in cell `low`
    lane == OUTSIDE           the event does not lie in cell `low`

Each conjunction is kept in one cell, the one of its *access atom*: the atom that the fewest
events are expected to satisfy. An event visits only the cells it lies in. Besides those that
the caller names there are grid cells: a lane is cut into `BUCKETS` buckets at quantiles of the
bounds seen on it, and a range that spans at most 2**w buckets is kept with its width class w
and the bucket of its low end. Cell 0 is visited by every event.

A cell holds a short list of conjunctions, and past `LIST_MAX` a ring of blocks of 64. A block
with many conjunctions has *columns*: for one lane and one of 31 bucket pairs the word of the
conjunctions that a value there rules out (word 31: those that a missing value rules out). ANDing
one word a lane leaves few survivors, and those are verified exactly on their atoms.

All arrays are reached through one header of addresses, because unpacking array arguments would
cost more than matching an event. Invariants: the caller keeps the arrays alive and large enough
(`arena`); in a ring, blocks with room come before full ones; `VALUES` is NaN and `WORDS` is
`ABSENT` between events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from gravitate.matching.jit import kernel, ones, pointer, trailing_zeros

Array = np.ndarray[Any, np.dtype[Any]]
wide: Any = np.int64

INSIDE = -1
OUTSIDE = -2

# Addresses in the header, one an array.
VALUES, WORDS, BOUNDARIES, LANE_GRID, LANE_CLASSES = 0, 1, 2, 3, 4
CELL_HEAD, CELL_STAMP, CELL_WEIGHT, CELL_GROUP, GROUP_SIZE = 5, 6, 7, 8, 9
RECORDS, ATOMS = 10, 11
BLOCK_LIVE, BLOCK_LINKS, BLOCK_LANES, BLOCK_COLUMNS, SLOTS, COLUMNS = 12, 13, 14, 15, 16, 17
INPUT, COUNTS, VISITS, OUTPUT, OUTPUT_ENDS, UNSURE, UNSURE_ENDS, DESTINATION_STAMP = range(18, 26)
# Counters in the header.
SERIAL, BLOCKS_USED, BLOCKS_FREE, COLUMNS_USED, COLUMNS_FREE = range(26, 31)
OUTPUT_CAPACITY, OUTPUT_EVENT_MAX, UNSURE_CAPACITY, UNSURE_EVENT_MAX, LANES_USED = range(31, 36)
CELLS_USED = 36
HEADER_SIZE = 40

# A record: one conjunction. `SLOT` is -1 while it is in a cell's list, chained by `NEXT`.
RECORD_SIZE = 6
OFFSET, COUNT, DESTINATION, SLOT, CELL, NEXT = 0, 1, 2, 3, 4, 5
# A block's links.
LINKS_SIZE = 4
AFTER, BEFORE, OF_CELL, COLUMN_COUNT = 0, 1, 2, 3
# A block's slots repeat what matching needs of a record.
SLOT_SIZE = 4
SLOT_RECORD = 3

BUCKETS = 62
BOUNDARY_STRIDE = 64
WORDS_PER_COLUMN = 32
ABSENT = 31
BLOCK_LANES_MAX = 16
LIST_MAX = 8
COLUMNS_FROM = 16
SAMPLE = 256
CLASS_BASE = (0, 62, 124, 186, 217, 233, 241)
GRID_CELLS = 245
UNBOUNDED = 1 << 40


@kernel
def _int32(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.int32)  # type: ignore[no-any-return]


@kernel
def _int64(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.int64)  # type: ignore[no-any-return]


@kernel
def _word64(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.uint64)  # type: ignore[no-any-return]


@kernel
def _double(head: Array, which: int) -> Array:
    return carray(pointer(head[which]), (UNBOUNDED,), np.float64)  # type: ignore[no-any-return]


@kernel
def _bucket(boundaries: Array, lane: int, value: float) -> int:
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


@kernel
def _access(head: Array, offset: int, count: int) -> int:
    """The cell in which a conjunction is kept: that of its most selective atom."""
    atoms = _double(head, ATOMS)
    boundaries = _double(head, BOUNDARIES)
    best, cell, best_lane, best_class = 4.0, 0, -1, 0
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        high = atoms[3 * atom + 2]
        if lane >= 0:
            if low > high:
                continue
            first = _bucket(boundaries, lane, low)
            span = _bucket(boundaries, lane, high) - first + 1
            expected = span / BUCKETS
            if expected < best:
                width_class = 0
                while (1 << width_class) < span:
                    width_class += 1
                best, best_lane, best_class = expected, lane, width_class
                cell = (
                    _int32(head, LANE_GRID)[lane]
                    + CLASS_BASE[width_class]
                    + (first >> max(0, width_class - 2))
                )
        elif lane == INSIDE:
            named = int(low)
            group = _int32(head, CELL_GROUP)[named]
            weight = _double(head, CELL_WEIGHT)[named]
            # Even a cell that most events lie in beats cell 0.
            expected = min(2.0, weight / _double(head, GROUP_SIZE)[group])
            if expected < best:
                best, cell, best_lane = expected, named, -1
    if best_lane >= 0:
        _int32(head, LANE_CLASSES)[best_lane] |= 1 << best_class
    return cell


@kernel
def _rule_out(head: Array, block: int, bit: int, offset: int, count: int) -> None:
    """Enter one slot's ranges into its block's columns."""
    atoms = _double(head, ATOMS)
    boundaries = _double(head, BOUNDARIES)
    links = _int32(head, BLOCK_LINKS)
    lanes = _int32(head, BLOCK_LANES)
    block_columns = _int32(head, BLOCK_COLUMNS)
    columns = _word64(head, COLUMNS)
    mask = np.uint64(1) << np.uint64(bit)
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
                head[COLUMNS_FREE] = wide(columns[WORDS_PER_COLUMN * column])
            else:
                column = head[COLUMNS_USED]
                head[COLUMNS_USED] += 1
            for word in range(WORDS_PER_COLUMN):
                columns[WORDS_PER_COLUMN * column + word] = np.uint64(0)
            lanes[BLOCK_LANES_MAX * block + at] = lane
            block_columns[BLOCK_LANES_MAX * block + at] = column
            links[LINKS_SIZE * block + COLUMN_COUNT] = used + 1
        column = wide(block_columns[BLOCK_LANES_MAX * block + at])
        first = _bucket(boundaries, lane, low) >> 1
        last = _bucket(boundaries, lane, high) >> 1
        for word in range(WORDS_PER_COLUMN):
            if word < first or word > last:
                columns[WORDS_PER_COLUMN * column + word] |= mask


@kernel
def _link_front(head: Array, cell: int, block: int) -> None:
    links = _int32(head, BLOCK_LINKS)
    cells = _int32(head, CELL_HEAD)
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
    links = _int32(head, BLOCK_LINKS)
    cells = _int32(head, CELL_HEAD)
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
    records = _int32(head, RECORDS)
    links = _int32(head, BLOCK_LINKS)
    live = _word64(head, BLOCK_LIVE)
    slots = _int32(head, SLOTS)
    full = ~np.uint64(0)
    block = wide(_int32(head, CELL_HEAD)[cell])
    if block < 0 or live[block] == full:
        block = head[BLOCKS_FREE]
        if block >= 0:
            head[BLOCKS_FREE] = links[LINKS_SIZE * block + AFTER]
        else:
            block = head[BLOCKS_USED]
            head[BLOCKS_USED] += 1
        live[block] = np.uint64(0)
        links[LINKS_SIZE * block + OF_CELL] = cell
        links[LINKS_SIZE * block + COLUMN_COUNT] = 0
        _link_front(head, cell, block)
    bit = trailing_zeros(~live[block])
    live[block] |= np.uint64(1) << bit
    slot = block * 64 + wide(bit)
    at = RECORD_SIZE * record
    records[at + SLOT] = slot
    slots[SLOT_SIZE * slot + OFFSET] = records[at + OFFSET]
    slots[SLOT_SIZE * slot + COUNT] = records[at + COUNT]
    slots[SLOT_SIZE * slot + DESTINATION] = records[at + DESTINATION]
    slots[SLOT_SIZE * slot + SLOT_RECORD] = record
    if links[LINKS_SIZE * block + COLUMN_COUNT] > 0:
        _rule_out(head, block, wide(bit), records[at + OFFSET], records[at + COUNT])
    elif wide(ones(live[block])) >= COLUMNS_FROM:
        rest = live[block]
        while rest != np.uint64(0):
            each = wide(trailing_zeros(rest))
            rest &= rest - np.uint64(1)
            base = SLOT_SIZE * (block * 64 + each)
            _rule_out(head, block, each, slots[base + OFFSET], slots[base + COUNT])
    if live[block] == full:
        # A step along the ring makes the full block its last.
        _int32(head, CELL_HEAD)[cell] = links[LINKS_SIZE * block + AFTER]


@kernel
def _put(head: Array, record: int) -> None:
    records = _int32(head, RECORDS)
    cells = _int32(head, CELL_HEAD)
    at = RECORD_SIZE * record
    cell = _access(head, records[at + OFFSET], records[at + COUNT])
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
    head = carray(pointer(address), (HEADER_SIZE,), np.int64)
    records = _int32(head, RECORDS)
    at = RECORD_SIZE * record
    records[at + OFFSET] = offset
    records[at + COUNT] = count
    records[at + DESTINATION] = destination
    _put(head, record)


@kernel
def displace(address: int, record: int) -> None:
    """Take a conjunction away. Its atoms stay where they are, for the caller to free."""
    head = carray(pointer(address), (HEADER_SIZE,), np.int64)
    records = _int32(head, RECORDS)
    links = _int32(head, BLOCK_LINKS)
    live = _word64(head, BLOCK_LIVE)
    at = RECORD_SIZE * record
    cell = records[at + CELL]
    slot = wide(records[at + SLOT])
    if slot < 0:
        cells = _int32(head, CELL_HEAD)
        each = -2 - cells[cell]
        if each == record:
            cells[cell] = -2 - records[at + NEXT]
            return
        while records[RECORD_SIZE * each + NEXT] != record:
            each = records[RECORD_SIZE * each + NEXT]
        records[RECORD_SIZE * each + NEXT] = records[at + NEXT]
        return
    block = slot >> 6
    mask = np.uint64(1) << np.uint64(slot & 63)
    was_full = live[block] == ~np.uint64(0)
    live[block] &= ~mask
    columns = _word64(head, COLUMNS)
    block_columns = _int32(head, BLOCK_COLUMNS)
    used = links[LINKS_SIZE * block + COLUMN_COUNT]
    if live[block] == np.uint64(0):
        for column_at in range(used):
            column = wide(block_columns[BLOCK_LANES_MAX * block + column_at])
            columns[WORDS_PER_COLUMN * column] = np.uint64(head[COLUMNS_FREE])
            head[COLUMNS_FREE] = column
        _unlink(head, cell, block)
        links[LINKS_SIZE * block + AFTER] = head[BLOCKS_FREE]
        head[BLOCKS_FREE] = block
        return
    for column_at in range(used):
        column = wide(block_columns[BLOCK_LANES_MAX * block + column_at])
        for word in range(WORDS_PER_COLUMN):
            columns[WORDS_PER_COLUMN * column + word] &= ~mask
    if was_full:
        _unlink(head, cell, block)
        _link_front(head, cell, block)


@kernel
def _holds(atoms: Array, offset: int, count: int, values: Array, stamps: Array, now: int) -> bool:
    """Whether the event at hand satisfies every atom."""
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        if lane >= 0:
            high = atoms[3 * atom + 2]
            value = values[lane]
            if low <= high:
                if not (value >= low and value <= high):
                    return False
            elif value > high and value < low:
                return False
        elif (stamps[int(low)] == now) != (lane == INSIDE):
            return False
    return True


@kernel
def _match_event(
    head: Array, start: int, pairs: int, cells: int, out: int, unsure: int
) -> tuple[int, int]:
    """Match the event at `start` of the input; appends to the outputs, returns their ends."""
    values = _double(head, VALUES)
    words = _int32(head, WORDS)
    boundaries = _double(head, BOUNDARIES)
    lane_grid = _int32(head, LANE_GRID)
    lane_classes = _int32(head, LANE_CLASSES)
    cell_head = _int32(head, CELL_HEAD)
    stamps = _int64(head, CELL_STAMP)
    records = _int32(head, RECORDS)
    atoms = _double(head, ATOMS)
    live = _word64(head, BLOCK_LIVE)
    links = _int32(head, BLOCK_LINKS)
    block_lanes = _int32(head, BLOCK_LANES)
    block_columns = _int32(head, BLOCK_COLUMNS)
    slots = _int32(head, SLOTS)
    columns = _word64(head, COLUMNS)
    given = _double(head, INPUT)
    visits = _int32(head, VISITS)
    output = _int32(head, OUTPUT)
    unsure_output = _int32(head, UNSURE)
    taken = _int64(head, DESTINATION_STAMP)
    head[SERIAL] += 1
    now = head[SERIAL]

    visits[0] = 0
    visit_count = 1
    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        value = given[at + 1]
        values[lane] = value
        bucket = _bucket(boundaries, lane, value)
        words[lane] = bucket >> 1
        classes = lane_classes[lane]
        width_class = 0
        while classes != 0:
            if classes & 1:
                shift = max(0, width_class - 2)
                base = lane_grid[lane] + CLASS_BASE[width_class]
                first = max(0, bucket + 1 - (1 << width_class)) >> shift
                for grid_cell in range(base + first, base + (bucket >> shift) + 1):
                    if cell_head[grid_cell] != -1:
                        visits[visit_count] = grid_cell
                        visit_count += 1
            classes >>= 1
            width_class += 1
    for at in range(start + 2 * pairs, start + 2 * pairs + cells):
        cell = int(given[at])
        stamps[cell] = now
        visits[visit_count] = cell
        visit_count += 1

    out_start = out
    for visit in range(visit_count):
        first = cell_head[visits[visit]]
        each = -2 - first
        while each >= 0:
            at = RECORD_SIZE * each
            if _holds(atoms, records[at + OFFSET], records[at + COUNT], values, stamps, now):
                destination = records[at + DESTINATION]
                if destination < 0:
                    unsure_output[unsure] = each
                    unsure += 1
                elif taken[destination] != now:
                    taken[destination] = now
                    output[out] = destination
                    out += 1
            each = records[at + NEXT]
        block = first
        while block >= 0:
            alive = live[block]
            base = BLOCK_LANES_MAX * block
            for at in range(base, base + links[LINKS_SIZE * block + COLUMN_COUNT]):
                word = words[block_lanes[at]]
                alive &= ~columns[WORDS_PER_COLUMN * wide(block_columns[at]) + word]
                if alive == np.uint64(0):
                    break
            while alive != np.uint64(0):
                at = SLOT_SIZE * (block * 64 + wide(trailing_zeros(alive)))
                alive &= alive - np.uint64(1)
                if _holds(atoms, slots[at + OFFSET], slots[at + COUNT], values, stamps, now):
                    destination = slots[at + DESTINATION]
                    if destination < 0:
                        unsure_output[unsure] = slots[at + SLOT_RECORD]
                        unsure += 1
                    elif taken[destination] != now:
                        taken[destination] = now
                        output[out] = destination
                        out += 1
            block = links[LINKS_SIZE * block + AFTER]
            if block == first:
                break

    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        values[lane] = np.nan
        words[lane] = ABSENT
    _sort(output, out_start, out)
    return out, unsure


@kernel
def _sort(output: Array, start: int, end: int) -> None:
    if end - start > 32:
        output[start:end].sort()
        return
    for at in range(start + 1, end):
        moving = output[at]
        to = at
        while to > start and output[to - 1] > moving:
            output[to] = output[to - 1]
            to -= 1
        output[to] = moving


@kernel
def match_one(address: int, pairs: int, cells: int) -> int:
    """Match one event; returns how many outputs, and above bit 32 how many unsure ones."""
    head = carray(pointer(address), (HEADER_SIZE,), np.int64)
    out, unsure = _match_event(head, 0, pairs, cells, 0, 0)
    return out | (unsure << 32)


@kernel
def match_many(address: int, first: int, start: int, count: int) -> int:
    """Match events `first` to `count` of the input, the first one lying at `start`.

    Stops early when another event could overrun the outputs; returns how many are matched."""
    head = carray(pointer(address), (HEADER_SIZE,), np.int64)
    counts = _int32(head, COUNTS)
    output_ends = _int64(head, OUTPUT_ENDS)
    unsure_ends = _int64(head, UNSURE_ENDS)
    out, unsure = 0, 0
    for event in range(first, count):
        if (
            out + head[OUTPUT_EVENT_MAX] > head[OUTPUT_CAPACITY]
            or unsure + head[UNSURE_EVENT_MAX] > head[UNSURE_CAPACITY]
        ):
            return event
        pairs = wide(counts[2 * event])
        cells = wide(counts[2 * event + 1])
        out, unsure = _match_event(head, start, pairs, cells, out, unsure)
        output_ends[event] = out
        unsure_ends[event] = unsure
        start += 2 * pairs + cells
    return count


@kernel
def _adapt_boundaries(head: Array, live: Array, count: int) -> None:
    """Cut every lane at quantiles of a sample of the bounds on it."""
    records = _int32(head, RECORDS)
    atoms = _double(head, ATOMS)
    boundaries = _double(head, BOUNDARIES)
    lanes = head[LANES_USED]
    seen = np.zeros(lanes, np.int64)
    sampled = np.zeros(lanes, np.int64)
    sample = np.empty((lanes, SAMPLE), np.float64)
    for sampling in range(2):
        if sampling == 1:
            strides = seen // SAMPLE + 1
            seen[:] = 0
        for at in range(count):
            base = RECORD_SIZE * live[at]
            first = records[base + OFFSET]
            for atom in range(first, first + records[base + COUNT]):
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
        for at in range(BUCKETS - 1):
            boundaries[lane * BOUNDARY_STRIDE + at] = ordered[(at + 1) * size // BUCKETS]


@kernel
def rearrange(address: int, live_address: int, count: int, spare_address: int) -> int:
    """Adapt the buckets to the `count` live conjunctions and place them all anew.

    Conjunctions that share a cell end up next to each other, their atoms as well: these are
    written to the array at `spare_address`, which the caller puts in the place of `ATOMS`.
    Returns how many atoms there are."""
    head = carray(pointer(address), (HEADER_SIZE,), np.int64)
    live = carray(pointer(live_address), (count,), np.int32)
    spare = carray(pointer(spare_address), (UNBOUNDED,), np.float64)
    records = _int32(head, RECORDS)
    atoms = _double(head, ATOMS)
    cell_head = _int32(head, CELL_HEAD)
    _adapt_boundaries(head, live, count)

    _int32(head, LANE_CLASSES)[: head[LANES_USED]] = 0
    cells = head[CELLS_USED]
    position = np.zeros(cells + 1, np.int64)
    for at in range(count):
        base = RECORD_SIZE * live[at]
        cell = _access(head, records[base + OFFSET], records[base + COUNT])
        records[base + CELL] = cell
        position[cell + 1] += 1
    for cell in range(cells):
        position[cell + 1] += position[cell]
        cell_head[cell] = -1
    order = np.empty(count, np.int32)
    for at in range(count):
        cell = records[RECORD_SIZE * live[at] + CELL]
        order[position[cell]] = live[at]
        position[cell] += 1

    head[BLOCKS_USED] = 0
    head[BLOCKS_FREE] = -1
    head[COLUMNS_USED] = 0
    head[COLUMNS_FREE] = -1
    used = 0
    for record in order:
        base = RECORD_SIZE * record
        offset = records[base + OFFSET]
        size = records[base + COUNT]
        for number in range(3 * size):
            spare[3 * used + number] = atoms[3 * offset + number]
        records[base + OFFSET] = used
        used += size
    head[ATOMS] = spare_address
    for record in order:
        _put(head, wide(record))
    return used
