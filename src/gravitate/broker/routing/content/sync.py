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
    heard: Open | None = None
    """It has said all of them but what is behind these; None: it has not."""
    said: Open | None = None
    """The same of what it was told."""
    subscriptions_heard: bool = False
    subscriptions_said: bool = False


class Synchronisation:
    def __init__(
        self, peers: Iterable[str], settlement: Settlement, send: Callable[[str, Control], None]
    ) -> None:
        self._settlement = settlement
        self._send = send
        self._progress = {peer: _Progress(settlement.token(peer), False) for peer in peers}

    def token(self, peer: str) -> int:
        """What to wait for until everything advertised behind `peer` is known."""
        return self._progress[peer].token

    def is_known(self, peer: str) -> bool:
        """Whether a neighbour has said all its advertisements, or all there are for now."""
        return peer in self._progress and self._missing(peer) is not None

    def _missing(self, peer: str) -> Open | None:
        """Where advertisements have not been said that are to come from a neighbour; None: that is
        not known."""
        heard = self._progress[peer].heard
        return frozenset((peer,)) if heard is None and peer in self._settlement.away else heard

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

    def ended(self, peer: str, what: str, open: Open) -> None:
        """The neighbour has said all it knows of `what`; or, but for what is behind some brokers,
        all its advertisements."""
        progress = self._progress[peer]
        if open and progress.heard == NOWHERE:
            return
        if open or what == "advertisements":
            progress.heard = open
            self._settlement.answered(peer, progress.token, open)
        else:
            progress.subscriptions_heard = True
        self.advance()

    def advance(self) -> None:
        """Say `SyncEnd` to every neighbour that has been told everything, or all there is."""
        for peer, progress in self._progress.items():
            if not progress.greeted or progress.subscriptions_said:
                continue
            others = [other for other in self._progress if other != peer]
            if progress.said != NOWHERE:
                self._say_advertisements_ended(peer, progress, others)
            if progress.said == progress.heard == NOWHERE and all(
                self._progress[other].subscriptions_heard for other in others
            ):
                progress.subscriptions_said = True
                self._send(peer, SyncEnd("subscriptions"))

    def _say_advertisements_ended(self, peer: str, progress: _Progress, others: list[str]) -> None:
        open = NOWHERE
        for other in others:
            missing = self._missing(other)
            if missing is None:
                return
            open |= missing
        if open != progress.said:
            progress.said = open
            self._send(peer, SyncEnd("advertisements", tuple(sorted(open))))
