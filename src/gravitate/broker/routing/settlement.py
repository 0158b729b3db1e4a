"""Settled: who is told, and when, that everything that followed from a request has happened.

Every control message a broker sends to a neighbour carries a token; the neighbour answers it
once all that it had to send on in turn has been answered. A `Request` is what somebody waits
for here: it is settled when no token is outstanding for it, and then answers those who asked.

Where a link is *absent*, what was to be said on it waits. A request that waits for nothing else is
settled *partly*: everywhere but behind some brokers, the *open* ones. Who asked is told that too,
with their names, and again when they become fewer or others: so those who are there need not wait
for those who are not. A neighbour that has answered partly is waited for no less.

Requests know nothing of what they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

Answer = Callable[[], None]
Open = frozenset[str]
"""Brokers behind which something has not settled."""
Partly = Callable[[Open], None]

NOWHERE: Final[Open] = frozenset()


def _nothing(open: Open = NOWHERE) -> None:
    """For who does not want to know."""


class Asker(NamedTuple):
    """Who is to be told of a request."""

    peer: str | None
    """The neighbour that asked; None: a local client."""
    settled: Answer = _nothing
    partly: Partly = _nothing
    """Told behind which brokers alone it has not settled, as often as that changes."""


class Request:
    """Waits for tokens; answers everybody who asked once the last is in and it was sealed."""

    __slots__ = ("askers", "on_settled", "on_side", "open", "outstanding", "settled")

    def __init__(self) -> None:
        self.outstanding: dict[str, set[int]] = _NOTHING
        """Per neighbour, what it has not answered; no neighbour without anything."""
        self.askers: list[Asker] = _NOBODY
        self.settled = False
        self.open: Open | None = None
        """Where it has not settled, as those who asked were told; None: it has nowhere."""
        self.on_settled: Answer | None = None
        """Told when it settles, before those who asked."""
        self.on_side: Callable[[str, Open], None] | None = None
        """Told of every neighbour that has answered all it had to, partly or not: where it is open
        behind that one."""

    def tell_settled(self, told: Answer | None) -> None:
        self.on_settled = told

    def tell_sides(self, told: Callable[[str, Open], None] | None) -> None:
        self.on_side = told


_NOTHING: Final[dict[str, set[int]]] = {}
_NOBODY: Final[list[Asker]] = []
"""Of every request that has settled; there are many, and neither ever changes."""


@dataclass(slots=True, eq=False)
class _Token:
    """Something that a neighbour has not settled."""

    requests: dict[Request, None] = field(default_factory=dict)
    """Who waits for it."""
    open: Open | None = None
    """The neighbour has answered partly: where it has not settled."""


class Settlement:
    """The tokens this broker has outstanding at its neighbours and the requests behind them."""

    def __init__(self) -> None:
        self._last_token = 0
        self._waiting: dict[str, dict[int, _Token]] = {}
        """Per neighbour, the outstanding tokens."""
        self.away: set[str] = set()
        """Neighbours that cannot answer for now."""

    def token(self, peer: str) -> int:
        """A fresh token for something that `peer` will answer."""
        self._last_token += 1
        self._waiting.setdefault(peer, {})[self._last_token] = _Token()
        return self._last_token

    def wait(self, request: Request, peer: str, token: int) -> None:
        """`request` also waits for `token`, unless that has been answered already."""
        waiting = self._waiting.get(peer, {}).get(token)
        if waiting is None:
            return
        if request.outstanding is _NOTHING:
            request.outstanding = {}
        request.outstanding.setdefault(peer, set()).add(token)
        request.settled = False
        waiting.requests[request] = None

    def cancel(self, request: Request) -> None:
        """What was asked for has ended: nothing is waited for any more. Neighbours who asked are
        answered, because others may wait for what they asked for."""
        for peer, tokens in request.outstanding.items():
            for token in tokens:
                self._waiting[peer][token].requests.pop(request, None)
        askers = request.askers
        request.outstanding, request.askers = _NOTHING, _NOBODY
        for asker in askers:
            if asker.peer is not None:
                asker.settled()

    def seal(self, request: Request, asker: Asker) -> None:
        """Everything to wait for is known: answer now, or when the last token comes in."""
        if not request.outstanding:
            _settle(request, (asker,))
            return
        if request.askers is _NOBODY:
            request.askers = []
        request.askers.append(asker)
        self._review(request, (asker,))

    def answered(self, peer: str, token: int, open: Open = NOWHERE) -> None:
        """The neighbour has settled what `token` stood for, everywhere but behind brokers that are
        open; unknown tokens are ignored."""
        tokens = self._waiting.get(peer, {})
        waiting = tokens.get(token)
        if waiting is None or waiting.open == open:
            return
        waiting.open = open
        if not open:
            del tokens[token]
        requests = list(waiting.requests)
        for request in requests:
            if open:
                self.tell_side(request, peer)
            else:
                self._drop(request, peer, token)
        for request in requests:
            if request.outstanding:
                self._review(request)
            elif not request.settled:
                _settle(request, request.askers)

    def absent(self, peer: str) -> None:
        """The neighbour cannot answer for now: nobody waits for it who need not."""
        self.away.add(peer)
        waiting = self._waiting.get(peer, {}).values()
        for request in dict.fromkeys(chain.from_iterable(token.requests for token in waiting)):
            self._review(request)

    def _open(self, request: Request) -> Open | None:
        """Where a request has not settled; None while a neighbour that is there has not said."""
        found: set[str] = set()
        for peer, tokens in request.outstanding.items():
            waiting = self._waiting[peer]
            for token in tokens:
                open = waiting[token].open
                if open is not None:
                    found |= open
                elif peer in self.away:
                    found.add(peer)
                else:
                    return None
        return frozenset(found)

    def _review(self, request: Request, new: Iterable[Asker] = ()) -> None:
        """Tell those who asked where it is open, if that has changed; who is new in any case."""
        if request.askers and not request.settled:
            found = self._open(request)
            if found is not None:
                askers = new if found == request.open else list(request.askers)
                request.open = found
                for asker in askers:
                    asker.partly(found)

    def replace(self, peer: str, old: int, new: int) -> None:
        """Who waited for `old` waits for `new` instead: the message was sent again."""
        waiting = self._waiting.get(peer, {}).pop(old, None)
        for request in waiting.requests if waiting is not None else ():
            self.wait(request, peer, new)
            self._drop(request, peer, old)

    def forget(self, peer: str) -> None:
        """Nothing will answer `peer`'s tokens any more: they count as settled."""
        for token in list(self._waiting.get(peer, ())):
            self.answered(peer, token)
        self._waiting.pop(peer, None)

    def renew(self, peer: str, current: set[int]) -> None:
        """`peer` will answer nothing but `current`, the tokens of all that it was told anew.

        Who waited for something else waits for all of these: what it asked for may have been
        replaced by any of them."""
        outdated = [token for token in self._waiting.get(peer, ()) if token not in current]
        everything, all_settled = Request(), self.token(peer)
        for token in sorted(current):
            self.wait(everything, peer, token)
        for token in outdated:
            self.replace(peer, token, all_settled)
        answer = partial(self.answered, peer, all_settled)
        self.seal(everything, Asker(None, answer, answer))

    def drop_answers(self, peer: str) -> None:
        """`peer` has forgotten what it asked."""
        for tokens in self._waiting.values():
            for waiting in tokens.values():
                for request in waiting.requests:
                    request.askers = [asker for asker in request.askers if asker.peer != peer]

    def _drop(self, request: Request, peer: str, token: int) -> None:
        """A request waits for a token no longer."""
        tokens = request.outstanding[peer]
        tokens.discard(token)
        if not tokens:
            del request.outstanding[peer]
        self.tell_side(request, peer)

    def tell_side(self, request: Request, peer: str) -> None:
        """Say where a request has not settled on the side of a neighbour, as far as is known."""
        if request.on_side is not None:
            opens = [self._waiting[peer][token].open for token in request.outstanding.get(peer, ())]
            known = NOWHERE.union(*filter(None, opens))
            request.on_side(peer, frozenset((peer,)) if None in opens else known)


def _settle(request: Request, askers: Iterable[Asker]) -> None:
    request.outstanding, request.askers = _NOTHING, _NOBODY
    request.settled = True
    request.open = None
    if request.on_settled is not None:
        request.on_settled()
    for asker in askers:
        asker.settled()
