"""Common events of brokers: exact against sets, Bloom estimates against another Bloom filter."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rbloom import Bloom

from gravitate.pipeline.derive.filters import FilterShape, Marks, shared_events
from gravitate.trace.sampling import event_hash, publisher_hash

PUBLISHERS = ["ibm", "yhoo"]
Event = tuple[int, int, int]
"""Publisher's position, incarnation, counter."""

EVENTS = st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 200))
SETS = st.lists(st.sets(EVENTS, max_size=30), min_size=1, max_size=70)


def _marks(rows: list[tuple[int, Event, bool]]) -> Marks:
    """One row an event and broker; words may come in several pieces."""
    columns = np.array(
        [(b, p, i, c // 64, c % 64) for b, (p, i, c), _ in rows], dtype=np.int64
    ).reshape(-1, 5)
    broker, publisher, incarnation, word, bit = columns.T
    return Marks(
        publishers=PUBLISHERS,
        publisher=publisher,
        incarnation=incarnation,
        word=word,
        broker=broker,
        bits=np.uint64(1) << bit.astype(np.uint64),
        own=np.array([own for *_, own in rows], dtype=np.bool_),
    )


@settings(deadline=None)
@given(SETS, SETS)
def test_exact_counts_are_those_of_sets(own: list[set[Event]], other: list[set[Event]]) -> None:
    brokers = max(len(own), len(other))
    own, other = (sets + [set()] * (brokers - len(sets)) for sets in (own, other))
    rows = [(b, event, True) for b, events in enumerate(own) for event in events]
    rows += [(b, event, False) for b, events in enumerate(other) for event in events]
    events, found = shared_events(_marks(rows), brokers, FilterShape())
    for one, two in product(range(brokers), repeat=2):
        expected = len(own[one] & (own[two] | other[two])) if one != two else 0
        assert events[one, two] == expected
        assert found[one, two] >= expected


def _hash(event: Event) -> int:
    publisher, incarnation, counter = event
    return event_hash(publisher_hash(PUBLISHERS[publisher], incarnation), counter)


def test_filters_err_as_often_as_those_of_a_bloom_filter_library() -> None:
    random = np.random.default_rng(5)
    sets = [{(0, 1, int(c)) for c in random.choice(40_000, 9_000, replace=False)} for _ in range(3)]
    rows = [(b, event, True) for b, events in enumerate(sets) for event in events]
    # One false positive in 32: where five hashes are the best choice.
    filters = [Bloom(9_000, 1 / 32, lambda event: _hash(event) - 2**63) for _ in sets]
    events, found = shared_events(_marks(rows), 3, FilterShape(filters[0].size_in_bits))
    for events_of, filter in zip(sets, filters, strict=True):
        filter.update(events_of)
    for one, two in product(range(3), repeat=2):
        if one != two:
            expected = sum(event in filters[two] for event in sets[one])
            strangers = len(sets[one] - sets[two])
            assert events[one, two] == len(sets[one]) - strangers
            assert abs(found[one, two] - expected) < 0.015 * strangers


def test_a_filter_of_the_papers_shape_with_a_full_cache_is_within_one_percent() -> None:
    shape = FilterShape()
    marks = [{(0, 1, c) for c in range(start, start + shape.ids_max)} for start in (0, 4_000)]
    rows = [(b, event, True) for b, events in enumerate(marks) for event in events]
    events, found = shared_events(_marks(rows), 2, shape)
    assert events[0, 1] == events[1, 0] == shape.ids_max - 4_000
    assert events[0, 1] <= found[0, 1] <= 1.01 * events[0, 1]


def test_nothing_in_common_without_events() -> None:
    events, found = shared_events(_marks([]), 3, FilterShape())
    assert not events.any()
    assert not found.any()
