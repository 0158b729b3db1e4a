"""No event comes to a broker twice, and its path names no broker twice.

An event may meet itself when it enters the network again (its publisher was not told that it was
accepted), or comes again to a broker that was restarted (its neighbour was not told that it had
been received); of such an event only the path is judged.
"""

from __future__ import annotations

from gravitate.broker.observers import Matched, Observer
from gravitate.model.events import Batch
from gravitate.simulate.checkers.violations import Violations

EVENTS_MAX = 200_000
"""Events remembered; the oldest half is forgotten beyond this."""

Key = tuple[str, int, int]


class LoopChecker(Observer):
    """Remembers for every recent event which brokers it has been at, as bits."""

    def __init__(self, violations: Violations) -> None:
        self.violations = violations
        self._bit: dict[str, int] = {}
        self._former_bits: dict[str, int] = {}
        """Of a broker's earlier incarnations."""
        self._bits = 0
        self._been: dict[Key, int] = {}
        self._excused: set[Key] = set()
        self._last: dict[tuple[str, int], int] = {}

    def started(self, broker: str) -> None:
        """A broker starts, for the first time or again. To be called before it does anything."""
        if broker in self._bit:
            self._former_bits[broker] = self._former_bits.get(broker, 0) | self._bit[broker]
        self._bit[broker] = 1 << self._bits
        self._bits += 1

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        publisher, incarnation = batch.publisher, batch.incarnation
        last = self._last.get((publisher, incarnation), 0)
        if batch.counters[0] <= last:
            self._excused.update(
                (publisher, incarnation, counter) for counter in batch.counters if counter <= last
            )
        self._last[publisher, incarnation] = max(last, batch.counters[-1])

    def on_hop(self, hop: Matched, now: float) -> None:
        broker, came_from, batch, _, links = hop
        bit = self._bit[broker]
        been = self._been
        publisher, incarnation = batch.publisher, batch.incarnation
        if broker in batch.covered or len(batch.covered) > len(self._bit):
            self.violations.add("loop", now, f"{batch!r} came to {broker} again")
        former = self._former_bits.get(broker, 0)
        for counter in batch.counters:
            key = (publisher, incarnation, counter)
            mask = been.get(key, 0)
            if mask & former:
                self._excused.add(key)
            if mask & bit and key not in self._excused:
                self.violations.add(
                    "loop", now, f"{publisher}#{incarnation} {counter} was at {broker} before"
                )
            been[key] = mask | bit
        for goes_to in links:
            if came_from is not None and came_from in goes_to:
                self.violations.add("loop", now, f"{batch!r} goes back to {came_from}")
        if len(been) > EVENTS_MAX:
            for key in list(been)[: EVENTS_MAX // 2]:
                del been[key]
                self._excused.discard(key)
