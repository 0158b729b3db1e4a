"""How much of something there is: events, and the bytes that they weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gravitate.model.events import Bodies

COMPACT_BYTES_MIN: Final = 64 * 1024
"""What is unacknowledged of less than this is soon acknowledged: copying it out of the read it came
in would be wasted."""


@dataclass(slots=True, eq=False)
class Measure:
    """Grows and shrinks with what it is told of."""

    events: int = 0
    size_bytes: int = 0

    def add(self, bodies: Bodies) -> None:
        self.events += len(bodies)
        self.size_bytes += bodies.size_bytes()

    def take(self, bodies: Bodies) -> None:
        self.events -= len(bodies)
        self.size_bytes -= bodies.size_bytes()

    def exceeds(self, events_max: int, bytes_max: int) -> bool:
        return self.events > events_max or self.size_bytes > bytes_max
