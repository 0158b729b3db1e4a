"""Relocation: a publisher goes to another broker, and nothing is lost, doubled or reordered.

The first broker of the publisher (the *source*) leads. ASKED: every broker on the path gives shared
use of its move lock, or the move is refused at once (`moves.path`). PAUSING: the client is told to
stop publishing here, and says when it has: links and connections keep order, so all it published is
behind it. LEAVING: its session is over, its advertisements wait. The client connects to the target,
which takes them along (`Publishers`): the advertisement runs along the path to the source with a
greater attachment, each broker turning it around, and is settled back behind the last publication
made at the source. Only then does the target look at what the client has sent it. A client that
does not get there comes back and attaches here again.

A client that does not follow, or that subscribes, stays connected, and its broker does all of this
in its stead (`tether`); the source is then the broker it is attached to as a publisher,
and the client may be connected to any broker.

What fails leaves a lease that runs out, and the tether of a client that stays connected: once a
move of it has begun, its broker hands over to itself what it publishes until the next one. Nothing
else stays: the truth is where the publisher is attached, and brokers that hold something older are
told.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import Redirect, Stay
from gravitate.broker.moves.engine import Engine, Run
from gravitate.broker.moves.table import On, Part, Row, Wait, opening, opening_waits
from gravitate.broker.moves.tether.attached import Tethered, TetheredPublishers
from gravitate.broker.moves.tether.publisher import PublisherTethers
from gravitate.broker.sessions.clients import Clients, Session
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing
from gravitate.model.moves import RelocatePublisher


class State(enum.Enum):
    SEEKING = "seeking"
    ASKED = "asked"
    PAUSING = "pausing"
    LEAVING = "leaving"
    DONE = "done"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"


class Own(enum.Enum):
    AT_REST = "all that it published or advertised may have settled"
    DEPARTED = "what it advertised has been taken along"


OVER: Final = (On.STOPPING, On.LATE)
SOURCE: Final = Part(
    "relocation, source",
    State,
    {
        **opening_waits(State),
        State.PAUSING: Wait(5.0, "the client did not pause"),
        State.LEAVING: Wait(20.0, "the client arrived nowhere"),
    },
    (
        *opening(State, State.PAUSING, "redirect"),
        Row(State.PAUSING, On.PAUSED, State.PAUSING, "look"),
        Row(
            State.PAUSING, Own.AT_REST, State.ROLLED_BACK, "say_stay", "has_subscribed",
            "the client subscribed meanwhile",
        ),
        Row(State.PAUSING, Own.AT_REST, State.LEAVING, "send_away", "is_quiet"),
        Row(State.PAUSING, On.CLOSED, State.ROLLED_BACK),
        *(Row(State.PAUSING, end, State.ROLLED_BACK, "say_stay") for end in OVER),
        Row(State.LEAVING, Own.DEPARTED, State.DONE),
        Row(State.LEAVING, On.CAME_BACK, State.ROLLED_BACK),
        *(Row(State.LEAVING, end, State.ROLLED_BACK, "withdraw") for end in OVER),
    ),
)  # fmt: skip


@dataclass(eq=False)
class Relocations:
    """The relocations that start at this broker. Their subjects are publishers."""

    _context: Context
    _engine: Engine
    _clients: Clients
    _publishers: Publishers
    _tethers: PublisherTethers
    _tethered: TetheredPublishers

    def __post_init__(self) -> None:
        self._engine.lead(RelocatePublisher, SOURCE, self)

    # Beginning -----------------------------------------------------------------------------

    def objection(self, move: RelocatePublisher) -> str:
        id = repr(move.publisher)
        publisher = self.attached(move.publisher)
        if publisher is None:
            return f"{id} is not attached to {self._context.broker_id}"
        if self._engine.run_of(publisher):
            return f"{id} is on the move already"
        if publisher.origin is None and self._engine.run_of(self._client(publisher).outbound):
            return f"{id} is on the move as a subscriber"
        if publisher.state is Publishing.ARRIVING:
            return f"{id} is still arriving"
        if not publisher.at_rest():
            return f"what {id} published or advertised is not settled yet"
        return ""

    def begin(self, move: RelocatePublisher) -> tuple[Hashable, str]:
        publisher = self.attached(move.publisher)
        assert publisher is not None
        if publisher.origin is None and self._client(publisher).stays():
            publisher = self._tethers.make(publisher)
        return publisher, publisher.origin or ""

    def attached(self, id: str) -> Inbound | None:
        """The publisher, if it is attached to this broker."""
        session = self._clients.sessions.get(id)
        if session is not None and session.inbound.place is None:
            return session.inbound
        return self._tethered.find(id)

    def _client(self, publisher: Inbound) -> Session:
        return self._clients.sessions[publisher.id]

    # What happens --------------------------------------------------------------------------

    def on_at_rest(self, publisher: Inbound) -> None:
        self._engine.tell_subject(publisher, Own.AT_REST)

    def on_departure(self, publisher: Inbound, gone: bool) -> None:
        event = Own.DEPARTED if gone else On.CAME_BACK
        self._engine.tell_subject(publisher, event, "" if gone else f"{publisher.id!r} came back")

    # Guards and actions --------------------------------------------------------------------

    def is_quiet(self, run: Run, about: None) -> bool:
        """The client publishes nothing more, and nothing is under way from it."""
        return On.PAUSED in run.heard and bool(run.subject.at_rest())

    def has_subscribed(self, run: Run, about: None) -> bool:
        is_client = self.is_quiet(run, about) and run.subject.origin is None
        return is_client and self._client(run.subject).subscribes()

    def redirect(self, run: Run, about: None) -> None:
        run.subject.say(Redirect(run.move.target))

    def look(self, run: Run, about: None) -> None:
        self._engine.take(run, Own.AT_REST)

    def send_away(self, run: Run, about: None) -> None:
        if isinstance(run.subject, Tethered):
            self._tethered.depart(run.subject, run.id, run.move.target)
        else:
            self._clients.depart(run.subject, run.move.target)

    def say_stay(self, run: Run, about: None) -> None:
        if run.subject.live:
            run.subject.say(Stay())

    def withdraw(self, run: Run, about: None) -> None:
        self._publishers.abandon(run.subject)
