"""Kernel that matches a batch of events against a large table, block by block.

Owns the search in the order that caches like: events are first distributed over the cells they
visit; then each visited block is read once and all its visitors are tried on it while its
columns are at hand; at last the hits are put back in the order of events. The answers are those
of `searching`, which is quicker for single events and for tables that fit a cache.
"""

from __future__ import annotations

import numpy as np

from gravitate.matching.jit import kernel, prefetch, ruled_in, trailing_zeros
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
    CELL_CHAIN,
    CELL_HEAD,
    CELL_STAMP,
    CELL_START,
    CLASS_BASE,
    COLUMN_COUNT,
    COLUMNS,
    COUNT,
    COUNTS,
    DESTINATION,
    DESTINATION_STAMP,
    EVENT_ROWS,
    EVENT_VALUES,
    HIT_CODE,
    HIT_EVENT,
    HIT_ORDER,
    HITS_CAPACITY,
    INPUT,
    INSIDE,
    LANE_CLASSES,
    LANE_GRID,
    LANES_USED,
    LINKS_SIZE,
    NEXT,
    OFFSET,
    OUTPUT,
    OUTPUT_ENDS,
    RECORD_SIZE,
    RECORDS,
    SERIAL,
    SLOT_RECORD,
    SLOT_SIZE,
    SLOTS,
    SURVIVORS,
    UNSURE,
    UNSURE_ENDS,
    VISIT_EVENT,
    VISIT_NEXT,
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
from gravitate.matching.searching import sort

OVERFLOW = -1
CANDIDATES_MAX = 512


@kernel
def _distribute(head: Array, count: int) -> int:
    """Write the events' rows and chain them to the cells they visit; returns how many cells."""
    counts = int32(head, COUNTS)
    given = double(head, INPUT)
    starts = int64(head, CELL_START)
    values = double(head, EVENT_VALUES)
    rows = byte(head, EVENT_ROWS)
    boundaries = double(head, BOUNDARIES)
    lane_grid = int32(head, LANE_GRID)
    lane_classes = int32(head, LANE_CLASSES)
    cell_head = int32(head, CELL_HEAD)
    stamps = int64(head, CELL_STAMP)
    chains = int32(head, CELL_CHAIN)
    visit_event = int32(head, VISIT_EVENT)
    visit_next = int32(head, VISIT_NEXT)
    touched = int32(head, VISITS)
    lanes = head[LANES_USED]
    head[SERIAL] += 1
    now = head[SERIAL]
    touched_count, visit = 0, 0
    if cell_head[0] != -1:
        touched[0] = 0
        touched_count = 1
        stamps[0] = now
        chains[0] = -1
        for event in range(count):
            visit_event[visit] = event
            visit_next[visit] = chains[0]
            chains[0] = visit
            visit += 1
    position = 0
    for event in range(count):
        row = event * lanes
        for lane in range(row, row + lanes):
            values[lane] = np.nan
            rows[lane] = ABSENT
        end = position + 2 * counts[2 * event]
        while position < end:
            lane = int(given[position])
            value = given[position + 1]
            position += 2
            bucket = bucket_of(boundaries, lane, value)
            values[row + lane] = value
            rows[row + lane] = bucket >> 1
            classes = lane_classes[lane]
            width_class = 0
            while classes != 0:
                if classes & 1:
                    shift = max(0, width_class - 2)
                    base = lane_grid[lane] + CLASS_BASE[width_class]
                    first = max(0, bucket + 1 - (1 << width_class)) >> shift
                    for cell in range(base + first, base + (bucket >> shift) + 1):
                        if cell_head[cell] != -1:
                            if stamps[cell] != now:
                                stamps[cell] = now
                                chains[cell] = -1
                                touched[touched_count] = cell
                                touched_count += 1
                            visit_event[visit] = event
                            visit_next[visit] = chains[cell]
                            chains[cell] = visit
                            visit += 1
                classes >>= 1
                width_class += 1
        starts[event] = position
        end = position + counts[2 * event + 1]
        while position < end:
            cell = int(given[position])
            position += 1
            if cell_head[cell] != -1:
                if stamps[cell] != now:
                    stamps[cell] = now
                    chains[cell] = -1
                    touched[touched_count] = cell
                    touched_count += 1
                visit_event[visit] = event
                visit_next[visit] = chains[cell]
                chains[cell] = visit
                visit += 1
    return touched_count


@kernel
def _holds(head: Array, offset: int, count: int, row: int, start: int, end: int, via: int) -> bool:
    """Whether an event that visits cell `via` satisfies every atom.

    The event's lanes are at `row`, its cells from `start` to `end` of the input."""
    atoms = double(head, ATOMS)
    values = double(head, EVENT_VALUES)
    given = double(head, INPUT)
    for atom in range(offset, offset + count):
        lane = int(atoms[3 * atom])
        low = atoms[3 * atom + 1]
        if lane >= 0:
            high = atoms[3 * atom + 2]
            value = values[row + lane]
            if low <= high:
                if not (value >= low and value <= high):
                    return False
            elif value > high and value < low:
                return False
        elif lane == INSIDE and int(low) == via:
            continue
        else:
            inside = False
            for at in range(start, end):
                if given[at] == low:
                    inside = True
                    break
            if inside != (lane == INSIDE):
                return False
    return True


@kernel
def _search(head: Array, touched_count: int, count: int) -> int:
    """Try every visited block on its visitors; returns how many hits, or OVERFLOW."""
    counts = int32(head, COUNTS)
    starts = int64(head, CELL_START)
    cell_head = int32(head, CELL_HEAD)
    chains = int32(head, CELL_CHAIN)
    visit_event = int32(head, VISIT_EVENT)
    visit_next = int32(head, VISIT_NEXT)
    touched = int32(head, VISITS)
    records = int32(head, RECORDS)
    links = int32(head, BLOCK_LINKS)
    slots = int32(head, SLOTS)
    survivors = word64(head, SURVIVORS)
    hit_event = int32(head, HIT_EVENT)
    hit_code = int32(head, HIT_CODE)
    lanes = head[LANES_USED]
    capacity = head[HITS_CAPACITY]
    visitors = np.empty(count, np.int64)
    candidate_event = np.empty(CANDIDATES_MAX, np.int64)
    candidate_slot = np.empty(CANDIDATES_MAX, np.int64)
    hits = 0
    for each_cell in range(touched_count):
        cell = touched[each_cell]
        first = cell_head[cell]
        visitor_count = 0
        visit = chains[cell]
        while visit >= 0:
            visitors[visitor_count] = visit_event[visit]
            visitor_count += 1
            visit = visit_next[visit]
        each = -2 - first
        while each >= 0:
            at = RECORD_SIZE * each
            code = wide(records[at + DESTINATION])
            if code < 0:
                code = -1 - each
            offset, size = wide(records[at + OFFSET]), wide(records[at + COUNT])
            if hits + visitor_count > capacity:
                return OVERFLOW
            for visitor in range(visitor_count):
                event = visitors[visitor]
                start = starts[event]
                end = start + counts[2 * event + 1]
                if _holds(head, offset, size, event * lanes, start, end, wide(cell)):
                    hit_event[hits] = event
                    hit_code[hits] = code
                    hits += 1
            each = records[at + NEXT]
        block = wide(first)
        while block >= 0:
            used = wide(links[LINKS_SIZE * block + COLUMN_COUNT])
            visitor = 0
            while visitor < visitor_count:
                # Survivors are far apart in memory: all are asked for before the first is read.
                candidates = 0
                while visitor < visitor_count and candidates <= CANDIDATES_MAX - BLOCK_SLOTS:
                    event = visitors[visitor]
                    visitor += 1
                    anything = ruled_in(
                        head[COLUMNS],
                        head[BLOCK_COLUMNS] + 4 * BLOCK_LANES_MAX * block,
                        head[BLOCK_LANES] + 4 * BLOCK_LANES_MAX * block,
                        used,
                        head[EVENT_ROWS] + event * lanes,
                        head[BLOCK_LIVE] + 8 * BLOCK_WORDS * block,
                        head[SURVIVORS],
                    )
                    if anything == np.uint64(0):
                        continue
                    for word in range(BLOCK_WORDS):
                        alive = survivors[word]
                        while alive != np.uint64(0):
                            slot = BLOCK_SLOTS * block + 64 * word + wide(trailing_zeros(alive))
                            alive &= alive - np.uint64(1)
                            candidate_event[candidates] = event
                            candidate_slot[candidates] = SLOT_SIZE * slot
                            prefetch(head[SLOTS] + 4 * SLOT_SIZE * slot)
                            candidates += 1
                if hits + candidates > capacity:
                    return OVERFLOW
                for candidate in range(candidates):
                    place = head[ATOMS] + 24 * wide(slots[candidate_slot[candidate] + OFFSET])
                    prefetch(place)
                    prefetch(place + 64)
                for candidate in range(candidates):
                    event = candidate_event[candidate]
                    slot = candidate_slot[candidate]
                    offset, size = wide(slots[slot + OFFSET]), wide(slots[slot + COUNT])
                    start = starts[event]
                    end = start + counts[2 * event + 1]
                    if _holds(head, offset, size, event * lanes, start, end, wide(cell)):
                        code = wide(slots[slot + DESTINATION])
                        if code < 0:
                            code = -1 - wide(slots[slot + SLOT_RECORD])
                        hit_event[hits] = event
                        hit_code[hits] = code
                        hits += 1
            block = wide(links[LINKS_SIZE * block + AFTER])
            if block == first:
                break
    return hits


@kernel
def _gather(head: Array, hits: int, count: int) -> None:
    """Put the hits in the order of events, each destination once and ascending."""
    hit_event = int32(head, HIT_EVENT)
    hit_code = int32(head, HIT_CODE)
    order = int32(head, HIT_ORDER)
    output = int32(head, OUTPUT)
    output_ends = int64(head, OUTPUT_ENDS)
    unsure_output = int32(head, UNSURE)
    unsure_ends = int64(head, UNSURE_ENDS)
    taken = int64(head, DESTINATION_STAMP)
    position = np.zeros(count + 1, np.int64)
    for hit in range(hits):
        position[hit_event[hit] + 1] += 1
    for event in range(count):
        position[event + 1] += position[event]
    for hit in range(hits):
        event = hit_event[hit]
        order[position[event]] = hit_code[hit]
        position[event] += 1
    out, unsure, begin = 0, 0, 0
    for event in range(count):
        head[SERIAL] += 1
        now = head[SERIAL]
        out_begin = out
        for at in range(begin, position[event]):
            code = order[at]
            if code < 0:
                unsure_output[unsure] = -1 - code
                unsure += 1
            elif taken[code] != now:
                taken[code] = now
                output[out] = code
                out += 1
        begin = position[event]
        sort(output, out_begin, out)
        output_ends[event] = out
        unsure_ends[event] = unsure


@kernel
def match_batch(address: int, count: int) -> int:
    """Match the first `count` events of the input; OVERFLOW when the room for hits is too small.

    Both outputs need as much room as the hits."""
    head = header(address)
    touched_count = _distribute(head, count)
    hits = _search(head, touched_count, count)
    if hits != OVERFLOW:
        _gather(head, hits, count)
    return hits
