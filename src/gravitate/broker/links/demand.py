"""Links for tethers: made when one is needed between brokers that need not be neighbours, ended
when none is.

Both ends know of a tether before it is made: the target was asked to expect it when the move was
prepared. So both make the link, and one of them dials. Where the brokers are neighbours, their
primary link serves. A link that nobody needs lingers a little, for what is still under way on it.
A link that is down for a while is given up, and the clients that were elsewhere come home; if it is
the primary one it stays, for there is no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.interface.timers import LinkDown, LinkIdle
from gravitate.broker.links.peering import Peering
from gravitate.broker.links.table import LinkTable

LINGER_S: Final = 2.0
"""How long a link stays that no tether needs."""
DOWN_S_MAX: Final = 2.0
"""How long a link may be down before its clients are taken home."""


class TetherLinks:
    """`needed` tells whether some tether of this broker's needs a link to a peer; `others` are the
    brokers that a link can be made with, where that is known."""

    def __init__(
        self,
        context: Context,
        links: LinkTable,
        peering: Peering,
        needed: Callable[[str], bool],
        others: Collection[str] | None,
    ) -> None:
        self._context = context
        self._links = links
        self._peering = peering
        self._needed = needed
        self._others = None if others is None else frozenset(others)
        self._expected: dict[str, tuple[str, float]] = {}
        """By move: the broker that will attach a client here, until when it may."""
        self._down: set[str] = set()
        """Links that are not up, and waited for."""

    def is_up(self, peer: str) -> bool:
        """Whether what is said to `peer` reaches it now; this broker always hears itself."""
        return peer == self._context.broker_id or self._links.is_up(peer)

    def exists(self, peer: str) -> bool:
        return peer in self._links

    def is_possible(self, peer: str) -> bool:
        """Whether there is a link to `peer`, or one can be made."""
        here = self._context.broker_id
        return self._others is None or peer in self._others or peer in self._links or peer == here

    def want(self, peer: str) -> None:
        self._peering.add(peer)

    def expect(self, move: str, peer: str, for_s: float) -> None:
        """Let `peer` attach the client here that `move` is about."""
        if peer != self._context.broker_id:
            self.want(peer)
            self._expected[move] = (peer, self._context.now + for_s)
            self.review(peer)

    def expect_no_more(self, move: str) -> None:
        """The move is over."""
        if move in self._expected:
            self.review(self._expected.pop(move)[0])

    def review(self, peer: str) -> None:
        """A tether that went to `peer` may have been the last: look again when none is expected any
        more, or else in a little while."""
        if self._is_for_tethers(peer) and not self._needed(peer):
            until = self._expected_until(peer) or self._context.now + LINGER_S
            self._context.set_timer(LinkIdle(peer), until)

    def idle(self, peer: str) -> None:
        """It is time to look whether anybody still needs the link."""
        if self.is_needed(peer):
            self.review(peer)
        elif self._is_for_tethers(peer):
            self._forget(peer)

    def down(self, peer: str) -> None:
        """The connection is gone; it may come back."""
        if not self._is_for_tethers(peer):
            return
        if not self.is_needed(peer):
            self._context.set_timer(LinkIdle(peer), self._context.now)
        elif peer not in self._down:
            self._down.add(peer)
            self._context.set_timer(LinkDown(peer), self._context.now + DOWN_S_MAX)

    def up(self, peer: str) -> None:
        self._down.discard(peer)

    def given_up(self, peer: str) -> bool:
        """Whether a link has been down for too long. One that is for tethers alone is forgotten
        then, with what is under way on it; whoever comes back starts anew."""
        if peer not in self._down:
            return False
        self._down.remove(peer)
        if not self._links.is_neighbour(peer):
            self._forget(peer)
        return True

    def _forget(self, peer: str) -> None:
        self._expected = {m: e for m, e in self._expected.items() if e[0] != peer}
        self._down.discard(peer)
        self._peering.release(peer)

    def _is_for_tethers(self, peer: str) -> bool:
        return peer in self._links and self._links[peer].tethers

    def is_needed(self, peer: str) -> bool:
        """Whether a tether needs a link to `peer`, or one is expected."""
        return self._needed(peer) or self._expected_until(peer) > 0

    def _expected_until(self, peer: str) -> float:
        """0: no tether is expected."""
        waits = [until for one, until in self._expected.values() if one == peer]
        return max((until for until in waits if until > self._context.now), default=0.0)
