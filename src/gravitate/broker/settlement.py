"""Settled: who is told, and when, that everything that followed from a request has happened.

Every control message a broker sends to a neighbour carries a token; the neighbour answers it
once all that it had to send on in turn has been answered. A `Request` is what somebody waits
for here: it is settled when no token is outstanding for it, and then answers those who asked.
Requests know nothing of what they are about.
"""

from __future__ import annotations

from collections.abc import Callable

Answer = Callable[[], None]


class Request:
    """Waits for tokens; answers everybody who asked once the last is in and it was sealed."""

    __slots__ = ("answers", "outstanding", "settled")

    def __init__(self) -> None:
        self.outstanding: set[int] = set()
        self.answers: list[tuple[str | None, Answer]] = []
        self.settled = False


class Settlement:
    """The tokens this broker has outstanding at its neighbours and the requests behind them."""

    def __init__(self) -> None:
        self._last_token = 0
        self._waiting: dict[str, dict[int, list[Request]]] = {}
        """Per neighbour, the outstanding tokens with the requests that wait for them."""
        self.version = 0
        """Grows with every change of what waits for whom."""

    def token(self, peer: str) -> int:
        """A fresh token for something that `peer` will answer."""
        self._last_token += 1
        self._waiting.setdefault(peer, {})[self._last_token] = []
        return self._last_token

    def wait(self, request: Request, peer: str, token: int) -> None:
        """`request` also waits for `token`, unless that has been answered already."""
        waiting = self._waiting.get(peer, {}).get(token)
        if waiting is not None and token not in request.outstanding:
            request.outstanding.add(token)
            request.settled = False
            waiting.append(request)
            self.version += 1

    def awaits(self, request: Request, peer: str) -> bool:
        """Whether `request` waits for something that `peer` has to answer."""
        return not request.outstanding.isdisjoint(self._waiting.get(peer, ()))

    def seal(self, request: Request, asker: str | None, answer: Answer) -> None:
        """Everything to wait for is known: answer now, or when the last token comes in.

        `asker` is the neighbour to be answered, None for a local client."""
        if not request.outstanding:
            request.settled = True
            answer()
        else:
            request.answers.append((asker, answer))

    def answered(self, peer: str, token: int) -> None:
        """The neighbour has settled what `token` stood for; unknown tokens are ignored."""
        for request in self._close(peer, token):
            if not request.outstanding and not request.settled:
                request.settled = True
                answers, request.answers = request.answers, []
                for _, answer in answers:
                    answer()

    def replace(self, peer: str, old: int, new: int) -> None:
        """Who waited for `old` waits for `new` instead: the message was sent again."""
        for request in self._close(peer, old):
            self.wait(request, peer, new)

    def forget(self, peer: str) -> None:
        """Nothing will answer `peer`'s tokens any more: they count as settled."""
        for token in list(self._waiting.get(peer, ())):
            self.answered(peer, token)

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

    def _close(self, peer: str, token: int) -> list[Request]:
        self.version += 1
        requests = self._waiting.get(peer, {}).pop(token, [])
        for request in requests:
            request.outstanding.discard(token)
        return requests
