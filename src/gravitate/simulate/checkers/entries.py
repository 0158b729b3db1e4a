"""What a broker has accepted enters the network.

A client that counts its own publications knows them by number: each that was accepted in its sight
must have been published by some broker once the world is quiet. A client that does not has them
numbered by its broker, without a hole, and whatever order they were handed over in, none may be
left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from gravitate.broker.observers import Observer
from gravitate.model.events import Batch

Publisher = tuple[str, int]
"""A publisher and its incarnation."""


class EntryChecker(Observer):
    """Observes all brokers of a world; `missing` judges when it is quiet."""

    def __init__(self) -> None:
        self._entered: dict[Publisher, set[int]] = {}
        self._accepted: dict[Publisher, set[int]] = {}
        self._counting: set[Publisher] = set()
        self._excused: dict[Publisher, set[int]] = {}
        """What brokers held that were killed."""

    def accepted(self, publisher: str, incarnation: int, counter: int) -> None:
        """A client that counts was told that its publication has been accepted."""
        self._accepted.setdefault((publisher, incarnation), set()).add(counter)

    def counts(self, publisher: str, incarnation: int) -> None:
        """What a client numbers itself may have holes: it was not connected, or lost it."""
        self._counting.add((publisher, incarnation))

    def excuse(self, publisher: Publisher, counter: int) -> None:
        """A broker is killed that has this event; it may never enter."""
        self._excused.setdefault(publisher, set()).add(counter)

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        entered = self._entered.setdefault(batch.stream, set())
        entered.update(batch.counters)

    def missing(self) -> Iterator[str]:
        for (id, incarnation), accepted in self._accepted.items():
            lost = sorted(
                accepted
                - self._entered.get((id, incarnation), set())
                - self._excused.get((id, incarnation), set())
            )
            if lost:
                yield f"{id}#{incarnation} had {lost} accepted, which nobody published"
        for (id, incarnation), entered in self._entered.items():
            known = entered | self._excused.get((id, incarnation), set())
            lost = sorted(set(range(1, max(entered))) - known)
            if lost and (id, incarnation) not in self._counting:
                yield f"{id}#{incarnation} published {lost}, which no broker passed on"
