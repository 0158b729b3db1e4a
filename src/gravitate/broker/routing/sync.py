"""Synchronisation: after a link was reset, when has a neighbour said all it knows?

A broker that has lost its state learns the network from its neighbours and cannot say more than
they have told it. So `SyncEnd` runs over the tree in two waves: *advertisements* goes to a
neighbour once all others have said theirs; *subscriptions*, which depend on advertisements,
once that neighbour's advertisements and all others' subscriptions are in. On a tree neither
wave can wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gravitate.broker.messages import Control, SyncEnd
from gravitate.broker.settlement import Settlement


class _Progress:
    """How far a neighbour and this broker have told each other everything since a reset."""

    __slots__ = (
        "advertisements_in", "advertisements_out", "greeted", "subscriptions_in",
        "subscriptions_out", "token",
    )  # fmt: skip

    def __init__(self, token: int, greeted: bool) -> None:
        self.token = token
        """Answered when the neighbour has said all its advertisements."""
        self.greeted = greeted
        self.advertisements_in = self.subscriptions_in = False
        self.advertisements_out = self.subscriptions_out = False


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

    def ended(self, peer: str, what: str) -> None:
        """The neighbour has said all it knows of `what`."""
        progress = self._progress[peer]
        if what == "advertisements":
            progress.advertisements_in = True
            self._settlement.answered(peer, progress.token)
        else:
            progress.subscriptions_in = True
        self.advance()

    def advance(self) -> None:
        """Say `SyncEnd` to every neighbour that has been told everything."""
        for peer, progress in self._progress.items():
            if not progress.greeted:
                continue
            others = [other for name, other in self._progress.items() if name != peer]
            if not progress.advertisements_out and all(o.advertisements_in for o in others):
                progress.advertisements_out = True
                self._send(peer, SyncEnd("advertisements"))
            if (
                progress.advertisements_out
                and not progress.subscriptions_out
                and progress.advertisements_in
                and all(o.subscriptions_in for o in others)
            ):
                progress.subscriptions_out = True
                self._send(peer, SyncEnd("subscriptions"))
