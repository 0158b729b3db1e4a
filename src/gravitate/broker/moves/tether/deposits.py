"""What neighbours remember for a broker: whom it serves for others.

A subscriber that is served by one broker and connected to another is known to the first alone. If
that one is killed, nobody would want what comes for it until its client's broker has noticed and
subscribed at home. So a broker *entrusts* its neighbours with what such a subscriber wants, and
when it comes back without memory they remind it, ahead of the events they have queued for it: it
goes on keeping what comes, and has it when it is asked.

Owns what neighbours have entrusted this broker with. Does not know what becomes of a reminder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.frames import Control
from gravitate.broker.messages.guests import Entrusted, Reminder
from gravitate.errors import PeerError

ENTRUSTED_MAX = 100_000
"""Subscribers that one neighbour may entrust."""


class Deposits:
    """`entrusted` are those that this broker serves for others, told to its neighbours."""

    def __init__(
        self,
        links: LinkTable,
        send: Callable[[str, Control], None],
        entrusted: Callable[[], Iterable[Entrusted]],
    ) -> None:
        self._links = links
        self._send = send
        self._entrusted = entrusted
        self._by_neighbour: dict[str, dict[tuple[str, int], Entrusted]] = {}

    def tell(self, entrusted: Entrusted) -> None:
        """Something has changed about a subscriber that is served here for another."""
        for peer in self._links.neighbours():
            self._send(peer, entrusted)

    def heard(self, peer: str, entrusted: Entrusted) -> None:
        """A neighbour serves somebody, or no longer does."""
        known = self._by_neighbour.setdefault(peer, {})
        key = (entrusted.origin, entrusted.number)
        if not entrusted.subscriptions:
            known.pop(key, None)
        elif key in known or len(known) < ENTRUSTED_MAX:
            known[key] = entrusted
        else:
            raise PeerError("too-many", f"{ENTRUSTED_MAX} subscribers were entrusted already")
        if not known:
            del self._by_neighbour[peer]

    def reset(self, peer: str) -> None:
        """A link starts anew: remind a neighbour that has lost its memory, and say all again. What
        it is reminded of it entrusts again, or is done with; until then it may be killed again."""
        if self._links[peer].has_forgotten:
            for one in self._by_neighbour.get(peer, {}).values():
                whose = (one.number, one.attachment, one.origin, one.subscriber, one.incarnation)
                self._send(peer, Reminder(*whose, one.subscriptions, one.version))
        else:
            self._by_neighbour.pop(peer, None)
        for entrusted in self._entrusted():
            self._send(peer, entrusted)

    def forget(self, peer: str) -> None:
        """A neighbour is given up."""
        self._by_neighbour.pop(peer, None)
