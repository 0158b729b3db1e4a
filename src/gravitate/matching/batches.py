"""Kernel that matches a batch of events against a large table, block by block.

Owns the search in the order that caches like: events are first distributed over the cells they
visit; then each visited block is read once and all its visitors are tried on it while its
columns are at hand; at last the hits are put back in the order of events. The answers are those
of `searching`, which is quicker for single events and for tables that fit a cache.
"""

from __future__ import annotations

import numpy as np

from gravitate.matching import layout as lay
from gravitate.matching.jit import kernel, prefetch, ruled_in, trailing_zeros
from gravitate.matching.layout import Array, wide
from gravitate.matching.searching import sort, visit_grid

OVERFLOW = -1
CANDIDATES_MAX = 512


@kernel
def _distribute(head: Array, count: int) -> int:
    """Write the events' rows and chain them to the cells they visit; returns how many cells."""
    counts = lay.int32(head, lay.COUNTS)
    given = lay.double(head, lay.INPUT)
    starts = lay.int64(head, lay.CELL_START)
    values = lay.double(head, lay.EVENT_VALUES)
    rows = lay.byte(head, lay.EVENT_ROWS)
    boundaries = lay.double(head, lay.BOUNDARIES)
    cell_head = lay.int32(head, lay.CELL_HEAD)
    stamps = lay.int64(head, lay.CELL_STAMP)
    chains = lay.int32(head, lay.CELL_CHAIN)
    visit_event = lay.int32(head, lay.VISIT_EVENT)
    visit_next = lay.int32(head, lay.VISIT_NEXT)
    touched = lay.int32(head, lay.VISITS)
    lanes = head[lay.LANES_USED]
    head[lay.SERIAL] += 1
    now = head[lay.SERIAL]
    touched_count, visit, position = 0, 0, 0
    for event in range(count):
        row = event * lanes
        for lane in range(row, row + lanes):
            values[lane] = np.nan
            rows[lane] = lay.ABSENT
        # The cells that it visits stand where its links in their chains will.
        begin = visit
        if cell_head[0] != -1:
            visit_next[visit] = 0
            visit += 1
        end = position + 2 * counts[2 * event]
        while position < end:
            lane = int(given[position])
            value = given[position + 1]
            position += 2
            bucket = lay.bucket_of(boundaries, lane, value)
            values[row + lane] = value
            rows[row + lane] = bucket >> 1
            visit = visit_grid(head, lane, bucket, visit_next, visit)
        starts[event] = position
        end = position + counts[2 * event + 1]
        while position < end:
            cell = int(given[position])
            position += 1
            if cell_head[cell] != -1:
                visit_next[visit] = cell
                visit += 1
        for each in range(begin, visit):
            cell = visit_next[each]
            if stamps[cell] != now:
                stamps[cell] = now
                chains[cell] = -1
                touched[touched_count] = cell
                touched_count += 1
            visit_event[each] = event
            visit_next[each] = chains[cell]
            chains[cell] = each
    return touched_count


@kernel
def _holds(head: Array, offset: int, count: int, row: int, start: int, end: int, via: int) -> bool:
    """Whether an event that visits cell `via` satisfies every atom.

    The event's lanes are at `row`, its cells from `start` to `end` of the input."""
    atoms = lay.double(head, lay.ATOMS)
    values = lay.double(head, lay.EVENT_VALUES)
    given = lay.double(head, lay.INPUT)
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
        elif lane == lay.INSIDE and int(low) == via:
            continue
        else:
            inside = False
            for at in range(start, end):
                if given[at] == low:
                    inside = True
                    break
            if inside != (lane == lay.INSIDE):
                return False
    return True


@kernel
def _search(head: Array, touched_count: int, count: int) -> int:
    """Try every visited block on its visitors; returns how many hits, or OVERFLOW."""
    counts = lay.int32(head, lay.COUNTS)
    starts = lay.int64(head, lay.CELL_START)
    cell_head = lay.int32(head, lay.CELL_HEAD)
    chains = lay.int32(head, lay.CELL_CHAIN)
    visit_event = lay.int32(head, lay.VISIT_EVENT)
    visit_next = lay.int32(head, lay.VISIT_NEXT)
    touched = lay.int32(head, lay.VISITS)
    records = lay.int32(head, lay.RECORDS)
    links = lay.int32(head, lay.BLOCK_LINKS)
    slots = lay.int32(head, lay.SLOTS)
    survivors = lay.word64(head, lay.SURVIVORS)
    hit_event = lay.int32(head, lay.HIT_EVENT)
    hit_code = lay.int32(head, lay.HIT_CODE)
    lanes = head[lay.LANES_USED]
    capacity = head[lay.HITS_CAPACITY]
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
            at = lay.RECORD_SIZE * each
            code = wide(records[at + lay.DESTINATION])
            if code < 0:
                code = -1 - each
            offset, size = wide(records[at + lay.OFFSET]), wide(records[at + lay.COUNT])
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
            each = records[at + lay.NEXT]
        block = wide(first)
        while block >= 0:
            used = wide(links[lay.LINKS_SIZE * block + lay.COLUMN_COUNT])
            visitor = 0
            while visitor < visitor_count:
                # Survivors are far apart in memory: all are asked for before the first is read.
                candidates = 0
                while visitor < visitor_count and candidates <= CANDIDATES_MAX - lay.BLOCK_SLOTS:
                    event = visitors[visitor]
                    visitor += 1
                    anything = ruled_in(
                        head[lay.COLUMNS],
                        head[lay.BLOCK_COLUMNS] + 4 * lay.BLOCK_LANES_MAX * block,
                        head[lay.BLOCK_LANES] + 4 * lay.BLOCK_LANES_MAX * block,
                        used,
                        head[lay.EVENT_ROWS] + event * lanes,
                        head[lay.BLOCK_LIVE] + 8 * lay.BLOCK_WORDS * block,
                        head[lay.SURVIVORS],
                    )
                    if anything == np.uint64(0):
                        continue
                    for word in range(lay.BLOCK_WORDS):
                        alive = survivors[word]
                        while alive != np.uint64(0):
                            slot = lay.BLOCK_SLOTS * block + 64 * word + wide(trailing_zeros(alive))
                            alive &= alive - np.uint64(1)
                            candidate_event[candidates] = event
                            candidate_slot[candidates] = lay.SLOT_SIZE * slot
                            prefetch(head[lay.SLOTS] + 4 * lay.SLOT_SIZE * slot)
                            candidates += 1
                if hits + candidates > capacity:
                    return OVERFLOW
                for candidate in range(candidates):
                    place = head[lay.ATOMS] + 24 * wide(
                        slots[candidate_slot[candidate] + lay.OFFSET]
                    )
                    prefetch(place)
                    prefetch(place + 64)
                for candidate in range(candidates):
                    event = candidate_event[candidate]
                    slot = candidate_slot[candidate]
                    offset, size = wide(slots[slot + lay.OFFSET]), wide(slots[slot + lay.COUNT])
                    start = starts[event]
                    end = start + counts[2 * event + 1]
                    if _holds(head, offset, size, event * lanes, start, end, wide(cell)):
                        code = wide(slots[slot + lay.DESTINATION])
                        if code < 0:
                            code = -1 - wide(slots[slot + lay.SLOT_RECORD])
                        hit_event[hits] = event
                        hit_code[hits] = code
                        hits += 1
            block = wide(links[lay.LINKS_SIZE * block + lay.AFTER])
            if block == first:
                break
    return hits


@kernel
def _gather(head: Array, hits: int, count: int) -> None:
    """Put the hits in the order of events, each destination once and ascending."""
    hit_event = lay.int32(head, lay.HIT_EVENT)
    hit_code = lay.int32(head, lay.HIT_CODE)
    order = lay.int32(head, lay.HIT_ORDER)
    output = lay.int32(head, lay.OUTPUT)
    output_ends = lay.int64(head, lay.OUTPUT_ENDS)
    unsure_output = lay.int32(head, lay.UNSURE)
    unsure_ends = lay.int64(head, lay.UNSURE_ENDS)
    taken = lay.int64(head, lay.DESTINATION_STAMP)
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
        head[lay.SERIAL] += 1
        now = head[lay.SERIAL]
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
    head = lay.header(address)
    touched_count = _distribute(head, count)
    hits = _search(head, touched_count, count)
    if hits != OVERFLOW:
        _gather(head, hits, count)
    return hits
