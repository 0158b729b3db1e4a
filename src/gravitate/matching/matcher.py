"""The matcher: which destinations want an event.

Owns the live set of filters of one table and its representation: filters become conjunctions,
conjunctions become records and atoms in an arena, kernels search them. It does not know what a
key or a destination stands for; both are small integers of the caller's.

Adding and removing take constant time, apart from the growth of arrays and from *rearranging*:
after three times as many additions as there were conjunctions the last time, the buckets are cut
anew at the bounds now alive and everything is placed again. Answers never depend on that, nor on
the order of additions and removals.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from gravitate.matching import arena as arenas
from gravitate.matching import batches, layout, placing, rearranging, searching
from gravitate.matching.arena import Arena
from gravitate.matching.conjunctions import Remainder, compile_conjunction, release
from gravitate.matching.vocabulary import Vocabulary
from gravitate.model.events import Attributes
from gravitate.model.filters import Filter, Op, Predicate

_VISITS_PER_PAIR = 32
_REARRANGE_FROM = 64
_EVENTS_AT_ONCE = 2048
_EVENT_LANES_AT_ONCE = 1 << 16
_BLOCKWISE_FROM = 4096
_OUTPUT_FROM = 1 << 12
_HITS_MAX = 1 << 23


class Matcher:
    """A set of (key, filter, destination); answers the destinations of events."""

    def __init__(self) -> None:
        self.version = 0
        self._arena = Arena()
        self._vocabulary = Vocabulary(self._arena)
        self._records: dict[Hashable, tuple[int, ...]] = {}
        self._record_count = 0
        self._records_used = 0
        self._records_free: list[int] = []
        self._atoms_used = 0
        self._atoms_free: dict[int, list[int]] = {}
        self._remainders: dict[int, tuple[Remainder, int]] = {}
        self._additions_left = _REARRANGE_FROM
        self._attributes: frozenset[str] | None = frozenset()
        self._destinations_max = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def attributes(self) -> frozenset[str]:
        """The names some live filter refers to."""
        if self._attributes is None:
            self._attributes = frozenset(self._vocabulary.attributes)
        return self._attributes

    def add(self, key: Hashable, filter: Filter, destination: int) -> None:
        """Add a filter under a key that is not in use."""
        assert key not in self._records, f"key {key} is in use"
        assert destination >= 0, destination
        names = len(self._vocabulary.attributes)
        records = []
        for conjunction in filter.conjunctions:
            compiled = compile_conjunction(conjunction, self._vocabulary)
            if compiled is not None:
                records.append(self._enter(compiled.atoms, compiled.remainder, destination))
        self._records[key] = tuple(records)
        self.version += 1
        if len(self._vocabulary.attributes) != names:
            self._attributes = None
        if self._additions_left <= 0:
            self._rearrange()

    def remove(self, key: Hashable) -> None:
        """Remove the filter under `key`."""
        names = len(self._vocabulary.attributes)
        for record in self._records.pop(key):
            self._leave(record)
        self.version += 1
        if len(self._vocabulary.attributes) != names:
            self._attributes = None

    def match(self, events: Sequence[Attributes]) -> list[tuple[int, ...]]:
        """Per event the destinations of the filters it matches, ascending, each once."""
        if len(events) == 1:
            return [self._match_one(events[0])]
        answers: list[tuple[int, ...]] = []
        lanes = self._arena.counters[layout.LANES_USED]
        at_once = max(64, min(_EVENTS_AT_ONCE, _EVENT_LANES_AT_ONCE // (lanes + 1)))
        for start in range(0, len(events), at_once):
            self._match_many(events[start : start + at_once], answers)
        return answers

    def _match_one(self, event: Attributes) -> tuple[int, ...]:
        arena = self._arena
        flat: list[float] = []
        pairs, cells = self._vocabulary.encode(event, flat)
        size = len(flat)
        if size > arena.capacity[arenas.INPUT] or size * 16 > arena.capacity[arenas.VISITS]:
            arena.reserve(arenas.INPUT, size)
            arena.reserve(arenas.VISITS, _VISITS_PER_PAIR * size)
        _doubles(size).pack_into(arena.views[layout.INPUT], 0, *flat)
        found = searching.match_one(arena.address, pairs, cells)
        if found < 1 << 32:
            return _ints(found).unpack_from(arena.views[layout.OUTPUT])
        sure = _ints(found & 0xFFFFFFFF).unpack_from(arena.views[layout.OUTPUT])
        unsure = _ints(found >> 32).unpack_from(arena.views[layout.UNSURE])
        return self._verified(event, sure, unsure)

    def _match_many(
        self,
        events: Sequence[Attributes],
        answers: list[tuple[int, ...]],
        blockwise_from: int = _BLOCKWISE_FROM,
    ) -> None:
        """Match a chunk of events and append their answers."""
        arena = self._arena
        flat: list[float] = []
        counts: list[int] = []
        encode = self._vocabulary.encode
        for event in events:
            counts += encode(event, flat)
        count = len(events)
        arena.reserve(arenas.INPUT, len(flat))
        arena.reserve(arenas.EVENTS, count)
        arena.reserve(arenas.VISITS, _VISITS_PER_PAIR * len(flat) + count + 1)
        struct.pack_into(f"{len(flat)}d", arena.views[layout.INPUT], 0, *flat)
        struct.pack_into(f"{len(counts)}i", arena.views[layout.COUNTS], 0, *counts)
        if self._record_count < blockwise_from or not self._match_blockwise(events, answers):
            self._match_in_turn(events, counts, answers)

    def _match_blockwise(
        self, events: Sequence[Attributes], answers: list[tuple[int, ...]]
    ) -> bool:
        """Match the encoded events block by block; False when there are too many hits for it."""
        arena = self._arena
        arena.reserve(arenas.ROWS, len(events) * int(arena.header[layout.LANES_USED]))
        room = max(arena.capacity[arenas.HITS], 64 * len(events))
        while room <= _HITS_MAX:
            arena.reserve(arenas.HITS, room)
            room = arena.capacity[arenas.HITS]
            arena.reserve(arenas.OUTPUT, room)
            arena.reserve(arenas.UNSURE, room)
            arena.header[layout.HITS_CAPACITY] = room
            if batches.match_batch(arena.address, len(events)) != batches.OVERFLOW:
                self._collect(events, 0, len(events), answers)
                return True
            room *= 4
        return False

    def _match_in_turn(
        self, events: Sequence[Attributes], counts: list[int], answers: list[tuple[int, ...]]
    ) -> None:
        """Match the encoded events one after the other."""
        arena = self._arena
        count = len(events)
        arena.reserve(arenas.OUTPUT, max(_OUTPUT_FROM, self._destinations_max))
        arena.reserve(arenas.UNSURE, max(_OUTPUT_FROM, len(self._remainders)))
        arena.header[layout.OUTPUT_CAPACITY] = arena.capacity[arenas.OUTPUT]
        arena.header[layout.UNSURE_CAPACITY] = arena.capacity[arenas.UNSURE]
        first, start = 0, 0
        while first < count:
            done = searching.match_many(arena.address, first, start, count)
            self._collect(events, first, done, answers)
            if done < count:
                for event in range(first, done):
                    start += 2 * counts[2 * event] + counts[2 * event + 1]
            first = done

    def _collect(
        self, events: Sequence[Attributes], first: int, done: int, answers: list[tuple[int, ...]]
    ) -> None:
        """Append the outputs of events `first` to `done`."""
        arrays = self._arena.arrays
        ends = arrays[layout.OUTPUT_ENDS][first:done].tolist()
        unsure_ends = arrays[layout.UNSURE_ENDS][first:done].tolist()
        output = arrays[layout.OUTPUT][: ends[-1]].tolist()
        begin = 0
        if unsure_ends[-1] == 0:
            for end in ends:
                answers.append(tuple(output[begin:end]))
                begin = end
            return
        unsure = arrays[layout.UNSURE][: unsure_ends[-1]].tolist()
        unsure_begin = 0
        for event, end, unsure_end in zip(events[first:done], ends, unsure_ends, strict=True):
            sure = tuple(output[begin:end])
            answers.append(self._verified(event, sure, unsure[unsure_begin:unsure_end]))
            begin, unsure_begin = end, unsure_end

    def _verified(
        self, event: Attributes, sure: tuple[int, ...], unsure: Sequence[int]
    ) -> tuple[int, ...]:
        """What the kernel is sure of, and the unsure records whose remainder holds."""
        wanted = set(sure)
        for record in unsure:
            remainder, destination = self._remainders[record]
            if destination not in wanted and remainder.holds(event):
                wanted.add(destination)
        return tuple(sorted(wanted))

    def _enter(self, atoms: list[float], remainder: Remainder | None, destination: int) -> int:
        arena = self._arena
        count = len(atoms) // 3
        record = self._new_record()
        offset = self._new_atoms(count)
        _doubles(3 * count).pack_into(arena.views[layout.ATOMS], 24 * offset, *atoms)
        self._reserve_destination(destination)
        code = destination
        if remainder is not None:
            self._remainders[record] = (remainder, destination)
            arena.header[layout.UNSURE_EVENT_MAX] = len(self._remainders)
            arena.reserve(arenas.UNSURE, len(self._remainders))
            code = -1 - destination
        counters = arena.counters
        if counters[layout.BLOCKS_USED] + 1 > arena.capacity[arenas.BLOCKS]:
            arena.reserve(arenas.BLOCKS, counters[layout.BLOCKS_USED] + 1)
        if counters[layout.COLUMNS_USED] + 16 > arena.capacity[arenas.COLUMNS]:
            arena.reserve(arenas.COLUMNS, counters[layout.COLUMNS_USED] + 16)
        placing.place(arena.address, record, offset, count, code)
        self._record_count += 1
        self._additions_left -= 1
        return record

    def _leave(self, record: int) -> None:
        arena = self._arena
        placing.displace(arena.address, record)
        base = layout.RECORD_SIZE * record
        view = arena.views[layout.RECORDS]
        offset, count = view[base + layout.OFFSET], view[base + layout.COUNT]
        view[base + layout.COUNT] = -1
        release(
            _doubles(3 * count).unpack_from(arena.views[layout.ATOMS], 24 * offset),
            self._vocabulary,
        )
        if count:
            self._atoms_free.setdefault(count, []).append(offset)
        if view[base + layout.DESTINATION] < 0:
            remainder, _ = self._remainders.pop(record)
            for name in remainder.attributes:
                self._vocabulary.forget(name)
        self._records_free.append(record)
        self._record_count -= 1

    def _new_record(self) -> int:
        if self._records_free:
            return self._records_free.pop()
        self._records_used += 1
        self._arena.reserve(arenas.RECORDS, self._records_used)
        return self._records_used - 1

    def _new_atoms(self, count: int) -> int:
        free = self._atoms_free.get(count)
        if free:
            return free.pop()
        offset = self._atoms_used
        self._atoms_used += count
        self._arena.reserve(arenas.ATOMS, self._atoms_used)
        return offset

    def _reserve_destination(self, destination: int) -> None:
        if destination >= self._destinations_max:
            self._destinations_max = destination + 1
            self._arena.reserve(arenas.DESTINATIONS, self._destinations_max)
            self._arena.reserve(arenas.OUTPUT, self._destinations_max)
            self._arena.header[layout.OUTPUT_EVENT_MAX] = self._destinations_max

    def _rearrange(self) -> None:
        arena = self._arena
        counts = arena.arrays[layout.RECORDS][: layout.RECORD_SIZE * self._records_used]
        live = np.flatnonzero(counts[layout.COUNT :: layout.RECORD_SIZE] >= 0).astype(np.int32)
        # Only cells past the longest list have blocks.
        blocks = len(live) // layout.LIST_MAX + 1
        arena.reserve(arenas.BLOCKS, blocks)
        lanes = min(int(arena.header[layout.LANES_USED]), layout.BLOCK_LANES_MAX)
        arena.reserve(arenas.COLUMNS, blocks * lanes + layout.BLOCK_LANES_MAX)
        spare = np.zeros(3 * arena.capacity[arenas.ATOMS])
        self._atoms_used = rearranging.rearrange(
            arena.address, live.ctypes.data, len(live), spare.ctypes.data
        )
        self._atoms_free.clear()
        arena.put(layout.ATOMS, spare)
        self._additions_left = 3 * len(live) + _REARRANGE_FROM


def warm() -> None:
    """Compile or load every kernel now, so that no event has to wait for it."""
    matcher = Matcher()
    for key in range(_REARRANGE_FROM):
        matcher.add(key, Filter(((Predicate("x", Op.GE, float(key)),),)), key)
    event = {"x": 1.0}
    matcher.match([event])
    matcher.match([event, event])
    matcher._match_many([event, event], [], blockwise_from=0)
    matcher.remove(0)


@lru_cache(maxsize=512)
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"{count}d")


@lru_cache(maxsize=512)
def _ints(count: int) -> struct.Struct:
    return struct.Struct(f"{count}i")
