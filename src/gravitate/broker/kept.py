"""What is kept for a client that cannot be given it now, in order and within a bound.

Kept are batches of many publishers, each with its quality of service. A *cut* tells what the client
has been given elsewhere: it is dropped, and what is left to deliver from there, the *backlog*,
comes first. Does not know sessions, nor why anything is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from gravitate.broker.measure import Measure
from gravitate.model.events import Batch

Seen = tuple[tuple[str, int, int], ...]
"""Publishers and their incarnations, with the last counter that a client has been given."""
Backlog = tuple[tuple[Batch, int], ...]
"""Batches that are left to deliver, with their quality of service."""


def parts_of(backlog: Backlog, events_max: int, bytes_max: int) -> list[Backlog]:
    """A backlog in parts of so many events and bytes, or of one batch that is larger; at least
    one part."""
    parts: list[list[tuple[Batch, int]]] = [[]]
    measure = Measure()
    for batch, qos in backlog:
        measure.add(batch.bodies)
        part = parts[-1]
        if part and measure.exceeds(events_max, bytes_max):
            part, measure = [], Measure()
            measure.add(batch.bodies)
            parts.append(part)
        part.append((batch, qos))
    return [tuple(part) for part in parts]


class Kept:
    """Batches in the order in which they came."""

    __slots__ = ("_batches", "_bytes_max", "_events_max", "measure")

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._batches: deque[tuple[Batch, int]] = deque()
        self._events_max = events_max
        self._bytes_max = bytes_max
        self.measure = Measure()

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        return iter(self._batches)

    def __len__(self) -> int:
        """In batches."""
        return len(self._batches)

    def add(self, batch: Batch, qos: int) -> bool:
        """Keep a batch; False, and it is not kept, when that would be too much."""
        self.measure.add(batch.bodies)
        if self.measure.exceeds(self._events_max, self._bytes_max):
            self.measure.take(batch.bodies)
            return False
        self._batches.append((batch, qos))
        return True

    def first(self) -> Batch | None:
        return self._batches[0][0] if self._batches else None

    def take_first(self) -> tuple[Batch, int]:
        batch, qos = self._batches.popleft()
        self.measure.take(batch.bodies)
        return batch, qos

    def put_back(self, batch: Batch, qos: int) -> None:
        """What is left of the first one."""
        self._batches.appendleft((batch, qos))
        self.measure.add(batch.bodies)

    def take_all(self) -> list[tuple[Batch, int]]:
        taken = list(self._batches)
        self._batches.clear()
        self.measure = Measure()
        return taken

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]]) -> None:
        """The client has had everything up to `seen`, but for the backlog."""
        had = {(id, incarnation): last for id, incarnation, last in seen}
        kept = self.take_all()
        self._batches.extend(backlog)
        for batch, qos in kept:
            last = had.get((batch.publisher, batch.incarnation), 0)
            fresh = [i for i, counter in enumerate(batch.counters) if counter > last]
            if fresh:
                self._batches.append((batch.select(fresh), qos))
        for batch, _ in self._batches:
            self.measure.add(batch.bodies)
