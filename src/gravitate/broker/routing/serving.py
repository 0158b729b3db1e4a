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

from functools import partial

from gravitate.broker.routing.table import SubscriptionEntry
from gravitate.model.events import Batch

_NONE: frozenset[int] = frozenset()


class Serving:
    def __init__(self) -> None:
        self._settling: dict[int, set[tuple[str, int]]] = {}
        """Local subscriptions that have not settled, by destination, with the publishers, by id
        and incarnation, whose events they have had."""
        self._withheld: dict[str, set[int]] = {}
        """Per neighbour, the destinations that it has not settled."""

    def begin(self, entry: SubscriptionEntry) -> None:
        """A local client has subscribed; what its request waits for is known."""
        destination, request = entry.destination, entry.request
        self._settling[destination] = set()
        for peer in request.outstanding:
            self._withheld.setdefault(peer, set()).add(destination)
        request.on_side = partial(self._serve, destination)

    def end(self, entry: SubscriptionEntry) -> None:
        """The subscription has settled or ended. Its destination may be another's by now."""
        request = entry.request
        if request.on_side is not None:
            request.on_side = None
            del self._settling[entry.destination]
            for peer in list(self._withheld):
                self._serve(entry.destination, peer)

    def _serve(self, destination: int, peer: str) -> None:
        """A subscription gets what comes from a neighbour's side from now on."""
        withheld = self._withheld.get(peer)
        if withheld is not None:
            withheld.discard(destination)
            if not withheld:
                del self._withheld[peer]

    def served(
        self, batch: Batch, came_from: str | None, answers: list[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """What is left of the destinations of each event."""
        settling = self._settling
        if not settling:
            return answers
        publisher = (batch.publisher, batch.incarnation)
        withheld = self._withheld.get(came_from, _NONE) if came_from is not None else _NONE
        if withheld:
            answers = [
                tuple(to for to in answer if to not in withheld or publisher in settling[to])
                for answer in answers
            ]
        for answer in set(answers):
            for to in settling.keys() & answer:
                settling[to].add(publisher)
        return answers
