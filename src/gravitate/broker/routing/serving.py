"""Serving: which local subscriptions get what comes from where before they have settled.

A subscription is served from a neighbour's side once that neighbour has settled it. Before that,
what comes from there may have holes for it: brokers further back still learn of it. Once it has
settled, everything that follows it on the link is complete, and stays so whatever the subscription
waits for later.

A subscription that has had an event of a publisher gets the publisher's events from every side. The
publisher may come to be behind one that has not settled: then its advertisement has run ahead of
it, and no event passes before all subscriptions there were are known on its way. That the
advertisement was seen to end meanwhile, because the broker that the publisher had been sent to
gave it up, makes no difference.

Invariants: only subscriptions that have not settled are known here, so what is remembered of
publishers goes with them. Local clients' events are never withheld.
"""

from __future__ import annotations

from collections.abc import Iterable

from gravitate.broker.routing.table import SubscriptionEntry
from gravitate.broker.settlement import Settlement
from gravitate.model.events import Batch

_NONE: frozenset[int] = frozenset()


class _Settling:
    """A local subscription that has not settled."""

    __slots__ = ("entry", "publishers", "unserved")

    def __init__(self, entry: SubscriptionEntry, neighbours: Iterable[str]) -> None:
        self.entry = entry
        self.unserved = set(neighbours)
        """Neighbours from whose sides it has not been served."""
        self.publishers: set[tuple[str, int]] = set()
        """Whose events it has had, by id and incarnation."""


class Serving:
    def __init__(self, settlement: Settlement) -> None:
        self._settlement = settlement
        self._settling: dict[int, _Settling] = {}
        """By destination."""
        self._withheld: dict[str, frozenset[int]] = {}
        """Per neighbour, the destinations it has not settled. Invalidated by: any change of the
        settlement (its version), and a subscription that begins or ends."""
        self._withheld_version = -1

    def begin(self, entry: SubscriptionEntry, neighbours: Iterable[str]) -> None:
        """A local client has subscribed."""
        self._settling[entry.destination] = _Settling(entry, neighbours)
        self._withheld.clear()

    def end(self, entry: SubscriptionEntry) -> None:
        """The subscription has settled or ended. Its destination may be another's by now."""
        settling = self._settling.get(entry.destination)
        if settling is not None and settling.entry is entry:
            del self._settling[entry.destination]
            self._withheld.clear()

    def served(
        self, batch: Batch, came_from: str | None, answers: list[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """What is left of the destinations of each event."""
        settling = self._settling
        if not settling:
            return answers
        publisher = (batch.publisher, batch.incarnation)
        withheld = self._withheld_from(came_from) if came_from is not None else _NONE
        if withheld:
            answers = [
                tuple(
                    to
                    for to in answer
                    if to not in withheld or publisher in settling[to].publishers
                )
                for answer in answers
            ]
        for answer in set(answers):
            for to in settling.keys() & answer:
                settling[to].publishers.add(publisher)
        return answers

    def _withheld_from(self, peer: str) -> frozenset[int]:
        settlement = self._settlement
        if self._withheld_version != settlement.version:
            self._withheld_version = settlement.version
            self._withheld.clear()
        withheld = self._withheld.get(peer)
        if withheld is None:
            found = set()
            for destination, settling in self._settling.items():
                if peer in settling.unserved:
                    if settlement.awaits(settling.entry.request, peer):
                        found.add(destination)
                    else:
                        settling.unserved.discard(peer)
            withheld = self._withheld[peer] = frozenset(found)
        return withheld
