"""Batches: parts of one carry its header, and their own events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gravitate.model.events import Batch, Event, PlainBodies


def batch() -> Batch:
    events = [Event({"topic": f"t/{number}"}) for number in range(5)]
    return Batch("p", 7, range(10, 15), PlainBodies(events), 1, 2.5, 3, ("b1", "b2"), 4)


def header(of: Batch) -> dict[str, Any]:
    fields = msgspec.structs.asdict(of)
    return {name: fields[name] for name in fields.keys() - {"counters", "bodies"}}


@pytest.mark.parametrize("indices", [[1], [0, 3], range(2, 5), range(5)])
def test_a_selection_has_its_events_under_the_same_header(indices: Any) -> None:
    whole = batch()
    part = whole.select(indices)
    assert list(part.counters) == [10 + index for index in indices]
    assert part.bodies.topics() == [f"t/{index}" for index in indices]
    assert header(part) == header(whole)


def test_nothing_but_counters_and_bodies_has_a_value_for_each_event() -> None:
    """What had would have to be cut wherever a batch is."""
    for name, value in header(batch()).items():
        assert isinstance(value, str | int | float | tuple), name
