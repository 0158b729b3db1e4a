"""What was handed over to be published here is kept by who handed it over, until others have it.

A publication of a client of another broker's comes over a direct link and is passed on to
neighbours. The message that brought it is retained until every neighbour that it was passed on to
has acknowledged it: if this broker is lost before that, the client's own broker still has it, and
publishes it at home.
"""

from __future__ import annotations

from collections import deque

from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.links.link import Mark
from gravitate.broker.links.table import LinkTable
from gravitate.model.events import Batch


class Handovers:
    def __init__(self, dispatch: Dispatch, links: LinkTable) -> None:
        self._dispatch = dispatch
        self._links = links
        self._routed: list[tuple[Mark, set[str]]] = []
        """Of this step: what has brought something, and whom it was passed on to."""
        self._waiting: dict[str, deque[tuple[Mark, dict[str, tuple[int, int]]]]] = {}
        """The same of earlier ones, by who has handed it over, with the numbers that neighbours are
        to acknowledge."""

    def route(self, batch: Batch, mark: Mark) -> None:
        """Pass on a publication that a message has brought, which is retained."""
        passed_on = self._dispatch.passed_on = set()
        self._links.brought = mark
        self._dispatch.route(batch, None)
        self._links.brought = None
        self._dispatch.passed_on = None
        self._routed.append((mark, passed_on))

    def review(self) -> None:
        """Let go of what neighbours have, at the end of a step: all is queued on links by now."""
        if not self._routed and not self._waiting:
            return
        for mark, peers in self._routed:
            waiting = self._waiting.setdefault(mark.peer, deque())
            waiting.append((mark, {peer: self._queued(peer) for peer in peers}))
        self._routed.clear()
        for origin in list(self._waiting):
            self._review(self._waiting[origin])
            if not self._waiting[origin]:
                del self._waiting[origin]

    def _review(self, waiting: deque[tuple[Mark, dict[str, tuple[int, int]]]]) -> None:
        while waiting:
            mark, numbers = waiting[0]
            for peer in [peer for peer in numbers if self._has(peer, numbers)]:
                del numbers[peer]
            if numbers:
                return
            waiting.popleft()
            self._links.let_go(mark)

    def _queued(self, peer: str) -> tuple[int, int]:
        """Up to where something is queued for a neighbour, and in which numbering."""
        link = self._links[peer]
        return link.series, link.tail.last

    def _has(self, peer: str, numbers: dict[str, tuple[int, int]]) -> bool:
        """Whether a neighbour has what it is to acknowledge, or will never have it."""
        if peer not in self._links or self._links[peer].given_up:
            return True
        series, _ = self._queued(peer)
        if series != numbers[peer][0]:
            # The link has started anew: what is queued on it has other numbers now.
            numbers[peer] = self._queued(peer)
        return self._links[peer].taken >= numbers[peer][1]
