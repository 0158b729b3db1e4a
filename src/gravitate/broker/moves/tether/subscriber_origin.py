"""Tethers of subscribers: a client stays connected here and is served as a subscriber elsewhere.

A client that cannot be told to reconnect, or that also publishes, is moved by its broker (the
*origin*) in its stead. The broker that serves it subscribes and matches for it, and hands over what
is for it on a direct link (`subscriber_remote`); it is delivered here without matching, and
whatever has been delivered before is recognised, per publisher, by the client's own session. The
origin follows a move as a client would:

    ATTACHED --redirected, link up--> PAUSED --sent away--> ATTACHING --attached--> ATTACHED
       |                                |                       |
       '-- lost, stopping: RECALLING    '-- stay: ATTACHED      '-- refused, late: back, or
                                                                    RECALLING

RECALLING takes the subscriber home without anybody's leave: it subscribes here as a guest, and when
that has settled asks the broker that served it, along the tree, for what it had and what is left to
deliver; only then does the client go on. It asks again until it has an answer: of that broker, or
of its neighbour if it cannot be reached (`staging`).

What the client wants is counted, and what is handed over tells as of when it was matched: what it
has unsubscribed from since then is left out.

Invariants: the client is served by one place at a time, and what that place has handed over comes
before what the next one does; what the client subscribes to is known here, so that whoever serves
it next is told all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import MOVED, OVERLOADED, SubscriptionSettled
from gravitate.broker.interface.timers import RecallAgain, SubscriberLate
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.messages.guests import (
    Deliveries,
    FromOrigin,
    GuestAttach,
    GuestAttached,
    GuestClosed,
    GuestDetach,
    GuestPaused,
    GuestRedirect,
    GuestSettled,
    GuestWants,
    TakeGuest,
    ToOrigin,
    Wanted,
)
from gravitate.broker.moves.guest import Guest
from gravitate.broker.moves.salvage import wanted_of
from gravitate.broker.moves.staging import RECALL
from gravitate.broker.moves.tether.publisher import onward
from gravitate.broker.moves.tether.subscriber import State, SubscriberTether
from gravitate.broker.moves.tether.subscriber_remote import TetheredSubscriber, TetheredSubscribers
from gravitate.broker.sessions.backlog import Backlog
from gravitate.broker.sessions.local import LocalOutbound
from gravitate.broker.sessions.subscriptions import Subscriptions

ARRIVE_S_MAX: Final = 10.0
"""How long attaching a subscriber elsewhere may take; less than its former place waits."""
RECALL_AGAIN_S: Final = 1.0
RECALL_AGAIN_S_MAX: Final = 32.0
"""After how long a place is asked again for what it has, doubling between the bounds. It is asked
anew besides whenever more can be reached."""


class SubscriberTethers:
    """The subscribers of this broker's clients that may be served elsewhere."""

    def __init__(
        self,
        context: Context,
        dispatch: Dispatch,
        subscriptions: Subscriptions,
        tethered: TetheredSubscribers,
        links: TetherLinks,
        close_session: Callable[[str, str], None],
    ) -> None:
        self._context = context
        self._dispatch = dispatch
        self._subscriptions = subscriptions
        self._tethered = tethered
        self._links = links
        self._by_number: dict[int, SubscriberTether] = {}
        self._by_session: dict[LocalOutbound, SubscriberTether] = {}
        self._numbers = count(1)
        self._unsaid: dict[int, SubscriberTether] = {}
        """Tethers of which another broker is to be told what their clients want."""
        self._close_session = close_session

    def __iter__(self) -> Iterator[SubscriberTether]:
        return iter(self._by_number.values())

    def peers(self) -> set[str]:
        """Brokers that a link is needed to."""
        return {peer for tether in self._by_number.values() for peer in tether.places()}

    # What the client does ------------------------------------------------------------------

    def make(self, session: LocalOutbound) -> TetheredSubscriber:
        """Let a client that is served here be moved; it stays served here for now."""
        number = next(self._numbers)
        wanted = self._subscriptions.wanted(session)
        tether = SubscriberTether(session, self._context.broker_id, number, wanted)
        self._by_number[number] = self._by_session[session] = tether
        session.at = self
        return self._tethered.adopt(session, number)

    def place(self, session: LocalOutbound) -> str:
        return self._by_session[session].place

    def subscribe(self, session: LocalOutbound, wanted: Wanted) -> None:
        tether = self._by_session[session]
        tether.version += 1
        tether.settled_but_for_missing.discard(wanted.name)
        if tether.wanted.get(wanted.name, wanted).filter != wanted.filter:
            tether.made[wanted.name] = tether.version
        tether.made.setdefault(wanted.name, tether.version)
        tether.wanted[wanted.name] = wanted
        tether.unsettled.add(wanted.name)
        self._say_wants(tether)

    def unsubscribe(self, session: LocalOutbound, name: str) -> None:
        tether = self._by_session[session]
        if tether.wanted.pop(name, None) is not None:
            tether.version += 1
            tether.settled_but_for_missing.discard(name)
            del tether.made[name]
            tether.unsettled.discard(name)
            self._say_wants(tether)

    def close(self, session: LocalOutbound) -> None:
        """The client is gone."""
        tether = self._by_session[session]
        del self._by_number[tether.number]
        del self._by_session[session]
        session.at = self._subscriptions
        if tether.recall:
            self._tethered.guests.drop(tether.recall)
        here = self._context.broker_id
        for peer in sorted(tether.places() | {tether.path[-1], here}):
            if peer == here or self._links.exists(peer):
                self._say(peer, GuestDetach(tether.number, tether.attachment))
            self._links.review(peer)

    # What is delivered ---------------------------------------------------------------------

    def deliver(self, peer: str, message: Deliveries) -> None:
        """The broker that serves a client hands over what is for it."""
        tether = self._by_number.get(message.number)
        if tether is None or (peer, message.attachment) not in (tether.stream, tether.far_stream):
            return
        tether.served = max(tether.served, message.version)
        if not tether.recall:
            tether.former_path = ()
        batches: Backlog = tuple((batch, message.qos) for batch in message.batches)
        if message.version < tether.version:
            wanted = tether.wanted_since(message.version)
            batches = wanted_of(message.batches, wanted, tether.session.id)
        for batch, qos in batches:
            self._dispatch.deliver(tether.session, batch, min(qos, message.qos))

    # What the broker that serves it says ---------------------------------------------------

    def handle(self, peer: str, message: ToOrigin) -> None:
        tether = self._by_number.get(message.number)
        if (
            tether is not None
            and isinstance(message, GuestClosed)
            and message.reason == OVERLOADED
            and tether.stream == (peer, message.attachment)
        ):
            # Wherever it is to be served next, what was kept for it is lost.
            self._close_session(tether.session.id, OVERLOADED)
            return
        if (
            tether is None
            or (tether.place, tether.attachment) != (peer, message.attachment)
            or tether.state is State.RECALLING
        ):
            return  # of where it was before
        match message:
            case GuestAttached():
                if tether.state is State.ATTACHING:
                    self._attached(tether)
            case GuestSettled():
                self._settled(tether, message)
            case GuestRedirect():
                self._redirected(tether, message.target)
            case GuestClosed():
                self._closed(tether, message)

    def _settled(self, tether: SubscriberTether, message: GuestSettled) -> None:
        tether.served = max(tether.served, message.version)
        tether.former_path = ()
        if message.name in tether.unsettled and tether.made[message.name] <= message.version:
            if tether.recall:
                # What comes from behind the former place is not complete for it yet.
                tether.settled_but_for_missing.add(message.name)
            else:
                self._say_settled(tether, message.name)

    def _say_settled(self, tether: SubscriberTether, name: str) -> None:
        tether.unsettled.discard(name)
        tether.session.say(SubscriptionSettled(tether.session.id, name))

    def _redirected(self, tether: SubscriberTether, target: str) -> None:
        if target == tether.place:
            left, tether.destination = tether.destination, ""
            self._links.review(left)
            if tether.state is State.PAUSED:
                tether.state = State.ATTACHED
                self._say_wants(tether)
        elif tether.state is State.ATTACHED:
            tether.destination = target
            if target != self._context.broker_id:
                self._links.want(target)
            if self._links.is_up(target):
                self._pause(tether)

    def _pause(self, tether: SubscriberTether) -> None:
        tether.state = State.PAUSED
        self._say(tether.place, GuestPaused(tether.number, tether.attachment))

    def _closed(self, tether: SubscriberTether, message: GuestClosed) -> None:
        if tether.state is State.ATTACHING:
            self._go_back(tether)
        elif message.reason == MOVED and tether.state is State.PAUSED:
            tether.next_path = onward(tether.path, message.path, message.target)
            self._attach(tether, message.target, tether.place, message.move)
        else:
            self._recall(tether)

    def _attach(self, tether: SubscriberTether, place: str, former: str, move: str) -> None:
        left = tether.places()
        tether.state = State.ATTACHING
        tether.place, tether.former, tether.destination = place, former, ""
        tether.attachment += 1
        tether.move = move
        if place != self._context.broker_id:
            at = self._context.now + ARRIVE_S_MAX
            self._context.set_timer(SubscriberLate(tether.number), at)
        self._say_attach(tether)
        for peer in sorted(left):
            self._links.review(peer)

    def _attached(self, tether: SubscriberTether) -> None:
        left, tether.former = tether.former, ""
        is_elsewhere = tether.place != self._context.broker_id
        tether.former_path = tether.path if is_elsewhere and tether.move else ()
        tether.path = tether.next_path
        tether.far_stream = tether.stream if tether.recall else None
        tether.stream = (tether.place, tether.attachment)
        tether.state = State.ATTACHED
        self._say_wants(tether)
        self._links.review(left)

    def _go_back(self, tether: SubscriberTether) -> None:
        """It could not be attached where it was to go."""
        here, former = self._context.broker_id, tether.former
        if tether.place == here or self._links.is_up(tether.place):
            self._say(tether.place, GuestDetach(tether.number, tether.attachment))
        tether.next_path = tether.path
        if former and (former == here or self._links.is_up(former)):
            self._attach(tether, former, "", "")
        else:
            self._recall(tether)

    # Coming home ---------------------------------------------------------------------------

    def _recall(self, tether: SubscriberTether) -> None:
        here, session = self._context.broker_id, tether.session
        if tether.path == (here,):
            # It was not known any more where it was last served, which is here.
            self._close_session(session.id, OVERLOADED)
            return
        left = tether.places()
        tether.state = State.RECALLING
        tether.place, tether.former, tether.destination = here, "", ""
        tether.attachment += 1
        tether.recall = f"{RECALL}{here}:{tether.number}:{tether.attachment}"
        tether.asked = 0
        request = TakeGuest(
            tether.recall,
            tuple(reversed(tether.path)),
            session.id,
            session.incarnation,
            tuple(tether.wanted.values()),
            0.0,
            here,
            tether.number,
            tether.version,
        )
        self._ask_again_later(tether)
        has_served = not tether.former_path
        self._tethered.guests.recall(request, tether.attachment, tether.served, has_served)
        for peer in sorted(left):
            self._links.review(peer)

    def _ask_again_later(self, tether: SubscriberTether) -> None:
        delay_s = min(RECALL_AGAIN_S_MAX, RECALL_AGAIN_S * 2**tether.asked)
        tether.asked += 1
        self._context.set_timer(RecallAgain(tether.number), self._context.now + delay_s)

    def ask_again(self, number: int) -> None:
        """The broker that a subscriber is recalled from has not answered yet."""
        tether = self._by_number.get(number)
        if tether is None or not tether.recall:
            return
        self._ask_again_later(tether)
        if not self._tethered.guests.say_ready(tether.recall):
            # It had more to keep than it may.
            tether.recall = ""
            self._close_session(tether.session.id, OVERLOADED)

    def on_complete(self, guest: Guest) -> None:
        """A guest knows what its subscriber has had; one that comes home is served now."""
        tether = self._recalled(guest)
        if tether is not None and tether.state is State.RECALLING:
            tether.move, tether.next_path = guest.request.move, (self._context.broker_id,)
            if not guest.missing:
                tether.recall = ""
            tether.state = State.ATTACHING
            self._say_attach(tether)

    def on_finished(self, guest: Guest) -> None:
        """Nothing is missing any more of a subscriber that has come home."""
        tether = self._recalled(guest)
        if tether is not None:
            tether.recall, tether.far_stream = "", None
            settled, tether.settled_but_for_missing = tether.settled_but_for_missing, set()
            for name in sorted(settled & tether.unsettled):
                self._say_settled(tether, name)

    def on_lost(self, guest: Guest) -> None:
        """Where a subscriber was served last nothing is known of it. If it has not come to be
        served there, the place before has kept all of it."""
        tether = self._recalled(guest)
        if tether is not None and tether.former_path:
            tether.path = tether.next_path = tether.former_path
            tether.former_path = ()
            if len(tether.path) > 1:
                self._tethered.guests.ask_elsewhere(guest, tuple(reversed(tether.path)))
            else:
                self._tethered.guests.drop(tether.recall)
                tether.recall = ""
                self._attach(tether, self._context.broker_id, "", "")
        elif tether is not None:
            self._close_session(tether.session.id, OVERLOADED)

    def _recalled(self, guest: Guest) -> SubscriberTether | None:
        """Whose the guest is, if it comes home."""
        tether = self._by_number.get(guest.request.number)
        is_here = guest.request.origin == self._context.broker_id
        if tether is None or not is_here or tether.recall != guest.request.move:
            return None
        return tether

    # What is said --------------------------------------------------------------------------

    def _say_attach(self, tether: SubscriberTether) -> None:
        about = (tether.number, tether.attachment)
        self._say(tether.place, GuestAttach(*about, tether.session.id, tether.move))

    def _say_wants(self, tether: SubscriberTether) -> None:
        """To another broker once, when all is handled that came together; here at once, for it may
        be published to by what comes next."""
        if tether.place != self._context.broker_id:
            self._unsaid[tether.number] = tether
        elif tether.state is State.ATTACHED:
            self._say(tether.place, _wants(tether))

    def flush(self) -> None:
        """Tell other brokers what is wanted by those that they still serve."""
        self._tethered.look_back()
        self._tethered.guests.questions.flush()
        if not self._unsaid:
            return
        here = self._context.broker_id
        for number, tether in self._unsaid.items():
            is_served = number in self._by_number and tether.state is State.ATTACHED
            if is_served and tether.place != here:
                self._say(tether.place, _wants(tether))
        self._unsaid.clear()

    def _say(self, broker: str, message: FromOrigin) -> None:
        here = self._context.broker_id
        if broker == here:
            self._tethered.handle(here, message)
        else:
            self._links.want(broker)
            self._dispatch.send_control(broker, message)

    # What becomes of links -----------------------------------------------------------------

    def link_up(self, peer: str) -> None:
        """A link can be used: who waits for it to go there pauses."""
        for tether in list(self._by_number.values()):
            if tether.destination == peer and tether.state is State.ATTACHED:
                self._pause(tether)

    def link_reset(self, peer: str) -> None:
        """A link starts anew: what was under way on it is forgotten."""
        for tether in list(self._by_number.values()):
            if tether.place == peer:
                if tether.state is State.ATTACHING:
                    self._say_attach(tether)
                else:
                    self._recall(tether)

    def link_lost(self, peer: str) -> None:
        """A link is given up."""
        for tether in list(self._by_number.values()):
            if tether.destination == peer:
                tether.destination = ""
            if tether.place == peer:
                if tether.state is State.ATTACHING:
                    self._go_back(tether)
                else:
                    self._recall(tether)

    def late(self, number: int) -> None:
        """A subscriber should have been attached by now."""
        tether = self._by_number.get(number)
        if (
            tether is not None
            and tether.state is State.ATTACHING
            and tether.place != self._context.broker_id
        ):
            self._go_back(tether)


def _wants(tether: SubscriberTether) -> GuestWants:
    wanted = tuple(tether.wanted.values())
    return GuestWants(tether.number, tether.attachment, wanted, tether.version)
