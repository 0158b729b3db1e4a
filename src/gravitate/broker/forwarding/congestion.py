"""Back-pressure that cannot deadlock, for those alone whose events go there.

A broker with a link that has too much unacknowledged looks at whose events are still queued for it,
and says so towards each of these publishers, along the way that its events came (`Congested`). The
broker where a publisher is attached holds it: its client is not read from. When the link has
drained, the word is taken back along the same ways (`Drained`). Neighbours are never held back, so
what is under way drains whatever the directions it goes in; publishers whose events go elsewhere
notice nothing.

A word that was lost does no harm: whoever goes on publishing over the link is told again, and what
was said by a neighbour that cannot be heard any more counts as taken back.

Owns who is held because of which link, and who said so. Does not know what holding is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.links.link import Link
from gravitate.broker.links.table import QUEUED, LinkTable
from gravitate.broker.lives import Life
from gravitate.broker.messages.frames import Congested, Control, Drained
from gravitate.broker.routing.router import Router

CongestedLink = tuple[str, str]
"""The broker whose queue it is, and the one that it is for."""

AGAIN_S: Final = 1.0
"""How often a publisher is told that goes on publishing over a congested link."""
LATEST_MESSAGES: Final = 64
"""So many at the end of a queue tell who has made it too long."""
WORDS_MAX: Final = 10_000
"""Congested links that are remembered; there are no more than the network has."""
LIVES_MAX: Final = 1_000
"""Publishers in one message."""


@dataclass(slots=True)
class _Word:
    """What is known here of one congested link."""

    said_by: str | None
    """The neighbour that said it; None: the link is this broker's own."""
    told: dict[str, None] = field(default_factory=dict)
    """Neighbours that were told."""
    held: dict[Life, None] = field(default_factory=dict)
    """Publishers here that are held because of it."""


@dataclass(slots=True)
class _Own:
    """Publishers that have been told of an own link, and need not be again for a while."""

    told_since: float
    told: set[Life] = field(default_factory=set)


class CongestionView:
    """`is_here` tells whether a publisher is attached here; `update` is called for each of those
    that is held, or held no longer."""

    def __init__(
        self,
        context: Context,
        links: LinkTable,
        router: Router,
        send: Callable[[str, Control], None],
        is_here: Callable[[Life], bool],
        update: Callable[[Life], None],
    ) -> None:
        self._context, options = context, context.options
        self._high = (options.link_queue_events_max, options.link_queue_bytes_max)
        self._low = (self._high[0] // 2, self._high[1] // 2)
        self._links = links
        self._router = router
        self._send = send
        self._is_here = is_here
        self._update = update
        self._own: dict[Link, _Own] = {}
        """This broker's congested links."""
        self._words: dict[CongestedLink, _Word] = {}
        self._held: dict[Life, dict[CongestedLink, None]] = {}

    def is_held(self, life: Life) -> bool:
        return life in self._held

    def held(self) -> dict[CongestedLink, list[str]]:
        """The publishers here that are held, by the links because of which they are."""
        return {
            link: sorted({publisher for publisher, _ in word.held})
            for link, word in self._words.items()
            if word.held
        }

    def review(self) -> None:
        """Look at this broker's own links, at the end of a step."""
        if not self._own and not self._links.queued.exceeds(*self._high):
            return
        here, now = self._context.broker_id, self._context.now
        for link in [link for link in self._own if not link.queued.exceeds(*self._low)]:
            del self._own[link]
            link.crossing = None
            self._take_back((here, link.peer))
        for link in self._links:
            own = self._own.get(link)
            if own is None:
                if not link.queued.exceeds(*self._high):
                    continue
                own = self._own[link] = _Own(now)
                link.crossing = _latest(link)
            if now >= own.told_since + AGAIN_S:
                own.told.clear()
                own.told_since = now
            if link.crossing:
                lives = [life for life in link.crossing if life not in own.told]
                link.crossing = {}
                own.told.update(lives)
                self._spread((here, link.peer), None, lives)

    # What neighbours say -------------------------------------------------------------------

    def on_congested(self, peer: str, message: Congested) -> None:
        word = self._words.get(message.link)
        if word is not None and word.said_by != peer:
            self._take_back(message.link)
        elif word is None and len(self._words) >= WORDS_MAX:
            return
        self._spread(message.link, peer, message.publishers)

    def on_drained(self, peer: str, message: Drained) -> None:
        word = self._words.get(message.link)
        if word is not None and word.said_by == peer:
            self._take_back(message.link)

    def forget(self, peer: str) -> None:
        """Nothing is heard from a neighbour any more: what it said may have changed since."""
        for link in [link for link, word in self._words.items() if word.said_by == peer]:
            self._take_back(link)

    def left(self, life: Life) -> None:
        """A publisher has left; another of its life may be here."""
        if self._is_here(life):
            return
        for link in self._held.pop(life, ()):
            del self._words[link].held[life]
            self._drop_idle(link)

    # ---------------------------------------------------------------------------------------

    def _spread(self, link: CongestedLink, said_by: str | None, lives: Sequence[Life]) -> None:
        """Hold the publishers that are here, and pass it on towards the others."""
        word = self._words.setdefault(link, _Word(said_by))
        ways: dict[str, list[Life]] = {}
        for life in lives:
            if self._is_here(life):
                word.held[life] = None
                self._held.setdefault(life, {})[link] = None
                self._update(life)
                continue
            for side in self._router.sides_of(life):
                if side != said_by:
                    ways.setdefault(side, []).append(life)
        for peer, some in ways.items():
            word.told[peer] = None
            for at in range(0, len(some), LIVES_MAX):
                self._send(peer, Congested(link, tuple(some[at : at + LIVES_MAX])))
        self._drop_idle(link)

    def _take_back(self, link: CongestedLink) -> None:
        word = self._words.pop(link, None)
        if word is None:
            return
        for life in word.held:
            links = self._held[life]
            del links[link]
            if not links:
                del self._held[life]
                self._update(life)
        for peer in word.told:
            self._send(peer, Drained(link))

    def _drop_idle(self, link: CongestedLink) -> None:
        """A word that concerns nobody need not be remembered."""
        word = self._words[link]
        if not word.held and not word.told:
            del self._words[link]


def _latest(link: Link) -> dict[Life, None]:
    """Whose events were queued last."""
    messages = link.tail.after(link.tail.last - LATEST_MESSAGES)
    return {
        batch.stream: None
        for message in messages
        if isinstance(message, QUEUED)
        for batch in message.batches
    }
