"""Rows wait in memory, know what they weigh, and leave it whole."""

from __future__ import annotations

import tracemalloc

import pytest

from gravitate.broker.observers import Matched
from gravitate.model.events import Batch, Event
from gravitate.model.filters import EVERYTHING
from gravitate.trace.columns import BatchColumns, Group, RowColumns
from gravitate.trace.schemas import DELIVERIES, SUBSCRIPTIONS
from gravitate.trace.writer import TraceRows
from gravitate.wire.mqtt.bodies import FrameBodies

PER_BATCH = ("publisher", "incarnation", "broker", "at_s", "session", "delay_s", "hops", "qos")


def deliveries(rows_max: int = 100, bytes_max: int = 10**6) -> BatchColumns:
    return BatchColumns(DELIVERIES, PER_BATCH, ("counter",), rows_max, bytes_max)


def delivered(columns: BatchColumns, *counters: int, text_bytes: int = 0) -> bool:
    values = ("p", 1, "b1", 1.0, "s", 0.5, 0, 1)
    return columns.append(len(counters), values, (counters,), text_bytes)


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, Group]] = []

    def put(self, table: str, group: Group) -> None:
        self.groups.append((table, group))

    def close(self) -> None: ...


def test_rows_that_were_taken_do_not_change_with_those_that_come_after() -> None:
    columns = deliveries()
    delivered(columns, 1, 2)
    taken = columns.take()
    assert (columns.rows, columns.size_bytes) == (0, 0)
    delivered(columns, 3)
    assert taken.rows == 2
    assert taken.table()["counter"].to_pylist() == [1, 2]
    assert columns.take().table()["counter"].to_pylist() == [3]


def test_columns_are_full_by_rows_or_by_weight() -> None:
    by_rows = deliveries(rows_max=3)
    assert [delivered(by_rows, counter) for counter in range(3)] == [False, False, True]
    by_weight = deliveries(bytes_max=10_000)
    assert not delivered(by_weight, 1)
    assert delivered(by_weight, 2, text_bytes=10_000)
    one_by_one = RowColumns(SUBSCRIPTIONS, 100, 10_000)
    assert not one_by_one.append("b1", "s", "x", 1.0, "subscribed", "a > 1")
    assert one_by_one.append("b1", "s", "y", 1.0, "subscribed", "a > 1 AND " * 1_000)


def told_and_held_bytes(size: int, text: str, events: int = 2_000) -> tuple[int, int]:
    """What groups say they weigh, and what really stays in memory because of them."""
    sink = Kept()
    rows = TraceRows(sink, rows_per_group=500)
    before_bytes, _ = tracemalloc.get_traced_memory()
    for first in range(0, events, size):
        # Everything is made anew each time, as what comes from a socket is.
        made = [Event({"topic": f"t/{first}", "x": text}, b"12345678") for _ in range(size)]
        counters, now = range(first, first + size), float(first)
        bodies = FrameBodies.from_events(made)
        batch = Batch(f"publisher-{first}", 300 + first, counters, bodies, published_at=1.0)
        rows.on_published("b1", batch, now)
        rows.on_hop(Matched("b1", "b2", batch, [["s"]] * size, [["b2", "b3"]] * size), now)
        rows.on_delivered("b1", f"session-{first}", batch, 1, now)
        rows.on_subscribed("b1", f"session-{first}", f"s{first}", EVERYTHING, now)
    rows.flush()
    held_bytes, _ = tracemalloc.get_traced_memory()
    return sum(group.size_bytes for _, group in sink.groups), held_bytes - before_bytes


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("text", ["a", "words of an event " * 20, "\N{SNOWMAN}" * 500])
def test_groups_say_what_they_take_in_memory(size: int, text: str) -> None:
    tracemalloc.start()
    try:
        told_and_held_bytes(size, text, events=size)  # what is loaded and compiled the first time
        told_bytes, held_bytes = told_and_held_bytes(size, text)
    finally:
        tracemalloc.stop()
    assert 0.3 * told_bytes < held_bytes < 1.1 * told_bytes
