"""One subscriber's tether at its origin: where it is served, and what it wants.

Plain state; what is told to whom, and when, is the business of `subscriber_origin`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from gravitate.broker.messages.guests import Wanted
from gravitate.broker.sessions.local import LocalOutbound


class State(enum.Enum):
    ATTACHED = "attached"
    PAUSED = "paused"
    ATTACHING = "attaching"
    RECALLING = "recalling"


class SubscriberTether:
    """One client of this broker as a subscriber."""

    __slots__ = (
        "asked", "attachment", "destination", "far_stream", "former", "former_path", "made",
        "move", "next_path", "number", "path", "place", "recall", "served", "session",
        "settled_but_for_missing", "state", "stream",
        "unsettled", "version", "wanted",
    )  # fmt: skip

    def __init__(
        self, session: LocalOutbound, here: str, number: int, wanted: Sequence[Wanted]
    ) -> None:
        self.session = session
        self.number = number
        self.state = State.ATTACHED
        self.attachment = 0
        self.place = here
        """The broker that serves it, or is about to."""
        self.stream = (here, 0)
        """The place, and its attachment there, that what is for the client is taken from: the last
        one that it was attached to, also while it is recalled from there."""
        self.far_stream: tuple[str, int] | None = None
        """The same of a place that could not be asked when it was recalled from there: if that is
        there after all, what it has had from behind it is still to come."""
        self.former = ""
        """Where it goes back to when that does not succeed."""
        self.destination = ""
        """Where it has been told to go."""
        self.path: tuple[str, ...] = (here,)
        """Along the tree, from this broker to the one that has last served it."""
        self.next_path: tuple[str, ...] = (here,)
        """The same for the one that is about to."""
        self.former_path: tuple[str, ...] = ()
        """The same for the one before, until the last one has served it for certain."""
        self.move = ""
        """The one that it is attached for; empty: it goes back."""
        self.recall = ""
        """The move by which it comes home, until nothing of it is missing."""
        self.asked = 0
        """How often the place that served it was asked for what it has."""
        self.wanted = {one.name: one for one in wanted}
        self.version = 0
        """How often that has changed."""
        self.made: dict[str, int] = dict.fromkeys(self.wanted, 0)
        """As of when each of these is wanted."""
        self.served = 0
        """As of when the place that serves it is known to know what it wants."""
        self.unsettled: set[str] = set(session.unsettled_subscriptions)
        """Names of subscriptions that the client has not been told to have settled."""
        self.settled_but_for_missing: set[str] = set()
        """Those of them that have, but for what is missing of a place that could not be asked."""

    def wanted_since(self, version: int) -> list[Wanted]:
        """What the client wants, and has wanted as of a version."""
        return [one for name, one in self.wanted.items() if self.made[name] <= version]

    def places(self) -> set[str]:
        """Brokers that it is served by, goes to, or may go back to."""
        return {self.place, self.former, self.destination}
