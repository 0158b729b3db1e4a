"""Settled: who is told, and when, that everything that followed from a request has happened.

Every control message a broker sends to a neighbour carries a token; the neighbour answers it
once all that it had to send on in turn has been answered. A `Request` is what somebody waits
for here: it is settled when no token is outstanding for it, and then answers those who asked.
Requests know nothing of what they are about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Answer = Callable[[], None]


class Request:
    """Waits for tokens; answers everybody who asked once the last is in and it was sealed."""

    __slots__ = ("answers", "on_settled", "on_side", "outstanding", "settled")

    def __init__(self, on_settled: Answer | None = None) -> None:
        self.outstanding: dict[str, set[int]] = _NOTHING
        """Per neighbour, what it has not answered; no neighbour without anything."""
        self.answers: list[tuple[str | None, Answer]] = _NOBODY
        self.settled = False
        self.on_settled = on_settled
        """Told when it settles, before those who asked."""
        self.on_side: Callable[[str], None] | None = None
        """Told of every neighbour that has answered all it had to."""


_NOTHING: Final[dict[str, set[int]]] = {}
_NOBODY: Final[list[tuple[str | None, Answer]]] = []
"""Of every request that has settled; there are many, and neither ever changes."""


class Settlement:
    """The tokens this broker has outstanding at its neighbours and the requests behind them."""

    def __init__(self) -> None:
        self._last_token = 0
        self._waiting: dict[str, dict[int, dict[Request, None]]] = {}
        """Per neighbour, the outstanding tokens with the requests that wait for them."""

    def token(self, peer: str) -> int:
        """A fresh token for something that `peer` will answer."""
        self._last_token += 1
        self._waiting.setdefault(peer, {})[self._last_token] = {}
        return self._last_token

    def wait(self, request: Request, peer: str, token: int) -> None:
        """`request` also waits for `token`, unless that has been answered already."""
        waiting = self._waiting.get(peer, {}).get(token)
        if waiting is None:
            return
        if request.outstanding is _NOTHING:
            request.outstanding = {}
        tokens = request.outstanding.setdefault(peer, set())
        if token not in tokens:
            tokens.add(token)
            request.settled = False
            waiting[request] = None

    def cancel(self, request: Request) -> None:
        """What was asked for has ended: nothing is waited for any more. Neighbours who asked are
        answered, because others may wait for what they asked for."""
        for peer, tokens in request.outstanding.items():
            for token in tokens:
                self._waiting[peer][token].pop(request, None)
        answers = request.answers
        request.outstanding, request.answers = _NOTHING, _NOBODY
        for asker, answer in answers:
            if asker is not None:
                answer()

    def seal(self, request: Request, asker: str | None, answer: Answer) -> None:
        """Everything to wait for is known: answer now, or when the last token comes in.

        `asker` is the neighbour to be answered, None for a local client."""
        if request.outstanding:
            if request.answers is _NOBODY:
                request.answers = []
            request.answers.append((asker, answer))
        else:
            _settle(request)
            answer()

    def answered(self, peer: str, token: int) -> None:
        """The neighbour has settled what `token` stood for; unknown tokens are ignored."""
        requests = self._waiting.get(peer, {}).pop(token, ())
        for request in requests:
            _drop(request, peer, token)
        for request in requests:
            if not request.outstanding and not request.settled:
                answers = request.answers
                _settle(request)
                for _, answer in answers:
                    answer()

    def replace(self, peer: str, old: int, new: int) -> None:
        """Who waited for `old` waits for `new` instead: the message was sent again."""
        for request in self._waiting.get(peer, {}).pop(old, ()):
            self.wait(request, peer, new)
            _drop(request, peer, old)

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
        self.seal(everything, None, lambda: self.answered(peer, all_settled))

    def drop_answers(self, peer: str) -> None:
        """`peer` has forgotten what it asked."""
        for waiting in self._waiting.values():
            for requests in waiting.values():
                for request in requests:
                    request.answers = [a for a in request.answers if a[0] != peer]


def _drop(request: Request, peer: str, token: int) -> None:
    """A request waits for a token no longer."""
    tokens = request.outstanding[peer]
    tokens.discard(token)
    if not tokens:
        del request.outstanding[peer]
        if request.on_side is not None:
            request.on_side(peer)


def _settle(request: Request) -> None:
    request.outstanding, request.answers = _NOTHING, _NOBODY
    request.settled = True
    if request.on_settled is not None:
        request.on_settled()
