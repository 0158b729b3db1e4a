"""Serving: which local subscriptions get what comes from where before they have settled.

A subscription is served with what comes from behind a broker once that side has settled it. Before
that, what comes from there may have holes for it: brokers further back still learn of it. Once it
has settled, everything that follows it on the link is complete, and stays so whatever the
subscription waits for later. A neighbour that has settled it but behind some brokers says which
(`settlement`): what has passed none of these is complete, so those who are there are heard while
others are away.

A subscription that has had an event of a publisher gets the publisher's events from every side. The
publisher may come to be behind one that has not settled: then its advertisement has run ahead of
it, and no event passes before all subscriptions there were are known on its way. That the
advertisement was seen to end meanwhile, because the broker that the publisher had been sent to
gave it up, makes no difference.

Invariants: only subscriptions that have not settled are known here, so what is remembered of
publishers goes with them. Local clients' events are never withheld.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from gravitate.broker.lives import Life
from gravitate.broker.routing.content.table import SubscriptionEntry, drop
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.model.events import Batch


@dataclass(slots=True)
class _Settling:
    """One local subscription that has not settled."""

    had: set[Life] = field(default_factory=set)
    """Publishers whose events it has had."""
    open: dict[str, Open] = field(default_factory=dict)
    """By neighbour: brokers that what has passed them is withheld from it."""


class Serving:
    def __init__(self) -> None:
        self._settling: dict[int, _Settling] = {}
        """By destination."""
        self._withheld: dict[str, Counter[int]] = {}
        """The destinations from which is withheld what has passed a broker, and on how many sides
        it is open."""

    def begin(self, entry: SubscriptionEntry) -> None:
        """A local client has subscribed; where that has not settled its request tells."""
        self._settling[entry.destination] = _Settling()
        entry.request.tell_sides(partial(self._withhold, entry.destination))

    def end(self, entry: SubscriptionEntry) -> None:
        """The subscription has settled or ended. Its destination may be another's by now."""
        if entry.request.on_side is not None:
            entry.request.tell_sides(None)
            for peer in list(self._settling[entry.destination].open):
                self._withhold(entry.destination, peer, NOWHERE)
            del self._settling[entry.destination]

    def _withhold(self, destination: int, peer: str, open: Open) -> None:
        """From now on these brokers alone are open on the side of a neighbour."""
        settling = self._settling[destination]
        former = settling.open.pop(peer, NOWHERE)
        for broker in former - open:
            withheld = self._withheld[broker]
            withheld[destination] -= 1
            if not withheld[destination]:
                drop(self._withheld, broker, destination)
        if open:
            settling.open[peer] = open
            for broker in open - former:
                self._withheld.setdefault(broker, Counter())[destination] += 1

    def unsettled(self) -> Counter[str]:
        """How many local subscriptions have not settled, by the neighbour that has not."""
        return Counter(peer for settling in self._settling.values() for peer in settling.open)

    def is_awaited(self, peer: str) -> bool:
        """Whether a neighbour has not answered some subscription, not even partly."""
        return any(peer in one.open.get(peer, NOWHERE) for one in self._settling.values())

    def served(
        self, batch: Batch, came_from: str | None, answers: list[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """What is left of the destinations of each event."""
        settling = self._settling
        if not settling:
            return answers
        publisher = batch.stream
        if self._withheld and came_from is not None:
            withheld = {
                to
                for broker in (*batch.covered, came_from)
                for to in self._withheld.get(broker, ())
                if publisher not in settling[to].had
            }
            if withheld:
                answers = [tuple(to for to in answer if to not in withheld) for answer in answers]
        for answer in set(answers):
            for to in settling.keys() & answer:
                settling[to].had.add(publisher)
        return answers
