"""`bench matching`: the matching engine beside a vectorised numpy scan, on one core.

Owns the workloads and the scan. Every event goes in as a mapping of attributes and comes out as a
tuple of destinations; each subscription has a destination of its own, the hardest case. The scan
holds the same subscriptions as arrays and tests them all for each event; before anything is timed,
its answers and the engine's are compared. Seconds are seconds of the processor.

    ranges-100k, ranges-1m   4 ranges of width 0.1 on 16 attributes, events with all 16
    symbols-100k             one of 500 symbols and 2 ranges of width 0.2
    topics-100k              MQTT patterns with wildcards over 6 million topics of four levels
    single-50, single-2k     one event a call on a small table of symbols and ranges
    add-100k, remove-100k    one by one, from parsed filters (scan: writing and moving rows)
    memory-1m                what the engine holds for ranges-1m
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.matching import Matcher, warm
from gravitate.model.events import TOPIC, Value
from gravitate.model.filters import Filter, Op, Predicate
from gravitate.model.topics import topic_filter

CASES = (
    "ranges-100k",
    "ranges-1m",
    "memory-1m",
    "symbols-100k",
    "topics-100k",
    "single-50",
    "single-2k",
    "add-100k",
    "remove-100k",
)
ATTRIBUTES = tuple(f"a{i:02}" for i in range(16))
SYMBOLS = 500
LEVEL_NAMES = 50
LEVELS = 4
PASSES = 3

Events = list[dict[str, Value]]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Scan:
    """Subscriptions as arrays: ranges on columns and codes that must agree or be wild (-1)."""

    def __init__(self, columns: Ints, low: Floats, high: Floats, codes: Ints) -> None:
        self.columns, self.low, self.high = (
            np.ascontiguousarray(a.T) for a in (columns, low, high)
        )
        self.codes = np.ascontiguousarray(codes.T)

    def match(self, numbers: Floats, codes: Ints) -> list[int]:
        alive = np.ones(self.codes.shape[1], bool)
        for wanted, code in zip(self.codes, codes, strict=True):
            alive &= (wanted == code) | (wanted == -1)
        for column, low, high in zip(self.columns, self.low, self.high, strict=True):
            value = numbers[column]
            alive &= (low <= value) & (value <= high)
        found: list[int] = np.flatnonzero(alive).tolist()
        return found


class Workload:
    """Filters, events, and both in the form that the scan takes."""

    def __init__(self, filters: list[Filter], events: Events, scan: Scan) -> None:
        self.filters = filters
        self.events = events
        self.scan = scan
        self.numbers: list[Floats] = []
        self.codes: list[Ints] = []

    def encode(self, numbers: Floats, codes: Ints) -> Workload:
        """Give the scan its events, which it gets for free."""
        self.numbers, self.codes = list(numbers), list(codes)
        return self


def ranges(count: int, event_count: int, seed: int = 1) -> Workload:
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((count, len(ATTRIBUTES))), axis=1)
    columns = np.sort(order[:, :4], axis=1)
    low = rng.random((count, 4)) * 0.9
    high = low + 0.1
    scan = Scan(columns, low, high, np.empty((count, 0), np.int64))
    numbers = rng.random((event_count, len(ATTRIBUTES)))
    filters = [
        Filter((_intervals([ATTRIBUTES[c] for c in row], lows, highs),))
        for row, lows, highs in zip(columns.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    events: Events = [dict(zip(ATTRIBUTES, row, strict=True)) for row in numbers.tolist()]
    return Workload(filters, events, scan).encode(numbers, np.empty((event_count, 0), np.int64))


def symbols(count: int, event_count: int, seed: int = 2) -> Workload:
    rng = np.random.default_rng(seed)
    symbol = rng.integers(0, SYMBOLS, count)
    low = rng.random((count, 2)) * 0.8
    high = low + 0.2
    columns = np.tile(np.arange(2), (count, 1))
    scan = Scan(columns, low, high, symbol[:, None])
    names = ("price", "volume")
    filters = [
        Filter(((*_intervals(names, lows, highs), Predicate("symbol", Op.EQ, f"S{s:03}")),))
        for s, lows, highs in zip(symbol.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    numbers = rng.random((event_count, 2))
    codes = rng.integers(0, SYMBOLS, (event_count, 1))
    events: Events = [
        {"symbol": f"S{s:03}", "price": price, "volume": volume}
        for (s,), (price, volume) in zip(codes.tolist(), numbers.tolist(), strict=True)
    ]
    return Workload(filters, events, scan).encode(numbers, codes)


def topics(count: int, event_count: int, seed: int = 3) -> Workload:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, LEVEL_NAMES, (count, LEVELS))
    filters = []
    for row, kind, wild in zip(codes, rng.random(count), rng.random((count, LEVELS)), strict=True):
        first, second = np.argsort(wild)[:2].tolist()
        levels = [_level(at, code) for at, code in enumerate(row.tolist())]
        if kind < 0.3:  # the last one or two levels are open
            depth = LEVELS - 1 - (kind < 0.05)
            levels[depth:] = ["#"]
            row[depth:] = -1
        else:
            for at in (first, second) if kind < 0.5 else (first,):
                levels[at] = "+"
                row[at] = -1
        filters.append(topic_filter("/".join(levels)))
    empty = np.empty((count, 0))
    scan = Scan(empty.astype(np.int64), empty, empty, codes)
    published = rng.integers(0, LEVEL_NAMES, (event_count, LEVELS))
    events: Events = [
        {TOPIC: "/".join(_level(at, code) for at, code in enumerate(row))}
        for row in published.tolist()
    ]
    return Workload(filters, events, scan).encode(np.empty((event_count, 0)), published)


def run(
    cases: Sequence[str] | None = None, *, progress: Progress = silent, scale: float = 1.0
) -> list[Record]:
    """Measure the named cases, all by default; `scale` shrinks the tables for a trial run."""
    wanted = set(chosen("matching", CASES, cases))
    progress("compiling kernels")
    warm()
    large, huge = int(100_000 * scale), int(1_000_000 * scale)
    records: list[Record] = []
    if wanted & {"ranges-100k", "add-100k", "remove-100k"}:
        progress("ranges-100k")
        records += _ranges_and_changes(ranges(large, 20_000), wanted)
    if wanted & {"ranges-1m", "memory-1m"}:
        progress("ranges-1m")
        records += _ranges_and_memory(ranges(huge, 2_000), wanted)
    for case, workload in (("symbols-100k", symbols), ("topics-100k", topics)):
        if case in wanted:
            progress(case)
            made = workload(large, 20_000)
            records.append(_throughput(case, made, _filled(made.filters)))
    for case, size in (("single-50", 50), ("single-2k", 2_000)):
        if case in wanted:
            progress(case)
            records.append(_single(case, symbols(size, 5_000)))
    return sorted(records, key=lambda record: CASES.index(record.case))


def _ranges_and_changes(workload: Workload, wanted: set[str]) -> list[Record]:
    records = []
    matcher = Matcher()
    gc.collect()
    adding_s = _seconds(lambda: _add_all(matcher, workload.filters))
    rows = _Rows(len(workload.filters))
    rows_adding_s = _seconds(lambda: rows.add_all(workload.filters))
    if "ranges-100k" in wanted:
        records.append(_throughput("ranges-100k", workload, matcher))
    if "add-100k" in wanted:
        records.append(_less("add-100k", adding_s, "s", rows_adding_s))
    if "remove-100k" in wanted:
        keys = np.random.default_rng(4).permutation(len(workload.filters)).tolist()
        removing_s = _seconds(lambda: _remove_all(matcher, keys))
        rows_removing_s = _seconds(lambda: rows.remove_all(keys))
        records.append(_less("remove-100k", removing_s, "s", rows_removing_s))
    return records


def _ranges_and_memory(workload: Workload, wanted: set[str]) -> list[Record]:
    records = []
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    matcher = _filled(workload.filters)
    held_mb = (process.memory_info().rss - before) / 1e6
    scan = workload.scan
    if "ranges-1m" in wanted:
        records.append(_throughput("ranges-1m", workload, matcher))
    if "memory-1m" in wanted:
        scan_mb = sum(a.nbytes for a in (scan.columns, scan.low, scan.high)) / 1e6
        records.append(_less("memory-1m", held_mb, "MB", scan_mb))
    return records


def _throughput(case: str, workload: Workload, matcher: Matcher) -> Record:
    """Events a second of the engine and of the scan, the best of some passes each."""
    sample = range(min(30, len(workload.events)))
    _compare(workload, matcher, sample)
    engine_s = min(_seconds(lambda: matcher.match(workload.events)) for _ in range(PASSES))
    scan_s = min(_seconds(lambda: _scan(workload, sample)) for _ in range(PASSES))
    return measured(
        "matching", case, len(workload.events) / engine_s, "events/s", len(sample) / scan_s
    )


def _single(case: str, workload: Workload) -> Record:
    """Microseconds a call with one event."""
    matcher = _filled(workload.filters)
    sample = range(1000)
    _compare(workload, matcher, sample)

    def calls() -> None:
        for event in workload.events:
            matcher.match((event,))

    engine_s = min(_seconds(calls) for _ in range(PASSES)) / len(workload.events)
    scan_s = min(_seconds(lambda: _scan(workload, sample)) for _ in range(PASSES)) / len(sample)
    return _less(case, 1e6 * engine_s, "us/event", 1e6 * scan_s)


def _compare(workload: Workload, matcher: Matcher, sample: Sequence[int]) -> None:
    answers = matcher.match([workload.events[at] for at in sample])
    assert [list(answer) for answer in answers] == _scan(workload, sample)


def _scan(workload: Workload, sample: Sequence[int]) -> list[list[int]]:
    match, numbers, codes = workload.scan.match, workload.numbers, workload.codes
    return [match(numbers[at], codes[at]) for at in sample]


class _Rows:
    """What keeping the scan's arrays up to date takes: a row written, a last row moved."""

    def __init__(self, capacity: int) -> None:
        self._columns = np.zeros((capacity, 4), np.int64)
        self._low = np.zeros((capacity, 4))
        self._high = np.zeros((capacity, 4))
        self._row_of: dict[int, int] = {}
        self._keys: list[int] = []
        self._column_of = {name: at for at, name in enumerate(ATTRIBUTES)}

    def add_all(self, filters: list[Filter]) -> None:
        for key, filter in enumerate(filters):
            bounds: dict[int, list[float]] = {}
            for predicate in filter.conjunctions[0]:
                operand: Any = predicate.operand
                bound = bounds.setdefault(self._column_of[predicate.attribute], [-np.inf, np.inf])
                bound[predicate.op is Op.LE] = operand
            row = self._row_of[key] = len(self._keys)
            self._keys.append(key)
            self._columns[row] = list(bounds)
            self._low[row] = [low for low, _ in bounds.values()]
            self._high[row] = [high for _, high in bounds.values()]

    def remove_all(self, keys: list[int]) -> None:
        for key in keys:
            row, last = self._row_of.pop(key), self._keys.pop()
            if last != key:
                self._keys[row] = last
                self._row_of[last] = row
                end = len(self._keys)
                for array in (self._columns, self._low, self._high):
                    array[row] = array[end]


def _filled(filters: list[Filter]) -> Matcher:
    matcher = Matcher()
    _add_all(matcher, filters)
    return matcher


def _add_all(matcher: Matcher, filters: list[Filter]) -> None:
    for key, filter in enumerate(filters):
        matcher.add(key, filter, key)


def _remove_all(matcher: Matcher, keys: list[int]) -> None:
    for key in keys:
        matcher.remove(key)


def _seconds(work: Callable[[], object]) -> float:
    # Processor time: everything here runs on one thread, and a busy machine is nobody's merit.
    start = time.process_time()
    work()
    return time.process_time() - start


def _less(case: str, value: float, unit: str, baseline: float) -> Record:
    return measured("matching", case, value, unit, baseline, less_is_better=True)


def _intervals(
    names: Sequence[str], lows: Sequence[float], highs: Sequence[float]
) -> tuple[Predicate, ...]:
    return tuple(
        predicate
        for name, low, high in zip(names, lows, highs, strict=True)
        for predicate in (Predicate(name, Op.GE, low), Predicate(name, Op.LE, high))
    )


def _level(at: int, code: int) -> str:
    return f"{'abcd'[at]}{code}"
