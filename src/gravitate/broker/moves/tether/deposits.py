"""What neighbours remember for a broker: whom it serves for others.

A subscriber that is served by one broker and connected to another is known to the first alone. If
that one is killed, nobody would want what comes for it until its client's broker has noticed and
subscribed at home. So a broker *entrusts* its neighbours with what such a subscriber wants, and
when it comes back without memory they remind it, ahead of the events they have queued for it: it
goes on keeping what comes, and has it when it is asked.

Owns what neighbours have entrusted this broker with. Does not know what becomes of a reminder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.frames import Control
from gravitate.broker.messages.guests import Entrusted, Reminder
from gravitate.broker.messages.parcels import weight_bytes


class Deposits:
    """`entrusted` are those that this broker serves for others, told to its neighbours."""

    def __init__(
        self,
        bytes_max: int,
        links: LinkTable,
        send: Callable[[str, Control], None],
        entrusted: Callable[[], Iterable[Entrusted]],
    ) -> None:
        self._bytes_max = bytes_max
        self._links = links
        self._send = send
        self._entrusted = entrusted
        self._by_neighbour: dict[str, dict[tuple[str, int], Entrusted]] = {}
        self._bytes: Counter[str] = Counter()
        """What these weigh, by neighbour."""
        self.refused = 0

    def tell(self, entrusted: Entrusted) -> None:
        """Something has changed about a subscriber that is served here for another."""
        for peer in self._links.neighbours():
            self._send(peer, entrusted)

    def heard(self, peer: str, entrusted: Entrusted) -> None:
        """A neighbour serves somebody, or no longer does."""
        known = self._by_neighbour.setdefault(peer, {})
        key = (entrusted.origin, entrusted.number)
        former = known.pop(key, None)
        if former is not None:
            self._bytes[peer] -= weight_bytes(former)
        if entrusted.subscriptions:
            weight = weight_bytes(entrusted)
            if self._bytes[peer] + weight <= self._bytes_max:
                known[key] = entrusted
                self._bytes[peer] += weight
            else:
                self.refused += 1
        if not known:
            self.forget(peer)

    def reset(self, peer: str) -> None:
        """A link starts anew: remind a neighbour that has lost its memory, and say all again. What
        it is reminded of it entrusts again, or is done with; until then it may be killed again."""
        if self._links[peer].has_forgotten:
            for one in self._by_neighbour.get(peer, {}).values():
                whose = (one.number, one.attachment, one.origin, one.subscriber, one.incarnation)
                self._send(peer, Reminder(*whose, one.subscriptions, one.version))
        else:
            self.forget(peer)
        for entrusted in self._entrusted():
            self._send(peer, entrusted)

    def forget(self, peer: str) -> None:
        """A neighbour is given up."""
        self._by_neighbour.pop(peer, None)
        self._bytes.pop(peer, None)
