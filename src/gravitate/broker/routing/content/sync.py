"""Synchronisation: after a link was reset, when has a neighbour said all it knows?

A broker that has lost its state learns the network from its neighbours and cannot say more than
they have told it. So `SyncEnd` runs over the tree in two waves: *advertisements* goes to a
neighbour once all others have said theirs; *subscriptions*, which depend on advertisements,
once that neighbour's advertisements and all others' subscriptions are in. On a tree neither
wave can wait for itself.

Others that are absent are not waited for in the first wave: a neighbour is told that all is said
but what is behind them. Whatever else it had from there before stays as it is until all is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gravitate.broker.messages.frames import Control, SyncEnd
from gravitate.broker.routing.settlement import NOWHERE, Open, Settlement


@dataclass(slots=True)
class _Progress:
    """How far a neighbour and this broker have told each other everything since a reset."""

    token: int
    """Answered when the neighbour has said all its advertisements."""
    greeted: bool
    is_absent: bool = False
    open: Open | None = None
    """It has said all of them but what is behind these; None: it has not."""
    said_open: Open | None = None
    """The same of what it was told."""
    advertisements_in: bool = False
    advertisements_out: bool = False
    subscriptions_in: bool = False
    subscriptions_out: bool = False

    def missing(self, peer: str) -> Open | None:
        """Where advertisements have not been said that are to come from here; None: that is not
        known."""
        if self.advertisements_in:
            return NOWHERE
        return self.open if self.open is not None or not self.is_absent else frozenset((peer,))


class Synchronisation:
    def __init__(
        self,
        neighbours: Iterable[str],
        settlement: Settlement,
        send: Callable[[str, Control], None],
    ) -> None:
        self._settlement = settlement
        self._send = send
        self._progress = {peer: _Progress(settlement.token(peer), False) for peer in neighbours}

    def token(self, peer: str) -> int:
        """What to wait for until everything advertised behind `peer` is known."""
        return self._progress[peer].token

    def is_known(self, peer: str) -> bool:
        """Whether a neighbour has said all its advertisements, or all there are for now."""
        progress = self._progress.get(peer)
        return progress is not None and progress.missing(peer) is not None

    def reset(self, peer: str) -> int:
        """Start anew with a neighbour; the new token."""
        token = self._settlement.token(peer)
        former = self._progress.get(peer)
        if former is not None:
            self._settlement.replace(peer, former.token, token)
        self._progress[peer] = _Progress(token, True)
        return token

    def forget(self, peer: str) -> None:
        self._progress.pop(peer, None)

    def absent(self, peer: str) -> None:
        """Nothing comes from a neighbour for now."""
        if peer in self._progress:
            self._progress[peer].is_absent = True
            self.advance()

    def present(self, peer: str) -> None:
        if peer in self._progress:
            self._progress[peer].is_absent = False

    def ended(self, peer: str, what: str) -> None:
        """The neighbour has said all it knows of `what`."""
        progress = self._progress[peer]
        if what == "advertisements":
            progress.advertisements_in = True
            progress.open = None
            self._settlement.answered(peer, progress.token)
        else:
            progress.subscriptions_in = True
        self.advance()

    def ended_partly(self, peer: str, open: Open) -> None:
        """The neighbour has said all its advertisements but those behind some brokers."""
        progress = self._progress[peer]
        if not progress.advertisements_in:
            progress.open = open
            self._settlement.answered_partly(peer, progress.token, open)
            self.advance()

    def advance(self) -> None:
        """Say `SyncEnd` to every neighbour that has been told everything, or all there is."""
        for peer, progress in self._progress.items():
            if not progress.greeted:
                continue
            if not progress.advertisements_out:
                self._say_advertisements_ended(peer, progress)
            if (
                progress.advertisements_out
                and not progress.subscriptions_out
                and progress.advertisements_in
                and all(o.subscriptions_in for name, o in self._progress.items() if name != peer)
            ):
                progress.subscriptions_out = True
                self._send(peer, SyncEnd("subscriptions"))

    def _say_advertisements_ended(self, peer: str, progress: _Progress) -> None:
        missing = [other.missing(name) for name, other in self._progress.items() if name != peer]
        if None in missing:
            return
        open = NOWHERE.union(*(one for one in missing if one is not None))
        if not open:
            progress.advertisements_out = True
            progress.said_open = None
            self._send(peer, SyncEnd("advertisements"))
        elif open != progress.said_open:
            progress.said_open = open
            self._send(peer, SyncEnd("advertisements", tuple(sorted(open))))
