"""What is asked about guests over links that are down.

A guest that comes home asks its old place what it has had. Where the way there is cut, the broker
in front of the gap answers in its stead (`salvage`), and asks as soon as the link is back. Nothing
need wait on a link that is down: who asks does so again by itself until it has an answer.
"""

from __future__ import annotations

from typing import Final

from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.guests import GuestAnswer, GuestCut, GuestStep
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage

DEFERRED_MAX: Final = 1_000
"""Questions that wait for one link."""


class Questions:
    def __init__(self, paths: MovePaths, links: LinkTable, salvage: Salvage) -> None:
        self._paths = paths
        self._links = links
        self._salvage = salvage
        self._deferred: dict[str, dict[str, GuestAnswer]] = {}
        """What was to be asked over links that are down, by neighbour and move."""
        self._up: list[str] = []
        """Those of them that are back, in this step."""

    def pass_back(self, answer: GuestAnswer, place: int) -> list[GuestCut]:
        """What a guest says goes on towards its old place; if that cannot be asked, what is to be
        answered in its stead."""
        peer = answer.path[place - 1]
        asks = answer.step is GuestStep.READY and bool(answer.origin)
        cuts = self._salvage.answer_for(answer, place) if asks else []
        if asks and not self._links.is_up(peer):
            deferred = self._deferred.setdefault(peer, {})
            if answer.move in deferred or len(deferred) < DEFERRED_MAX:
                deferred[answer.move] = answer
        elif not cuts:
            self._paths.pass_on(peer, answer)
        return cuts

    def link_up(self, peer: str) -> None:
        if peer in self._deferred:
            self._up.append(peer)

    def link_given_up(self, peer: str) -> None:
        self._deferred.pop(peer, None)

    def flush(self) -> None:
        """Behind all that waited for links which are back: what was to be asked over them."""
        while self._up:
            peer = self._up.pop()
            for answer in self._deferred.pop(peer, {}).values():
                if self._links.is_up(peer):
                    self._paths.pass_on(peer, answer)
