"""One subscriber's tether at its origin: where it is served, and what it wants.

Plain state; what is told to whom, and when, is `subscriber_tethers`' business.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from gravitate.broker.guest_messages import Wanted
from gravitate.broker.sessions import Session


class State(enum.Enum):
    ATTACHED = "attached"
    PAUSED = "paused"
    ATTACHING = "attaching"
    RECALLING = "recalling"


class SubscriberTether:
    """One client of this broker as a subscriber."""

    __slots__ = (
        "attachment", "destination", "former", "move", "next_path", "number", "path", "place",
        "recall", "recalled_at", "session", "state", "stream", "unsettled", "wanted",
    )  # fmt: skip

    def __init__(self, session: Session, here: str, number: int, wanted: Sequence[Wanted]) -> None:
        self.session = session
        self.number = number
        self.state = State.ATTACHED
        self.attachment = 0
        self.place = here
        """The broker that serves it, or is about to."""
        self.stream = (here, 0)
        """The place, and its attachment there, that what is for the client is taken from: the last
        one that it was attached to, also while it is recalled from there."""
        self.former = ""
        """Where it goes back to when that does not succeed."""
        self.destination = ""
        """Where it has been told to go."""
        self.path: tuple[str, ...] = (here,)
        """Along the tree, from this broker to the one that has last served it."""
        self.next_path: tuple[str, ...] = (here,)
        """The same for the one that is about to."""
        self.move = ""
        """The one that it is attached for; empty: it goes back."""
        self.recall = ""
        """The move by which it comes home."""
        self.recalled_at = 0.0
        self.wanted = {one.name: one for one in wanted}
        self.unsettled: set[str] = set(session.unsettled_subscriptions)
        """Names of subscriptions that the client has not been told to have settled."""

    def places(self) -> set[str]:
        """Brokers that it is served by, goes to, or may go back to."""
        return {self.place, self.former, self.destination}


def joined(path: Sequence[str], onward: Sequence[str]) -> tuple[str, ...]:
    """The way along a tree from the first broker of `path` to the last of `onward`, which begins
    where `path` ends.

    >>> joined(("a", "b", "c"), ("c", "b", "d"))
    ('a', 'b', 'd')
    """
    assert path[-1] == onward[0], f"{onward} does not begin where {path} ends"
    way = list(path)
    for broker in onward[1:]:
        if len(way) > 1 and way[-2] == broker:
            way.pop()
        else:
            way.append(broker)
    return tuple(way)
