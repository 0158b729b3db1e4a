"""What was handed over to be published here is kept by who handed it over, until others have it.

A publication of a client of another broker's comes over a direct link and is passed on to
neighbours. The message that brought it is retained until every neighbour that it was passed on to
has acknowledged it: if this broker is lost before that, the client's own broker still has it, and
publishes it at home.
"""

from __future__ import annotations

from collections import deque

from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.links.link import Link, Mark
from gravitate.broker.links.table import LinkTable
from gravitate.model.events import Batch

Numbers = dict[Link, tuple[int, int]]
"""Up to where neighbours are to acknowledge what is queued for them, and in which series."""


class Handovers:
    def __init__(self, dispatch: Dispatch, links: LinkTable) -> None:
        self._dispatch = dispatch
        self._links = links
        self._routed: list[tuple[Mark, set[str]]] = []
        """Of this step: what has brought something, and whom it was passed on to."""
        self._waiting: dict[Link, deque[tuple[Mark, Numbers]]] = {}
        """The same of earlier ones, by who has handed it over."""

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
            links = (self._links[peer] for peer in peers)
            numbers = {link: (link.series, link.tail.last) for link in links}
            self._waiting.setdefault(mark.link, deque()).append((mark, numbers))
        self._routed.clear()
        for origin, waiting in list(self._waiting.items()):
            while waiting and _have_all(waiting[0][1]):
                self._links.let_go(waiting.popleft()[0])
            if not waiting:
                del self._waiting[origin]


def _have_all(numbers: Numbers) -> bool:
    """Whether all neighbours have what they are to acknowledge, or will never have it; those that
    do are not looked at again."""
    for link, (series, last) in list(numbers.items()):
        if series != link.series:
            # It has started anew: what is queued on it has other numbers now.
            last = link.tail.last
            numbers[link] = (link.series, last)
        if link.given_up or link.taken >= last:
            del numbers[link]
    return not numbers
