"""One link as this side sees it: plain state, changed by `table` and `peering` alone; and who is
told what happens on links."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from gravitate.broker.interface.timers import AcknowledgeLink
from gravitate.broker.links.tail import Tail
from gravitate.broker.lives import Life
from gravitate.broker.measure import Measure
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.observers import LinkChange


class LinkState(enum.Enum):
    DOWN = "down"
    GREETING = "greeting"
    UP = "up"


class Mark(NamedTuple):
    """A message that has come over a link: in which of its series, and its number."""

    link: Link
    series: int
    number: int


class LinkEvents(NamedTuple):
    """Who is told what happens on links, and asked what outlives it."""

    message: Callable[[str, Message], None]
    """Takes each message received, in order."""
    received: Callable[[str, Message], None]
    """Told of every message that a broker at the other end of a tether has received."""
    done_with: Callable[[str, Message], None]
    """Told of every message that it need not have again: it has passed on what was in it."""
    changed: Callable[[str, LinkChange], None]
    """Told what becomes of a link; of a reset before anything is sent anew."""
    collect: Callable[[], None]
    """Brings in what is under way to links in this call, before a reset divides old and new."""
    keep: Callable[[str, Publications], Publications]
    """Makes publications fit for a neighbour that has forgotten everything."""


class Link:
    def __init__(self, peer: str, dials: bool, is_primary: bool) -> None:
        self.peer = peer
        self.dials = dials
        self.is_primary = is_primary
        """It is the tree's, and stays."""
        self.tethers = not is_primary
        """It is for tethers too, or alone, which may change while it is open."""
        self.state = LinkState.DOWN
        self.connection = 0
        self.peer_incarnation = 0
        """The incarnation this link was last reset with; 0: never met."""
        self.has_forgotten = False
        """At the last reset, whether the peer had lost what it knew of this broker."""
        self.received = 0
        self.received_series = 0
        """The numbering of the peer's that `received` is in."""
        self.received_before: tuple[int, int] | None = None
        """The same of the former numbering, from a reset until something comes in the new one: if
        the connection is lost before that, the peer may go on with the former."""
        self.oldest: list[int] = []
        """A heap of the keys of `retained`, and of some that are gone."""
        self.retained: dict[int, int] = {}
        """Numbers of messages that have brought something which nobody else has yet: the peer is
        to keep them until somebody does. With how many wait for each."""
        self.series = 1
        """The numbering of the tail; with every reset another begins, and marks are void."""
        self.tail: Tail[Message] = Tail()
        self.sent = 0
        """Last number sent on this connection."""
        self.taken = 0
        """Last number that the peer has received."""
        self.queued = Measure()
        """Of the events in the tail."""
        self.crossing: dict[Life, None] | None = None
        """Whose events were queued since the last look; None: it is not congested."""
        self.control_bytes = 0
        """Of everything else in the tail, about."""
        self.starts_anew = False
        """It has forgotten what it had to say, events apart: the next connection is a reset."""
        self.unacknowledged = 0
        """Messages received since the last acknowledgement went out."""
        self.acknowledge_timer = AcknowledgeLink(peer)
        self.is_timed = False
        """That timer is set."""
        self.attempts = 0
        self.heard_at = self.pinged_at = 0.0
        self.is_doubted = False
        """Silent for too long, it is looked at once more: this broker may have been paused."""
        self.refused_first: tuple[int, int] | None = None
        """The numbering, and the first number not acknowledged, when the peer last refused."""
        self.complained_at = -math.inf
        """When it was last said that the peer refuses the same again and again."""
        self.rtt_s = 0.0
        """Smoothed; 0 while unknown."""
        self.is_absent = False
        """It has not been up for a while."""
        self.given_up = False
        self.peer_draining = False
        self.untaken = False
        """Data came on this connection that was not taken."""

    def retains(self) -> int:
        """How many of the last messages received the peer is to keep."""
        oldest = self.oldest
        while oldest and oldest[0] not in self.retained:
            heappop(oldest)
        return self.received + 1 - oldest[0] if oldest else 0

    def retain(self, number: int) -> None:
        """The peer is to keep a message of its, and what came behind it."""
        if number not in self.retained:
            heappush(self.oldest, number)
        self.retained[number] = self.retained.get(number, 0) + 1

    def let_go(self, number: int) -> bool:
        """Whether nobody needs the peer to keep a message any more."""
        left = self.retained.pop(number, 0) - 1
        if left > 0:
            self.retained[number] = left
        return left == 0

    def has_received(self) -> tuple[int, int]:
        """The last number of the peer's that is certain, and its numbering."""
        return self.received_before or (self.received, self.received_series)
