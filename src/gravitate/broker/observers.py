"""How traces, checkers and mechanisms watch a broker without being known to it.

A broker calls every observer at each step of an event's way. The calls carry what happened, not
samples of it; an observer that samples does so itself. With no observer the cost is one test of
an empty tuple.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.moves import Move, MoveOutcome


class LinkChange(enum.Enum):
    """What becomes of a link."""

    RESET = "reset"
    RESUMED = "resumed"
    DOWN = "down"
    ABSENT = "absent"
    """It has been down for a while, which is no news to observers."""
    GIVEN_UP = "given up"


class Matched(NamedTuple):
    """A batch at a broker: event `i` goes to the sessions `local[i]` and the peers `links[i]`."""

    broker: str
    came_from: str | None
    batch: Batch
    local: Sequence[Sequence[str]]
    links: Sequence[Sequence[str]]


class Observer:
    """Override what you need; every method does nothing by default."""

    def mark(self, batch: Batch, now: float) -> int:
        """The trace mark for a batch that its first broker takes in, which stays with every part of
        it at all brokers; 0: none."""
        return 0

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        """The first broker took the batch in: the one that the publisher is attached to, be it by a
        tether. `batch.published_at` is when its client's broker did."""

    def on_handed_over(self, broker: str, peer: str, batch: Batch, now: float) -> None:
        """The batch went over a tether, which is no hop of it: unmatched to the broker that its
        publisher is attached to, which will take it in; or matched (its path ends at `broker`) to
        the broker of its subscriber, which will deliver it."""

    def on_hop(self, hop: Matched, now: float) -> None:
        """A batch was matched at a broker."""

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        """The batch was handed to a session (after order and duplicate checks). `broker` has
        matched it; it is another than the one that tells where the subscriber is tethered."""

    def on_dropped(self, broker: str, session: str, count: int, reason: str, now: float) -> None:
        """Events for a session were discarded: duplicates, or QoS 0 to a client that is slow."""

    def on_session(self, broker: str, session: str, state: str, now: float) -> None:
        """A client's session began or ended: `opened`, `closed`; or a subscriber that is connected
        elsewhere began or ended to be served here: `served`, `left`."""

    def on_subscriber_moved(
        self, broker: str, session: str, source: str, since: float, now: float
    ) -> None:
        """A client has come to `broker` as a subscriber: its session there, opened and subscribed
        just now, goes on where the one left off that was at `source` when the move began, `since`.
        That one ends without delivering anything more."""

    def on_subscribed(
        self, broker: str, session: str, subscription: str, filter: Filter, now: float
    ) -> None:
        """A local client subscribed."""

    def on_settled(self, broker: str, session: str, subscription: str, now: float) -> None:
        """A local client's subscription must be served from now on."""

    def on_unsubscribed(self, broker: str, session: str, subscription: str, now: float) -> None:
        """A local client's subscription ended."""

    def on_link(self, broker: str, peer: str, change: LinkChange, now: float) -> None:
        """A link changed: `resumed`, `reset`, `down`, `given up`."""

    def on_mechanism_sent(
        self, broker: str, peer: str, mechanism: str, size_bytes: int, now: float
    ) -> None:
        """A mechanism sent a message of its own to its counterpart at a neighbour."""

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        """A proposed move ended."""
