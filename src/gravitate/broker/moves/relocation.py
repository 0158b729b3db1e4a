"""Relocation: a publisher goes to another broker, and nothing is lost, doubled or reordered.

The first broker of the publisher (the *source*) leads:

    ASKED ----granted----> PAUSING ----paused----> LEAVING ----gone----> done
      |                       |                       |
      '-refused, late: refused '-late: rolled back     '-back, late: rolled back

ASKED: every broker on the path gives shared use of its move lock, or the move is refused at once
(`moves.path`). PAUSING: the client is told to stop publishing here, and says when it has: links and
connections keep order, so all it published is behind it. LEAVING: its session is over, its
advertisements wait. The client connects to the target, which takes them along (`Clients`): the
advertisement runs along the path to the source with a greater attachment, each broker turning it
around, and is settled back behind the last publication made at the source. Only then does the
target look at what the client has sent it. A client that does not get there comes back and attaches
here again.

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
from collections.abc import Callable
from functools import partial
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import Redirect, Stay
from gravitate.broker.interface.timers import MoveLate
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.tether.attached import Tethered, TetheredPublishers
from gravitate.broker.moves.tether.publisher import PublisherTethers
from gravitate.broker.sessions.clients import Clients
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing
from gravitate.model.moves import Move, MoveOutcome, RelocatePublisher


class State(enum.Enum):
    ASKED = "asked"
    PAUSING = "pausing"
    LEAVING = "leaving"


PATIENCE_S: Final = {State.ASKED: 5.0, State.PAUSING: 5.0, State.LEAVING: 20.0}
"""How long a move may stay in a state."""
LEASE_S: Final = sum(PATIENCE_S.values())

LATE: Final = {
    State.ASKED: MoveOutcome.REFUSED,
    State.PAUSING: MoveOutcome.ROLLED_BACK,
    State.LEAVING: MoveOutcome.ROLLED_BACK,
}
"""What becomes of a move that stays too long."""

WAITED_FOR: Final = {
    State.ASKED: "the brokers on the path did not all answer",
    State.PAUSING: "the client did not pause",
    State.LEAVING: "the client arrived nowhere",
}


class _Relocation:
    """One move, at its source."""

    __slots__ = ("move", "paused", "publisher", "state")

    def __init__(self, move: RelocatePublisher, publisher: Inbound) -> None:
        self.move = move
        self.publisher = publisher
        self.state = State.ASKED
        self.paused = False
        """The client publishes nothing more; it leaves once its session is at rest."""


class Relocations:
    """The relocations that start at this broker, and its part in those that pass it."""

    def __init__(
        self,
        context: Context,
        clients: Clients,
        publishers: Publishers,
        tethers: PublisherTethers,
        tethered: TetheredPublishers,
        paths: MovePaths,
        ended: Callable[[Move, MoveOutcome, str], None],
        entered: Callable[[Move, str], None],
        is_busy: Callable[[str], bool],
    ) -> None:
        self._context = context
        self._clients = clients
        self._publishers = publishers
        self._tethers = tethers
        self._tethered = tethered
        self._paths = paths
        self._ended = ended
        self._entered = entered
        self._by_publisher: dict[str, _Relocation] = {}
        self._is_busy = is_busy
        """Whether a client is about to be sent elsewhere for another reason."""

    # At the source -------------------------------------------------------------------------

    def propose(self, move: Move) -> None:
        """Begin to carry out a move; its end is told to `ended`."""
        assert isinstance(move, RelocatePublisher)
        objection = self._objection(move)
        if objection:
            self._ended(move, MoveOutcome.REFUSED, objection)
            return
        publisher = self._attached(move.publisher)
        assert publisher is not None
        if publisher.origin is None and self._clients.sessions[publisher.id].stays():
            publisher = self._tethers.make(publisher)
        relocation = self._by_publisher[move.publisher] = _Relocation(move, publisher)
        origin = publisher.origin if isinstance(publisher, Tethered) else ""
        self._paths.ask(move, LEASE_S, origin, partial(self._answered, relocation))
        self._enter(relocation, State.ASKED)

    def may_move(self, publisher: str) -> bool:
        """Whether a publisher of this broker could be sent elsewhere, as far as is known here."""
        return self._attached(publisher) is not None

    def is_moving(self, publisher: str) -> bool:
        """Whether the client of a session here is about to be sent elsewhere."""
        moving = self._by_publisher.get(publisher)
        return moving is not None and moving.publisher.origin is None

    def _attached(self, id: str) -> Inbound | None:
        """The publisher, if it is attached to this broker."""
        session = self._clients.sessions.get(id)
        if session is not None and session.inbound.place is None:
            return session.inbound
        return self._tethered.find(id)

    def _objection(self, move: RelocatePublisher) -> str:
        """Why the move cannot begin; empty when it can."""
        id = repr(move.publisher)
        publisher = self._attached(move.publisher)
        if publisher is None:
            return f"{id} is not attached to {self._context.broker_id}"
        if move.publisher in self._by_publisher:
            return f"{id} is on the move already"
        if publisher.state is Publishing.ARRIVING:
            return f"{id} is still arriving"
        if not publisher.at_rest():
            return f"what {id} published or advertised is not settled yet"
        if self._is_busy(move.publisher):
            return f"{id} is on the move as a subscriber"
        return self._paths.objection(move)

    def paused(self, id: str) -> None:
        """The client publishes nothing more here."""
        session = self._clients.sessions.get(id)
        if session is not None:
            self.on_paused(session.inbound)

    def on_paused(self, publisher: Inbound) -> None:
        relocation = self._by_publisher.get(publisher.id)
        if (
            relocation is None
            or relocation.publisher is not publisher
            or relocation.state is not State.PAUSING
        ):
            self._say_stay(publisher)
        else:
            relocation.paused = True
            self.on_at_rest(publisher)

    def on_at_rest(self, publisher: Inbound) -> None:
        relocation = self._by_publisher.get(publisher.id)
        if (
            relocation is None
            or relocation.publisher is not publisher
            or relocation.state is not State.PAUSING
            or not relocation.paused
            or not publisher.at_rest()
        ):
            return
        target = relocation.move.target
        if isinstance(publisher, Tethered):
            self._enter(relocation, State.LEAVING)
            self._tethered.depart(publisher, relocation.move.id, target)
        elif self._clients.sessions[publisher.id].subscribes():
            reason = f"{publisher.id!r} subscribed meanwhile"
            self._end(relocation, MoveOutcome.ROLLED_BACK, reason)
            self._say_stay(publisher)
        else:
            self._enter(relocation, State.LEAVING)
            self._clients.depart(publisher, target)

    def _say_stay(self, publisher: Inbound) -> None:
        publisher.say(Stay())

    def expired(self, move: str) -> None:
        """A state has lasted too long."""
        relocation = self._moving(move)
        if relocation is None:
            return
        publisher, state = relocation.publisher, relocation.state
        self._end(relocation, LATE[state], f"{WAITED_FOR[state]} within {PATIENCE_S[state]:g} s")
        if state is State.PAUSING and publisher.live:
            self._say_stay(publisher)
        elif state is State.LEAVING:
            self._publishers.abandon(publisher.id)

    def on_closed(self, publisher: Inbound) -> None:
        relocation = self._by_publisher.get(publisher.id)
        if (
            relocation is not None
            and relocation.publisher is publisher
            and relocation.state is not State.LEAVING
        ):
            self._end(relocation, LATE[relocation.state], f"{publisher.id!r} has disconnected")

    def lost(self, peer: str) -> None:
        """The link to `peer` has forgotten what was under way on it."""
        for relocation in list(self._by_publisher.values()):
            if relocation.state is State.ASKED and relocation.move.path[1] == peer:
                self._end(relocation, MoveOutcome.REFUSED, f"the link to {peer} was lost")

    def on_departure(self, publisher: str, gone: bool) -> None:
        relocation = self._by_publisher.get(publisher)
        if relocation is None:
            return
        if gone:
            self._end(relocation, MoveOutcome.DONE, "")
        else:
            self._end(relocation, MoveOutcome.ROLLED_BACK, f"{publisher!r} came back")

    def _answered(self, relocation: _Relocation, granted: bool, reason: str) -> None:
        if not granted:
            self._end(relocation, MoveOutcome.REFUSED, reason)
            return
        self._enter(relocation, State.PAUSING)
        move = relocation.move
        relocation.publisher.say(Redirect(move.target))

    def _enter(self, relocation: _Relocation, state: State) -> None:
        relocation.state = state
        at = self._context.now + PATIENCE_S[state]
        self._context.set_timer(MoveLate(relocation.move.id), at)
        self._entered(relocation.move, state.value)

    def _end(self, relocation: _Relocation, outcome: MoveOutcome, reason: str) -> None:
        move = relocation.move
        del self._by_publisher[move.publisher]
        self._paths.end(move)
        self._ended(move, outcome, reason)

    def _moving(self, move: str) -> _Relocation | None:
        for relocation in self._by_publisher.values():
            if relocation.move.id == move:
                return relocation
        return None
