"""Tethers of subscribers: a client stays connected here and is served as a subscriber elsewhere.

The broker that serves it subscribes and matches for it, and hands over what is for it on a direct
link (`served`); it is delivered here without matching, and whatever has been delivered
before is recognised, per publisher, by the client's own session.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gravitate.broker.interface.effects import OVERLOADED, SubscriptionSettled
from gravitate.broker.interface.timers import RecallAgain
from gravitate.broker.links.seek import Seek
from gravitate.broker.messages import tether as t
from gravitate.broker.messages.guests import TakeGuest, Wanted
from gravitate.broker.moves.guest import Guest
from gravitate.broker.moves.salvage import wanted_of
from gravitate.broker.moves.staging import RECALL
from gravitate.broker.moves.tether.origin import State, Tether, Tethers
from gravitate.broker.moves.tether.served import TetheredSubscriber, TetheredSubscribers
from gravitate.broker.sessions.outbound import LocalOutbound
from gravitate.broker.sessions.subscriptions import Subscriptions

RECALL_AGAIN_S: Final = 1.0
RECALL_AGAIN_S_MAX: Final = 32.0
"""After how long a place is asked again for what it has, doubling between the bounds. It is asked
anew besides whenever more can be reached."""


class SubscriberTether(Tether):
    """One client of this broker as a subscriber: where it is served, and what it wants."""

    def __init__(
        self, kind: SubscriberTethers, session: LocalOutbound, wanted: Sequence[Wanted]
    ) -> None:
        super().__init__(kind, session.id, session.incarnation, 0)
        self.session = session
        self.stream = (self.here, 0)
        """The place, and its attachment there, that what is for the client is taken from: the last
        one that it was attached to, also while it is recalled from there."""
        self.far_stream: tuple[str, int] | None = None
        """The same of a place that could not be asked when it was recalled from there: if that is
        there after all, what it has had from behind it is still to come."""
        self.former_source: str | None = None
        """The place before its source, until that has served it for certain."""
        self.move: str | None = None
        """The one that it is attached for; None: it goes back."""
        self.recall: str | None = None
        """The move by which it comes home, until nothing of it is missing."""
        self.recalled_from = self.here
        """The place that is asked then for what it has."""
        self.asked = 0
        """How often it was."""
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

    def want(self, wanted: Wanted) -> None:
        name = wanted.name
        self.version += 1
        if self.wanted.get(name, wanted).filter != wanted.filter:
            self.made[name] = self.version
        self.made.setdefault(name, self.version)
        self.wanted[name] = wanted
        self.unsettled.add(name)
        self.settled_but_for_missing.discard(name)

    def want_no_more(self, name: str) -> bool:
        """Whether the client wanted it."""
        if self.wanted.pop(name, None) is None:
            return False
        self.version += 1
        del self.made[name]
        self.unsettled.discard(name)
        self.settled_but_for_missing.discard(name)
        return True

    def wanted_since(self, version: int) -> list[Wanted]:
        """What the client wants, and has wanted as of a version."""
        return [one for name, one in self.wanted.items() if self.made[name] <= version]

    def wants(self) -> t.TetherWants:
        wanted = tuple(self.wanted.values())
        return t.TetherWants(self.number, self.attachment, wanted, self.version)

    def role(self, was: tuple[str, ...], lost: str | None) -> t.Serving:
        return t.Serving(self.move)

    def arrive(self) -> None:
        has_moved = self.place != self.here and self.move is not None
        self.former_source = self.source if has_moved else None
        self.far_stream = self.stream if self.recall is not None else None
        self.stream = (self.place, self.attachment)
        super().arrive()

    def is_lost_by(self, peer: str, message: t.TetherClosed) -> bool:
        """Wherever it is to be served next, what was kept for it is lost."""
        return message.reason == OVERLOADED and self.stream == (peer, message.attachment)


@dataclass(eq=False)
class SubscriberTethers:
    """The subscribers of this broker's clients that may be served elsewhere."""

    _subscriptions: Subscriptions
    _tethered: TetheredSubscribers
    tethers: Tethers
    _seek: Seek
    _by_session: dict[LocalOutbound, SubscriberTether] = field(default_factory=dict)
    _unsaid: dict[int, SubscriberTether] = field(default_factory=dict)
    """Tethers of which another broker is to be told what their clients want."""

    def __iter__(self) -> Iterator[SubscriberTether]:
        return iter(self._by_session.values())

    # What the client does ------------------------------------------------------------------

    def make(self, session: LocalOutbound) -> TetheredSubscriber:
        """Let a client that is served here be moved; it stays served here for now."""
        tether = SubscriberTether(self, session, self._subscriptions.wanted(session))
        self._by_session[session] = tether
        self.tethers.add(tether)
        session.at = self
        return self._tethered.adopt(session, tether.number)

    def place(self, session: LocalOutbound) -> str:
        return self._by_session[session].place

    def subscribe(self, session: LocalOutbound, wanted: Wanted) -> None:
        tether = self._by_session[session]
        tether.want(wanted)
        self.go_on(tether)

    def unsubscribe(self, session: LocalOutbound, name: str) -> None:
        tether = self._by_session[session]
        if tether.want_no_more(name):
            self.go_on(tether)

    def close(self, session: LocalOutbound) -> None:
        tether = self._by_session.pop(session)
        session.at = self._subscriptions
        if tether.recall is not None:
            self._tethered.guests.drop(tether.recall)
        self.tethers.end(tether)
        links = self.tethers.links
        for peer in sorted(tether.places() | {tether.source, tether.here}):
            if peer == tether.here or links.exists(peer):
                self.tethers.say(peer, t.TetherDetach(tether.number, tether.attachment))
            links.review(peer)

    # What is delivered ---------------------------------------------------------------------

    def deliver(self, peer: str, message: t.Deliveries) -> None:
        """The broker that serves a client hands over what is for it."""
        tether = self.tethers.get(message.number)
        if not isinstance(tether, SubscriberTether):
            return
        if (peer, message.attachment) not in (tether.stream, tether.far_stream):
            return
        tether.served = max(tether.served, message.version)
        if tether.recall is None:
            tether.former_source = None
        deliver = self.tethers.remote.dispatch.deliver
        if message.version >= tether.version:
            for batch in message.batches:
                deliver(tether.session, batch, message.qos)
            return
        wanted = tether.wanted_since(message.version)
        for batch, qos in wanted_of(message.batches, wanted, tether.client):
            deliver(tether.session, batch, min(qos, message.qos))

    def on_said(self, tether: SubscriberTether, message: t.TetherSettled | t.TetherHold) -> None:
        if isinstance(message, t.TetherHold):
            return
        tether.former_source = None
        made = tether.made.get(message.name)
        if made is None or made > message.version:
            return
        # Of what is wanted since then the neighbours of the place may not have heard.
        tether.served = max(tether.served, made)
        if message.name in tether.unsettled:
            if tether.recall is not None:
                # What comes from behind the former place is not complete for it yet.
                tether.settled_but_for_missing.add(message.name)
            else:
                self._say_settled(tether, message.name)

    def _say_settled(self, tether: SubscriberTether, name: str) -> None:
        tether.unsettled.discard(name)
        tether.session.say(SubscriptionSettled(name))

    # Being served elsewhere, and coming home -----------------------------------------------

    def on_attaching(self, tether: SubscriberTether, move: str | None) -> None:
        tether.move = move

    def on_closed(self, tether: SubscriberTether, reason: str) -> None:
        self.go_home(tether)

    def go_home(self, tether: SubscriberTether, lost: str | None = None) -> None:
        """Recall it from where it was served last."""
        if tether.source == tether.here:
            # It was not known any more where it was last served, which is here.
            self.tethers.close_session(tether.client, OVERLOADED)
            return
        tether.enter(State.RECALLING)
        tether.attachment += 1
        tether.recall = f"{RECALL}{tether.here}:{tether.number}:{tether.attachment}"
        tether.recalled_from, tether.asked = tether.source, 0
        what = (tether.client, tether.incarnation, tuple(tether.wanted.values()), 0.0)
        whose = (tether.here, tether.number, tether.version)
        request = TakeGuest(tether.recall, (tether.here,), *what, *whose)
        has_served = tether.former_source is None
        self.tethers.put(tether, tether.here)
        self._tethered.guests.recall(request, tether.attachment, tether.served, has_served)
        self._ask(tether)

    def _ask(self, tether: SubscriberTether) -> None:
        """Ask the broker that has served it, along the way there is now; and again later."""
        delay_s = min(RECALL_AGAIN_S_MAX, RECALL_AGAIN_S * 2**tether.asked)
        tether.asked += 1
        context = self.tethers.remote.context
        context.set_timer(RecallAgain(tether.number), context.now + delay_s)
        self._seek(tether.recalled_from, partial(self._found, tether, tether.recall))

    def _found(
        self, tether: SubscriberTether, recall: str | None, way: tuple[str, ...] | None
    ) -> None:
        if way is None or recall is None or tether.recall != recall:
            return
        if not self._tethered.guests.say_ready(recall, tuple(reversed(way))):
            # It had more to keep than it may.
            tether.recall = None
            self.tethers.close_session(tether.client, OVERLOADED)

    def ask_again(self, number: int) -> None:
        """The broker that a subscriber is recalled from has not answered yet."""
        tether = self.tethers.get(number)
        if isinstance(tether, SubscriberTether) and tether.recall is not None:
            self._ask(tether)

    def on_complete(self, guest: Guest) -> None:
        """A guest knows what its subscriber has had; one that comes home is served now."""
        tether = self._recalled(guest)
        if tether is not None and tether.state is State.RECALLING:
            tether.move = guest.request.move
            if not guest.missing:
                tether.recall = None
            tether.enter(State.ATTACHING)
            self.tethers.say_attach(tether)

    def on_finished(self, guest: Guest) -> None:
        """Nothing is missing any more of a subscriber that has come home."""
        tether = self._recalled(guest)
        if tether is not None:
            tether.recall = tether.far_stream = None
            settled, tether.settled_but_for_missing = tether.settled_but_for_missing, set()
            for name in sorted(settled & tether.unsettled):
                self._say_settled(tether, name)

    def on_lost(self, guest: Guest) -> None:
        """Where a subscriber was served last nothing is known of it. If it has not come to be
        served there, the place before has kept all of it."""
        tether = self._recalled(guest)
        if tether is not None and tether.former_source is not None:
            tether.source = tether.recalled_from = tether.former_source
            tether.former_source = None
            if tether.source != tether.here:
                self._tethered.guests.ask_elsewhere(guest)
                self._ask(tether)
            else:
                self._tethered.guests.drop(guest.request.move)
                tether.recall = None
                self.tethers.attach(tether, tether.here)
        elif tether is not None:
            self.tethers.close_session(tether.client, OVERLOADED)

    def _recalled(self, guest: Guest) -> SubscriberTether | None:
        """Whose the guest is, if it comes home."""
        tether = self.tethers.get(guest.request.number)
        if not isinstance(tether, SubscriberTether) or guest.request.origin != tether.here:
            return None
        return tether if tether.recall == guest.request.move else None

    # What is said --------------------------------------------------------------------------

    def go_on(self, tether: SubscriberTether) -> None:
        """Tell what is wanted: another broker once, when all is handled that came together; here at
        once, for it may be published to by what comes next."""
        if tether.place != tether.here:
            self._unsaid[tether.number] = tether
        elif tether.state is State.ATTACHED:
            self.tethers.say(tether.place, tether.wants())

    def flush(self) -> None:
        """Tell other brokers what is wanted by those that they still serve."""
        self._tethered.guests.salvage.flush()
        if not self._unsaid:
            return
        for tether in self._unsaid.values():
            if tether.state is State.ATTACHED and tether.place != tether.here:
                self.tethers.say(tether.place, tether.wants())
        self._unsaid.clear()
