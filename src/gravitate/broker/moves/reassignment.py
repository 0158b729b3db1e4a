"""Reassignment: a subscriber goes to another broker, and nothing is lost, doubled or reordered.

The broker that serves the subscriber (the *source*) leads. ASKED: every broker on the path gives
shared use of its move lock (`moves.path`). PREPARING: the target subscribes too, as a guest, and
keeps what comes. CUTTING: the target is ready. Whatever it lacks has come here before it said so
(`staging`), so this is the moment of the *cut*: what the client has been given so far, per
publisher, is told to the target, and what comes from now on is kept here as well. The client is
told to pause: it changes nothing about what it subscribes to. It leaves when all that it was given
is acknowledged and the target has the cut. LEAVING: its session is closed, with everything still in
place. The client connects to the target and says that it has arrived; the target tells so, delivers
what it has kept above the cut, and only then does the source end its subscriptions. A client that
does not get there comes back and is given what was kept here. Which of the two it is, is the
client's word alone: it comes back only if it has not been told that it is attached, and it has
received nothing elsewhere then.

A client that does not follow, or that publishes, stays connected, and its broker does all of this
in its stead (`tether`); the source is then the broker that serves it.

A subscription that the client changes before it has paused rolls the move back; one that it changes
later is changed where it arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import MOVED, CloseSession, Redirect, Stay
from gravitate.broker.interface.inputs import ClientConnected, Continues
from gravitate.broker.messages.guests import GuestAnswer, GuestCut, StagingPoll, TakeGuest
from gravitate.broker.moves.engine import Engine, Run
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.table import On, Part, Row, Wait, opening, opening_waits
from gravitate.broker.moves.tether.served import TetheredSubscriber, TetheredSubscribers
from gravitate.broker.moves.tether.subscriber import SubscriberTethers
from gravitate.broker.sessions.clients import Clients
from gravitate.broker.sessions.outbound import LocalOutbound, Outbound
from gravitate.broker.sessions.states import OWED, Owed
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.moves import ReassignSubscriber


class State(enum.Enum):
    SEEKING = "seeking"
    ASKED = "asked"
    PREPARING = "preparing"
    CUTTING = "cutting"
    LEAVING = "leaving"
    DONE = "done"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"


class Own(enum.Enum):
    READY = "the target serves it too, and keeps what comes"
    TAKEN = "the target knows what the client has had"
    ARRIVED = "the subscriber is served by the target"
    GONE = "the target does not expect it any more"
    DRAINED = "nothing may be under way to the client any more"
    CHANGED = "the client has changed what it subscribes to"
    OVERLOADED = "too much was kept for it"


UNDONE: Final = (Own.GONE, Own.CHANGED, On.LINK_LOST, On.STOPPING, On.LATE)
"""What rolls a move back before the client has left."""

SOURCE: Final = Part(
    "reassignment, source",
    State,
    {
        **opening_waits(State),
        State.PREPARING: Wait(10.0, "the target's subscriptions did not settle"),
        State.CUTTING: Wait(5.0, "the client did not pause, or the target did not answer"),
        State.LEAVING: Wait(20.0, "the client arrived nowhere", again=(5.0, "poll")),
    },
    (
        *opening(State, State.PREPARING, "stage"),
        *(Row(one, Own.CHANGED, State.REFUSED) for one in (State.SEEKING, State.ASKED)),
        Row(State.PREPARING, Own.READY, State.CUTTING, "cut"),
        Row(State.PREPARING, On.CLOSED, State.ROLLED_BACK),
        *(Row(State.PREPARING, event, State.ROLLED_BACK, "release") for event in UNDONE),
        Row(State.CUTTING, On.PAUSED, State.CUTTING, "look"),
        Row(State.CUTTING, Own.TAKEN, State.CUTTING, "look"),
        Row(
            State.CUTTING, Own.DRAINED, State.ROLLED_BACK, "go_on", "has_published",
            "the client published meanwhile",
        ),
        Row(State.CUTTING, Own.DRAINED, State.LEAVING, "send_away", "is_quiet"),
        Row(State.CUTTING, On.CLOSED, State.ROLLED_BACK),
        *(Row(State.CUTTING, event, State.ROLLED_BACK, "go_on") for event in UNDONE),
        Row(State.LEAVING, Own.ARRIVED, State.DONE, "leave"),
        Row(State.LEAVING, On.CAME_BACK, State.ROLLED_BACK),
        Row(State.LEAVING, On.CLOSED, State.ROLLED_BACK),
        Row(State.LEAVING, Own.OVERLOADED, State.ROLLED_BACK, "leave", "is_parked"),
        Row(State.LEAVING, Own.OVERLOADED, State.ROLLED_BACK),
        Row(State.LEAVING, On.STOPPING, State.ROLLED_BACK, "leave", "is_parked"),
        Row(State.LEAVING, On.LATE, State.ROLLED_BACK, "leave", "is_parked"),
        Row(State.LEAVING, On.LATE, State.ROLLED_BACK, "lease"),
    ),
)  # fmt: skip


@dataclass(eq=False)
class Reassignments:
    """The subscribers of this broker that are about to be served elsewhere."""

    _context: Context
    _engine: Engine
    _clients: Clients
    _dispatch: Dispatch
    _subscriptions: Subscriptions
    _tethers: SubscriberTethers
    _tethered: TetheredSubscribers
    _paths: MovePaths
    _parked: dict[str, Outbound] = field(default_factory=dict)
    """What is kept for clients that were sent elsewhere."""

    def __post_init__(self) -> None:
        self._engine.lead(ReassignSubscriber, SOURCE, self)

    # Beginning -----------------------------------------------------------------------------

    def objection(self, move: ReassignSubscriber) -> str:
        here, id = self._context.broker_id, repr(move.subscriber)
        subscriber = self._served(move.subscriber)
        if subscriber is None:
            return f"{id} is not served by {here}"
        if self._engine.run_of(subscriber):
            return f"{id} is on the move already"
        if subscriber.holding:
            return f"{id} is still arriving"
        if not subscriber.subscriptions:
            return f"{id} subscribes to nothing at {here}"
        if subscriber.unsettled_subscriptions:
            return f"what {id} subscribes to is not settled yet"
        session = self._clients.sessions.get(move.subscriber)
        if session is not None and self._engine.run_of(session.inbound):
            return f"{id} is on the move as a publisher"
        return ""

    def begin(self, move: ReassignSubscriber) -> tuple[Hashable, str]:
        subscriber = self._served(move.subscriber)
        assert subscriber is not None
        if self._stays(subscriber):
            assert isinstance(subscriber, LocalOutbound)
            subscriber = self._tethers.make(subscriber)
        return subscriber, subscriber.origin or ""

    def _served(self, id: str) -> Outbound | None:
        session = self._clients.sessions.get(id)
        if session is not None and session.outbound.place is None:
            return session.outbound
        return self._tethered.find(id)

    def _stays(self, subscriber: Outbound) -> bool:
        """Whether a client that is connected here cannot be sent elsewhere."""
        is_client = subscriber.origin is None
        return is_client and self._clients.sessions[subscriber.id].stays_as_subscriber()

    # What happens --------------------------------------------------------------------------

    def on_answer(self, answer: GuestAnswer) -> None:
        """What the target says means something to the source, or to one that serves for others."""
        event = Own[answer.step.name]
        if not self._engine.tell(answer.move, event, answer.reason) and answer.origin:
            self._tethered.recall(answer)

    def on_drained(self, subscriber: Outbound) -> None:
        self._engine.tell_subject(subscriber, Own.DRAINED)

    def on_changed(self, subscriber: Outbound) -> None:
        reason = f"{subscriber.id!r} subscribed to something else meanwhile"
        self._engine.tell_subject(subscriber, Own.CHANGED, reason)

    def on_overloaded(self, subscriber: Outbound) -> None:
        reason = f"too much waits for {subscriber.id!r}"
        self._engine.tell_subject(subscriber, Own.OVERLOADED, reason)

    def continued(self, input: ClientConnected) -> Outbound | None:
        """What a client goes on with which connects here."""
        parked = self._parked.pop(input.session, None)
        if parked is not None:
            self._engine.tell_subject(parked, On.CAME_BACK, f"{parked.id!r} came back")
            if input.continues is Continues.BACK and parked.incarnation == input.incarnation:
                return parked
            self._clients.end_parked(parked)
        if input.continues is Continues.MOVED:
            return self._tethered.guests.claim(input.session, input.incarnation)
        return None

    def on_arrived(self, subscriber: Outbound) -> None:
        """The client of one that holds has received nothing elsewhere."""
        self._subscriptions.confirm(subscriber)
        if not self._tethered.guests.arrived(subscriber):
            self._dispatch.release(subscriber)

    # Guards and actions --------------------------------------------------------------------

    def is_quiet(self, run: Run, about: None) -> bool:
        """Nothing is under way to the client, or from it, and the target has the cut."""
        return {On.PAUSED, Own.TAKEN} <= run.heard and bool(run.subject.drained())

    def has_published(self, run: Run, about: None) -> bool:
        return self.is_quiet(run, about) and self._stays(run.subject)

    def is_parked(self, run: Run, about: None) -> bool:
        """The client itself was sent elsewhere, and not its broker told to go there for it."""
        return run.subject.origin is None

    def stage(self, run: Run, about: None) -> None:
        move, subscriber = run.move, run.subject
        subscriber.enter(Owed.PREPARING)
        is_tethered = isinstance(subscriber, TetheredSubscriber)
        whose = (*subscriber.key, subscriber.version) if is_tethered else ()
        what = (subscriber.id, subscriber.incarnation, self._subscriptions.wanted(subscriber))
        request = TakeGuest(move.id, move.path, *what, SOURCE.lease_s, *whose)
        self._paths.pass_on(move.path[1], request)

    def cut(self, run: Run, about: None) -> None:
        move, subscriber = run.move, run.subject
        self._paths.pass_on(move.path[1], GuestCut(move.id, move.path, subscriber.seen()))
        subscriber.enter(Owed.CUTTING)
        subscriber.say(Redirect(move.target))

    def look(self, run: Run, about: None) -> None:
        self._engine.take(run, Own.DRAINED)

    def send_away(self, run: Run, about: None) -> None:
        move, subscriber = run.move, run.subject
        if isinstance(subscriber, TetheredSubscriber):
            subscriber.enter(Owed.DETACHED)
            subscriber.move = move.id
            subscriber.say(CloseSession(MOVED, move.target))
        else:
            self._parked[subscriber.id] = subscriber
            self._clients.park(subscriber, move.target)

    def poll(self, run: Run, about: None) -> None:
        """The target's word may have been lost."""
        self._paths.pass_on(run.move.path[1], StagingPoll(run.id, run.move.path))

    def leave(self, run: Run, about: None) -> None:
        """The subscriber is served elsewhere, or is gone."""
        if isinstance(run.subject, TetheredSubscriber):
            self._tethered.end(run.subject)
        else:
            del self._parked[run.subject.id]
            self._clients.end_parked(run.subject)

    def lease(self, run: Run, about: None) -> None:
        """Its broker may still come for it, if it has not brought it here by another move."""
        if run.subject.state not in OWED.ends:
            self._tethered.lease(run.subject)

    def release(self, run: Run, about: None) -> None:
        """The subscriber stays, and is served as if nothing had been."""
        self._dispatch.release(run.subject)

    def go_on(self, run: Run, about: None) -> None:
        """The same for one that has been told to leave."""
        self._dispatch.release(run.subject)
        run.subject.say(Stay())
