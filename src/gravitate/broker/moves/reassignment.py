"""Reassignment: a subscriber goes to another broker, and nothing is lost, doubled or reordered.

The broker that serves the subscriber (the *source*) leads:

    ASKED ----granted----> PREPARING ----ready----> CUTTING ----at rest----> LEAVING ----> done
      |                        |                       |                        |
      '-refused, late: refused '-gone, changed, late: rolled back               '-back, late: rolled
                                                                                  back

ASKED: every broker on the path gives shared use of its move lock (`moves.path`). PREPARING: the
target subscribes too, as a guest, and keeps what comes. CUTTING: the target is ready. Whatever it
lacks has come here before it said so (`staging`), so this is the moment of the *cut*: what the
client has been given so far, per publisher, is told to the target, and what comes from now on is
kept here as well. The client is told to pause: it changes nothing about what it subscribes to. It
leaves when all that it was given is acknowledged and the target has the cut. LEAVING: its session
is closed, with everything still in place. The client connects to the target and says that it has
arrived; the target tells so, delivers what it has kept above the cut, and only then does the source
end its subscriptions. A client that does not get there comes back and is given what was kept here.
Which of the two it is, is the client's word alone: it comes back only if it has not been told that
it is attached, and it has received nothing elsewhere then.

A client that does not follow, or that publishes, stays connected, and its broker does all of this
in its stead (`tether`); the source is then the broker that serves it.

A subscription that the client changes before it has paused rolls the move back; one that it changes
later is changed where it arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import MOVED, CloseSession, Redirect, Stay
from gravitate.broker.interface.inputs import ClientConnected, Continues
from gravitate.broker.interface.timers import MoveLate
from gravitate.broker.messages.guests import (
    GuestAnswer,
    GuestCut,
    GuestStep,
    TakeGuest,
)
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.tether.handing import TetheredSubscriber
from gravitate.broker.moves.tether.served import TetheredSubscribers
from gravitate.broker.moves.tether.subscriber import SubscriberTethers
from gravitate.broker.sessions.clients import Clients
from gravitate.broker.sessions.local import LocalOutbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.moves import Move, MoveOutcome, ReassignSubscriber


class State(enum.Enum):
    ASKED = "asked"
    PREPARING = "preparing"
    CUTTING = "cutting"
    LEAVING = "leaving"


FOLLOWS: Final = {
    State.PREPARING: State.ASKED,
    State.CUTTING: State.PREPARING,
    State.LEAVING: State.CUTTING,
}
"""What a state comes after; the first comes after nothing."""

PATIENCE_S: Final = {
    State.ASKED: 5.0,
    State.PREPARING: 10.0,
    State.CUTTING: 5.0,
    State.LEAVING: 20.0,
}
"""How long a move may stay in a state."""
LEASE_S: Final = sum(PATIENCE_S.values())
ASK_AGAIN_S: Final = 5.0
"""How often the target of a client under way is asked about it: its word may have been lost."""

UNDONE: Final = {
    State.ASKED: MoveOutcome.REFUSED,
    State.PREPARING: MoveOutcome.ROLLED_BACK,
    State.CUTTING: MoveOutcome.ROLLED_BACK,
    State.LEAVING: MoveOutcome.ROLLED_BACK,
}
"""What becomes of a move that does not get any further."""

WAITED_FOR: Final = {
    State.ASKED: "the brokers on the path did not all answer",
    State.PREPARING: "the target's subscriptions did not settle",
    State.CUTTING: "the client did not pause, or the target did not answer",
    State.LEAVING: "the client arrived nowhere",
}


class _Reassignment:
    """One move, at its source."""

    __slots__ = ("move", "paused", "session", "since", "state", "taken")

    def __init__(self, move: ReassignSubscriber, session: Outbound) -> None:
        self.move = move
        self.session = session
        self.state = State.ASKED
        self.since = 0.0
        """When it came to be in this state."""
        self.paused = False
        """The client asks for nothing more."""
        self.taken = False
        """The target knows what the client has had."""


class Reassignments:
    """The subscribers of this broker that are about to be served elsewhere."""

    def __init__(
        self,
        context: Context,
        clients: Clients,
        dispatch: Dispatch,
        subscriptions: Subscriptions,
        tethers: SubscriberTethers,
        tethered: TetheredSubscribers,
        paths: MovePaths,
        ended: Callable[[Move, MoveOutcome, str], None],
        entered: Callable[[Move, str], None],
        is_busy: Callable[[str], bool],
    ) -> None:
        self._context = context
        self._clients = clients
        self._dispatch = dispatch
        self._subscriptions = subscriptions
        self._tethers = tethers
        self._tethered = tethered
        self._paths = paths
        self._ended = ended
        self._entered = entered
        self._by_subscriber: dict[str, _Reassignment] = {}
        self._is_busy = is_busy
        """Whether a client is about to be sent elsewhere for another reason."""

    # Beginning -----------------------------------------------------------------------------

    def propose(self, move: Move) -> None:
        """Begin to carry out a move; its end is told to `ended`."""
        assert isinstance(move, ReassignSubscriber)
        session = self.served(move.subscriber)
        objection = self._objection(move, session)
        if objection:
            self._ended(move, MoveOutcome.REFUSED, objection)
            return
        assert session is not None
        if self._stays(session):
            assert isinstance(session, LocalOutbound)
            session = self._tethers.make(session)
        origin = session.origin if isinstance(session, TetheredSubscriber) else ""
        reassignment = self._by_subscriber[move.subscriber] = _Reassignment(move, session)
        self._paths.ask(move, LEASE_S, origin, partial(self._granted, reassignment))
        self._enter(reassignment, State.ASKED)

    def served(self, id: str) -> Outbound | None:
        """The session that serves a subscriber, if that is here."""
        session = self._clients.sessions.get(id)
        if session is not None and session.outbound.place is None:
            return session.outbound
        return self._tethered.find(id)

    def _stays(self, session: Outbound) -> bool:
        """Whether the client of a session here cannot be sent elsewhere."""
        return session.origin is None and self._clients.sessions[session.id].stays_as_subscriber()

    def under_way(self) -> list[ReassignSubscriber]:
        return [reassignment.move for reassignment in self._by_subscriber.values()]

    def is_moving(self, subscriber: str) -> bool:
        """Whether the client of a session here is about to be sent elsewhere."""
        moving = self._by_subscriber.get(subscriber)
        return moving is not None and not isinstance(moving.session, TetheredSubscriber)

    def _objection(self, move: ReassignSubscriber, session: Outbound | None) -> str:
        """Why the move cannot begin; empty when it can."""
        here, id = self._context.broker_id, repr(move.subscriber)
        if session is None:
            return f"{id} is not served by {here}"
        if move.subscriber in self._by_subscriber:
            return f"{id} is on the move already"
        if session.holding:
            return f"{id} is still arriving"
        if not session.subscriptions:
            return f"{id} subscribes to nothing at {here}"
        if session.unsettled_subscriptions:
            return f"what {id} subscribes to is not settled yet"
        if self._is_busy(move.subscriber):
            return f"{id} is on the move as a publisher"
        return self._paths.objection(move)

    def _granted(self, reassignment: _Reassignment, granted: bool, reason: str) -> None:
        if not granted:
            self._end(reassignment, MoveOutcome.REFUSED, reason)
            return
        self._enter(reassignment, State.PREPARING)
        move, session = reassignment.move, reassignment.session
        session.enter(Owed.PREPARING)
        origin, number, version = "", 0, 0
        if isinstance(session, TetheredSubscriber):
            (origin, number), version = session.key, session.version
        wanted = self._subscriptions.wanted(session)
        about = (session.id, session.incarnation, wanted)
        request = TakeGuest(move.id, move.path, *about, LEASE_S, origin, number, version)
        self._paths.pass_on(move.path[1], request)

    # On the way ----------------------------------------------------------------------------

    def on_answer(self, answer: GuestAnswer) -> None:
        reassignment = self._moving(answer.move)
        if reassignment is None:
            if answer.origin:
                self._tethered.recall(answer)
            return
        state = reassignment.state
        match answer.step:
            case GuestStep.READY if state is State.PREPARING:
                self._cut(reassignment)
            case GuestStep.TAKEN if state is State.CUTTING:
                reassignment.taken = True
                self.on_drained(reassignment.session)
            case GuestStep.ARRIVED if state is State.LEAVING:
                self._end(reassignment, MoveOutcome.DONE, "")
                self._leave(reassignment.session)
            case GuestStep.GONE if state is not State.LEAVING:
                self._roll_back(reassignment, answer.reason)

    def _cut(self, reassignment: _Reassignment) -> None:
        self._enter(reassignment, State.CUTTING)
        move, session = reassignment.move, reassignment.session
        self._paths.pass_on(move.path[1], GuestCut(move.id, move.path, session.seen()))
        session.enter(Owed.CUTTING)
        session.say(Redirect(move.target))

    def paused(self, id: str) -> bool:
        """Whether the client of a session has paused for a move of this kind."""
        session = self._clients.sessions.get(id)
        if session is None or not self.is_moving(id):
            return False
        self.on_paused(session.outbound)
        return True

    def on_paused(self, session: Outbound) -> None:
        reassignment = self._of(session)
        if reassignment is None or reassignment.state is not State.CUTTING:
            session.say(Stay())
        else:
            reassignment.paused = True
            self.on_drained(session)

    def on_drained(self, session: Outbound) -> None:
        """Send the subscriber away once nothing is under way to it, or from it."""
        reassignment = self._of(session)
        if (
            reassignment is None
            or reassignment.state is not State.CUTTING
            or not (reassignment.paused and reassignment.taken and session.drained())
        ):
            return
        move = reassignment.move
        if isinstance(session, TetheredSubscriber):
            self._enter(reassignment, State.LEAVING)
            session.enter(Owed.DETACHED)
            session.move = move.id
            session.say(CloseSession(MOVED, move.target))
        elif self._stays(session):
            self._roll_back(reassignment, f"{session.id!r} published meanwhile")
        else:
            self._enter(reassignment, State.LEAVING)
            self._clients.park(session, move.target)

    # The client comes back, or does not ------------------------------------------------------

    def continued(self, input: ClientConnected) -> Outbound | None:
        """The session that a client goes on with which connects here."""
        parked = self._come_for(input)
        if input.continues is Continues.MOVED:
            return self._tethered.guests.claim(input.session, input.incarnation)
        return parked

    def _come_for(self, input: ClientConnected) -> Outbound | None:
        """The session that was kept for a client, if it comes back to it; else that ends."""
        reassignment = self._by_subscriber.get(input.session)
        if (
            reassignment is None
            or isinstance(reassignment.session, TetheredSubscriber)
            or reassignment.state is not State.LEAVING
        ):
            return None
        session = reassignment.session
        self._end(reassignment, MoveOutcome.ROLLED_BACK, f"{session.id!r} came back")
        if input.continues is Continues.BACK and session.incarnation == input.incarnation:
            return session
        self._leave(session)
        return None

    def on_arrived(self, session: Outbound) -> None:
        """The client of a session that holds has received nothing elsewhere."""
        self._subscriptions.confirm(session)
        if not self._tethered.guests.arrived(session):
            self._dispatch.release(session)

    def on_back(self, session: Outbound) -> None:
        """A tethered subscriber is here again."""
        reassignment = self._of(session)
        if reassignment is not None:
            self._end(reassignment, MoveOutcome.ROLLED_BACK, f"{session.id!r} came back")

    def _leave(self, session: Outbound) -> None:
        """The subscriber is served elsewhere, or is gone."""
        if isinstance(session, TetheredSubscriber):
            self._tethered.end(session)
        else:
            self._clients.end_parked(session)

    # What goes wrong -----------------------------------------------------------------------

    def on_changed(self, session: Outbound) -> None:
        reassignment = self._of(session)
        if reassignment is not None and reassignment.state is not State.LEAVING:
            self._roll_back(reassignment, f"{session.id!r} subscribed to something else meanwhile")

    def closed(self, session: Outbound) -> None:
        """The subscriber is gone, or cannot be reached."""
        reassignment = self._of(session)
        if reassignment is not None:
            outcome = UNDONE[reassignment.state]
            self._end(reassignment, outcome, f"{session.id!r} has disconnected")

    def overloaded(self, session: Outbound) -> None:
        """Too much was kept for a client that was sent elsewhere."""
        reassignment = self._of(session)
        if reassignment is not None and reassignment.state is State.LEAVING:
            self._end(reassignment, MoveOutcome.ROLLED_BACK, f"too much waits for {session.id!r}")
            if not isinstance(session, TetheredSubscriber):
                self._leave(session)

    def lost(self, peer: str) -> None:
        """The link to `peer` has forgotten what was under way on it."""
        for reassignment in list(self._by_subscriber.values()):
            if reassignment.state is not State.LEAVING and reassignment.move.path[1] == peer:
                self._roll_back(reassignment, f"the link to {peer} was lost")

    def expired(self, move: str) -> None:
        """A state has lasted long, or too long."""
        reassignment = self._moving(move)
        if reassignment is None:
            return
        state, session = reassignment.state, reassignment.session
        if self._context.now < reassignment.since + PATIENCE_S[state]:
            path = reassignment.move.path
            self._paths.pass_on(path[1], GuestCut(move, path, ()))
            self._wait(reassignment)
            return
        reason = f"{WAITED_FOR[state]} within {PATIENCE_S[state]:g} s"
        if state is not State.LEAVING:
            self._roll_back(reassignment, reason)
            return
        self._end(reassignment, UNDONE[state], reason)
        if isinstance(session, TetheredSubscriber):
            self._tethered.lease(session)
        else:
            self._leave(session)

    def stop(self) -> None:
        """This broker is about to stop: nobody is waited for any more."""
        for reassignment in list(self._by_subscriber.values()):
            session = reassignment.session
            if reassignment.state is not State.LEAVING:
                self._roll_back(reassignment, f"{self._context.broker_id} is stopping")
            elif not isinstance(session, TetheredSubscriber):
                self._end(reassignment, MoveOutcome.ROLLED_BACK, "the client arrived nowhere")
                self._leave(session)

    def _roll_back(self, reassignment: _Reassignment, reason: str) -> None:
        """The subscriber stays, and is served as if nothing had been."""
        state, session = reassignment.state, reassignment.session
        self._end(reassignment, UNDONE[state], reason)
        if session.state is not Owed.CONNECTED:
            self._dispatch.release(session)
        if state is State.CUTTING:
            session.say(Stay())

    def _enter(self, reassignment: _Reassignment, state: State) -> None:
        assert FOLLOWS.get(state, reassignment.state) is reassignment.state
        reassignment.state = state
        reassignment.since = self._context.now
        self._wait(reassignment)
        self._entered(reassignment.move, state.value)

    def _wait(self, reassignment: _Reassignment) -> None:
        """For the end of the state, or to ask again."""
        at = reassignment.since + PATIENCE_S[reassignment.state]
        if reassignment.state is State.LEAVING:
            at = min(at, self._context.now + ASK_AGAIN_S)
        self._context.set_timer(MoveLate(reassignment.move.id), at)

    def _end(self, reassignment: _Reassignment, outcome: MoveOutcome, reason: str) -> None:
        move = reassignment.move
        del self._by_subscriber[move.subscriber]
        self._paths.end(move)
        self._ended(move, outcome, reason)

    def _of(self, session: Outbound) -> _Reassignment | None:
        """The move of the subscriber that a session serves."""
        reassignment = self._by_subscriber.get(session.id)
        return reassignment if reassignment and reassignment.session is session else None

    def _moving(self, move: str) -> _Reassignment | None:
        for reassignment in self._by_subscriber.values():
            if reassignment.move.id == move:
                return reassignment
        return None
