"""Kernels that match events one after the other: for single events and small tables.

Owns the search: an event visits the cells it lies in; in a block, ANDing the columns' rows for
the event's values leaves few survivors, and those are verified exactly on their atoms. Knows
nothing of how conjunctions got where they are.
"""

from __future__ import annotations

import numpy as np

from gravitate.matching.jit import kernel, ruled_in, trailing_zeros
from gravitate.matching.layout import (
    ABSENT,
    AFTER,
    ATOMS,
    BLOCK_COLUMNS,
    BLOCK_LANES,
    BLOCK_LANES_MAX,
    BLOCK_LINKS,
    BLOCK_LIVE,
    BLOCK_SLOTS,
    BLOCK_WORDS,
    BOUNDARIES,
    CELL_HEAD,
    CELL_STAMP,
    CLASS_BASE,
    COLUMN_COUNT,
    COLUMNS,
    COUNT,
    COUNTS,
    DESTINATION,
    DESTINATION_STAMP,
    INPUT,
    INSIDE,
    LANE_CLASSES,
    LANE_GRID,
    LINKS_SIZE,
    NEXT,
    OFFSET,
    OUTPUT,
    OUTPUT_CAPACITY,
    OUTPUT_ENDS,
    OUTPUT_EVENT_MAX,
    RECORD_SIZE,
    RECORDS,
    ROWS,
    SERIAL,
    SLOT_RECORD,
    SLOT_SIZE,
    SLOTS,
    SURVIVORS,
    UNSURE,
    UNSURE_CAPACITY,
    UNSURE_ENDS,
    UNSURE_EVENT_MAX,
    VALUES,
    VISITS,
    Array,
    bucket_of,
    byte,
    double,
    header,
    int32,
    int64,
    wide,
    word64,
)


@kernel
def _holds(head: Array, offset: int, count: int, now: int) -> bool:
    """Whether the event at hand satisfies every atom."""
    atoms = double(head, ATOMS)
    values = double(head, VALUES)
    stamps = int64(head, CELL_STAMP)
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
    values = double(head, VALUES)
    rows = byte(head, ROWS)
    boundaries = double(head, BOUNDARIES)
    lane_grid = int32(head, LANE_GRID)
    lane_classes = int32(head, LANE_CLASSES)
    cell_head = int32(head, CELL_HEAD)
    stamps = int64(head, CELL_STAMP)
    records = int32(head, RECORDS)
    links = int32(head, BLOCK_LINKS)
    slots = int32(head, SLOTS)
    survivors = word64(head, SURVIVORS)
    given = double(head, INPUT)
    visits = int32(head, VISITS)
    output = int32(head, OUTPUT)
    unsure_output = int32(head, UNSURE)
    taken = int64(head, DESTINATION_STAMP)
    head[SERIAL] += 1
    now = head[SERIAL]

    visits[0] = 0
    visit_count = 1
    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        value = given[at + 1]
        values[lane] = value
        bucket = bucket_of(boundaries, lane, value)
        rows[lane] = bucket >> 1
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
            if _holds(head, wide(records[at + OFFSET]), wide(records[at + COUNT]), now):
                destination = records[at + DESTINATION]
                if destination < 0:
                    unsure_output[unsure] = each
                    unsure += 1
                elif taken[destination] != now:
                    taken[destination] = now
                    output[out] = destination
                    out += 1
            each = records[at + NEXT]
        block = wide(first)
        while block >= 0:
            anything = ruled_in(
                head[COLUMNS],
                head[BLOCK_COLUMNS] + 4 * BLOCK_LANES_MAX * block,
                head[BLOCK_LANES] + 4 * BLOCK_LANES_MAX * block,
                wide(links[LINKS_SIZE * block + COLUMN_COUNT]),
                head[ROWS],
                head[BLOCK_LIVE] + 8 * BLOCK_WORDS * block,
                head[SURVIVORS],
            )
            for word in range(BLOCK_WORDS if anything != np.uint64(0) else 0):
                alive = survivors[word]
                while alive != np.uint64(0):
                    slot = BLOCK_SLOTS * block + 64 * word + wide(trailing_zeros(alive))
                    at = SLOT_SIZE * slot
                    alive &= alive - np.uint64(1)
                    if _holds(head, wide(slots[at + OFFSET]), wide(slots[at + COUNT]), now):
                        destination = slots[at + DESTINATION]
                        if destination < 0:
                            unsure_output[unsure] = slots[at + SLOT_RECORD]
                            unsure += 1
                        elif taken[destination] != now:
                            taken[destination] = now
                            output[out] = destination
                            out += 1
            block = wide(links[LINKS_SIZE * block + AFTER])
            if block == first:
                break

    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        values[lane] = np.nan
        rows[lane] = ABSENT
    sort(output, out_start, out)
    return out, unsure


@kernel
def sort(output: Array, start: int, end: int) -> None:
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
    head = header(address)
    out, unsure = _match_event(head, 0, pairs, cells, 0, 0)
    return out | (unsure << 32)


@kernel
def match_many(address: int, first: int, start: int, count: int) -> int:
    """Match events `first` to `count` of the input, the first one lying at `start`.

    Stops early when another event could overrun the outputs; returns how many are matched."""
    head = header(address)
    counts = int32(head, COUNTS)
    output_ends = int64(head, OUTPUT_ENDS)
    unsure_ends = int64(head, UNSURE_ENDS)
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
