"""What has come since a broker started, until its neighbours have said what it has forgotten.

A broker that was killed is reminded by its neighbours of whom it served for others (`deposits`).
One that was away at the same time cannot, and may be heard before those who can: so what comes
meanwhile is remembered, and given to whom it was for when they are known.

Bounded: beyond the bounds the oldest is forgotten; and all of it when every neighbour has been
heard, or some have not for long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from gravitate.broker.measure import Measure
from gravitate.model.events import Batch

EVENTS_MAX: Final = 10_000
BYTES_MAX: Final = 8 * 1024 * 1024
RECENT_S_MAX: Final = 40.0
"""How long neighbours are waited for."""


class Recent:
    """Batches in the order in which they came."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._measure = Measure()

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    def note(self, batch: Batch) -> None:
        batch = batch.compacted()
        self._batches.append(batch)
        self._measure.add(batch.bodies)
        while self._measure.exceeds(EVENTS_MAX, BYTES_MAX):
            self._measure.take(self._batches.popleft().bodies)
