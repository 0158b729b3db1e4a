"""Kernels that match events one after the other: for single events and small tables.

Owns the search: an event visits the cells it lies in; in a block, ANDing the columns' rows for
the event's values leaves few survivors, and those are verified exactly on their atoms. Knows
nothing of how conjunctions got where they are.
"""

from __future__ import annotations

import numpy as np

from gravitate.matching import layout as lay
from gravitate.matching.jit import kernel, ruled_in, trailing_zeros
from gravitate.matching.layout import CLASS_BASE, Array, wide


@kernel
def _holds(head: Array, offset: int, count: int, now: int) -> bool:
    """Whether the event at hand satisfies every atom."""
    atoms = lay.double(head, lay.ATOMS)
    values = lay.double(head, lay.VALUES)
    stamps = lay.int64(head, lay.CELL_STAMP)
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
        elif (stamps[int(low)] == now) != (lane == lay.INSIDE):
            return False
    return True


@kernel
def visit_grid(head: Array, lane: int, bucket: int, visits: Array, count: int) -> int:
    """Append the grid cells that a value in a lane's bucket visits; returns the new count."""
    cell_head = lay.int32(head, lay.CELL_HEAD)
    grid = lay.int32(head, lay.LANE_GRID)[lane]
    classes = lay.int32(head, lay.LANE_CLASSES)[lane]
    width_class = 0
    while classes != 0:
        if classes & 1:
            shift = max(0, width_class - 2)
            base = grid + CLASS_BASE[width_class]
            first = max(0, bucket + 1 - (1 << width_class)) >> shift
            for cell in range(base + first, base + (bucket >> shift) + 1):
                if cell_head[cell] != -1:
                    visits[count] = cell
                    count += 1
        classes >>= 1
        width_class += 1
    return count


@kernel
def _match_event(
    head: Array, start: int, pairs: int, cells: int, out: int, unsure: int
) -> tuple[int, int]:
    """Match the event at `start` of the input; appends to the outputs, returns their ends."""
    values = lay.double(head, lay.VALUES)
    rows = lay.byte(head, lay.ROWS)
    boundaries = lay.double(head, lay.BOUNDARIES)
    cell_head = lay.int32(head, lay.CELL_HEAD)
    stamps = lay.int64(head, lay.CELL_STAMP)
    records = lay.int32(head, lay.RECORDS)
    links = lay.int32(head, lay.BLOCK_LINKS)
    slots = lay.int32(head, lay.SLOTS)
    survivors = lay.word64(head, lay.SURVIVORS)
    given = lay.double(head, lay.INPUT)
    visits = lay.int32(head, lay.VISITS)
    output = lay.int32(head, lay.OUTPUT)
    unsure_output = lay.int32(head, lay.UNSURE)
    taken = lay.int64(head, lay.DESTINATION_STAMP)
    head[lay.SERIAL] += 1
    now = head[lay.SERIAL]

    visits[0] = 0
    visit_count = 1
    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        value = given[at + 1]
        values[lane] = value
        bucket = lay.bucket_of(boundaries, lane, value)
        rows[lane] = bucket >> 1
        visit_count = visit_grid(head, lane, bucket, visits, visit_count)
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
            at = lay.RECORD_SIZE * each
            if _holds(head, wide(records[at + lay.OFFSET]), wide(records[at + lay.COUNT]), now):
                destination = records[at + lay.DESTINATION]
                if destination < 0:
                    unsure_output[unsure] = each
                    unsure += 1
                elif taken[destination] != now:
                    taken[destination] = now
                    output[out] = destination
                    out += 1
            each = records[at + lay.NEXT]
        block = wide(first)
        while block >= 0:
            anything = ruled_in(
                head[lay.COLUMNS],
                head[lay.BLOCK_COLUMNS] + 4 * lay.BLOCK_LANES_MAX * block,
                head[lay.BLOCK_LANES] + 4 * lay.BLOCK_LANES_MAX * block,
                wide(links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT]),
                head[lay.ROWS],
                head[lay.BLOCK_LIVE] + 8 * lay.BLOCK_WORDS * block,
                head[lay.SURVIVORS],
            )
            for word in range(lay.BLOCK_WORDS if anything != np.uint64(0) else 0):
                alive = survivors[word]
                while alive != np.uint64(0):
                    slot = lay.BLOCK_SLOTS * block + 64 * word + wide(trailing_zeros(alive))
                    at = lay.SLOT_SIZE * slot
                    alive &= alive - np.uint64(1)
                    if _holds(head, wide(slots[at + lay.OFFSET]), wide(slots[at + lay.COUNT]), now):
                        destination = slots[at + lay.DESTINATION]
                        if destination < 0:
                            unsure_output[unsure] = slots[at + lay.SLOT_RECORD]
                            unsure += 1
                        elif taken[destination] != now:
                            taken[destination] = now
                            output[out] = destination
                            out += 1
            block = wide(links[lay.LINKS_SIZE * block + lay.AFTER])
            if block == first:
                break

    for at in range(start, start + 2 * pairs, 2):
        lane = int(given[at])
        values[lane] = np.nan
        rows[lane] = lay.ABSENT
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
    head = lay.header(address)
    out, unsure = _match_event(head, 0, pairs, cells, 0, 0)
    return out | (unsure << 32)


@kernel
def match_many(address: int, first: int, start: int, count: int) -> int:
    """Match events `first` to `count` of the input, the first one lying at `start`.

    Stops early when another event could overrun the outputs; returns how many are matched."""
    head = lay.header(address)
    counts = lay.int32(head, lay.COUNTS)
    output_ends = lay.int64(head, lay.OUTPUT_ENDS)
    unsure_ends = lay.int64(head, lay.UNSURE_ENDS)
    out, unsure = 0, 0
    for event in range(first, count):
        if (
            out + head[lay.OUTPUT_EVENT_MAX] > head[lay.OUTPUT_CAPACITY]
            or unsure + head[lay.UNSURE_EVENT_MAX] > head[lay.UNSURE_CAPACITY]
        ):
            return event
        pairs = wide(counts[2 * event])
        cells = wide(counts[2 * event + 1])
        out, unsure = _match_event(head, start, pairs, cells, out, unsure)
        output_ends[event] = out
        unsure_ends[event] = unsure
        start += 2 * pairs + cells
    return count
