"""Subscribers that are served here and connected elsewhere: the far end of their tethers.

For each there is a `TetheredSubscriber`: what matches its subscriptions is handed over to the
broker of its client (the *origin*), which delivers it without matching.

What is handed over is kept until the origin's end of the link has taken it. When the link is lost,
the subscriber holds what comes; the origin subscribes at home and *recalls* it along the tree: it
answers with what the client has had and what is left to deliver (the way of a guest, see there).
One that nobody recalls has a lease. What is kept for it is retained with the neighbours that it
came from, and they are entrusted with what it wants (`deposits`): it is not lost with this broker.

Owns these subscribers. Does not know the origin's end, nor how a move is led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gravitate.broker.interface import effects
from gravitate.broker.interface.timers import VisitOver
from gravitate.broker.messages import tether as t
from gravitate.broker.messages.guests import Entrusted, GuestAnswer, GuestStep, TakeGuest
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage
from gravitate.broker.moves.staging import GuestPorts, Guests
from gravitate.broker.moves.table import On
from gravitate.broker.moves.tether.handing import TetheredSubscriber
from gravitate.broker.moves.tether.remote import Key, Remote
from gravitate.broker.sessions.backlog import Backlog, Seen
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import BACK, LEASES, Owed
from gravitate.broker.sessions.subscriptions import Subscriptions

LOST_S_MAX: Final = 40.0
"""How long a subscriber is kept whose origin cannot be reached, or that this broker was reminded
of; longer than a recall may take."""


class TetheredSubscribers:
    """All subscribers of this broker that are connected elsewhere, or were made to be moved.
    `look_back` lets those that this broker was reminded of know what came before."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: Subscriptions,
        paths: MovePaths,
        remote: Remote,
        on_drained: Callable[[Outbound], None],
        look_back: Callable[[], None],
        guest_ports: GuestPorts,
    ) -> None:
        self._on_drained = on_drained
        self._look_back = look_back
        self._context = context = remote.context
        self._engine = engine
        self._dispatch = dispatch = remote.dispatch
        self._subscriptions = subscriptions
        self._paths = paths
        self._remote = remote
        salvage = Salvage(context.options, remote.links, dispatch, paths)
        standing_on = (context, engine, dispatch, subscriptions, paths, salvage)
        self.guests = Guests(*standing_on, self._make_guest, guest_ports)

    def __iter__(self) -> Iterator[TetheredSubscriber]:
        return (end for end in self._remote if isinstance(end, TetheredSubscriber))

    def find(self, subscriber: str) -> TetheredSubscriber | None:
        """The latest of that name that is served here."""
        found = self._remote.of_client(subscriber)
        those = [one for one in found if isinstance(one, TetheredSubscriber)]
        return max(those, key=lambda one: (one.incarnation, one.number), default=None)

    def get(self, key: Key) -> TetheredSubscriber | None:
        end = self._remote.get(key)
        return end if isinstance(end, TetheredSubscriber) else None

    def visitors(self) -> Iterator[TetheredSubscriber]:
        """Those that are clients of other brokers."""
        return (one for one in self if one.origin != self._context.broker_id)

    # Their life ----------------------------------------------------------------------------

    def adopt(self, session: Outbound, number: int) -> TetheredSubscriber:
        """A subscriber in place of a client's session, as if tethered from here."""
        key = (self._context.broker_id, number)
        subscriber = self.make(key, session.id, session.incarnation, Owed.CONNECTED)
        subscriber.continue_from(session)
        self._subscriptions.hand_over(session, subscriber)
        self._remote.add(subscriber)
        return subscriber

    def _make_guest(self, request: TakeGuest) -> Outbound:
        key = (request.origin, request.number)
        guest = self.make(key, request.subscriber, request.incarnation, Owed.STAGED)
        guest.version = guest.wants = request.version
        return guest

    def make(self, key: Key, id: str, incarnation: int, state: Owed) -> TetheredSubscriber:
        return TetheredSubscriber(self, self._remote, key, id, incarnation, state)

    def served(self, subscriber: TetheredSubscriber) -> Entrusted:
        about = (subscriber.number, subscriber.attachment, subscriber.origin)
        wanted = self._subscriptions.wanted(subscriber)
        return Entrusted(*about, subscriber.id, subscriber.incarnation, wanted, subscriber.wants)

    def tell_served(self, subscriber: TetheredSubscriber) -> None:
        """Something has changed about a subscriber, and is entrusted to all neighbours."""
        if subscriber.origin != self._context.broker_id:
            self.entrust(self.served(subscriber))

    def entrust(self, entrusted: Entrusted) -> None:
        for peer in self._remote.links.neighbours():
            self._dispatch.send_control(peer, entrusted)

    def close(self, end: TetheredSubscriber) -> None:
        self._remote.ports.on_closed(end)
        self.end(end)

    detach = close

    def end(self, subscriber: TetheredSubscriber) -> None:
        """It is served here no more."""
        if not self._remote.remove(subscriber):
            return
        subscriber.end()
        subscriber.discard()
        self._subscriptions.close(subscriber)
        self.tell_served(subscriber)
        if subscriber.observed:
            context = self._context
            for observer in context.observers:
                observer.on_session(context.broker_id, subscriber.id, "left", context.now)

    def overloaded(self, session: Outbound) -> None:
        """Too much waits for a subscriber."""
        self.guests.left(session)
        if isinstance(session, TetheredSubscriber) and self._remote.has(session):
            self.close(session)
            session.say(effects.CloseSession(effects.OVERLOADED))

    def taken(self, origin: str, message: t.Deliveries) -> None:
        """The origin's end of the link has received what was handed over."""
        subscriber = self.get((origin, message.number))
        if subscriber is not None:
            subscriber.taken(message)
            if subscriber.drained():
                self._on_drained(subscriber)

    # What the origin says ------------------------------------------------------------------

    def attach(self, origin: str, message: t.TetherAttach, role: t.Serving) -> None:
        key = (origin, message.number)
        found: Outbound | None
        former = found = self.get(key)
        if role.move is not None:
            found = self.guests.claim_tethered(*key, role.move)
            if found is not None and former is not None:
                self.end(former)
        elif found is not None:
            self._engine.tell_subject(found, On.CAME_BACK, f"{found.id!r} came back")
        if found is None:
            closed = t.TetherClosed(message.number, message.attachment, effects.NOT_HERE)
            self._remote.tell(origin, closed)
            return
        assert isinstance(found, TetheredSubscriber)
        if not self._remote.has(found):
            self._remote.add(found)
        found.attachment = message.attachment
        found.retain_again()
        if role.move is not None:
            found.enter(Owed.CLAIMED)
        elif found.state in BACK:
            if not found.observed:
                self._subscriptions.arrived(found, "served", origin, self._context.now)
            found.enter(Owed.RESUMING)
        found.say(effects.Attached())

    def do(self, end: TetheredSubscriber, message: t.FromOrigin | t.HandedOver) -> None:
        if isinstance(message, t.TetherWants):
            end.wants = message.version
            self._subscriptions.set(end, message.subscriptions)
            if not self.guests.arrived(end) and end.state is Owed.RESUMING:
                self._dispatch.release(end)
            end.version = message.version
            self.tell_served(end)

    # What becomes of links -----------------------------------------------------------------

    def down(self, origin: str) -> None:
        """An origin has not been reached for a while."""
        for end in self._remote.of_origin(origin):
            if isinstance(end, TetheredSubscriber):
                end.retain_no_more()

    def on_origin_lost(self, end: TetheredSubscriber) -> None:
        self._remote.ports.on_closed(end)
        if self.guests.left(end):
            self.end(end)
            return
        end.retain_no_more()
        self.lease(end, max(LOST_S_MAX, self._context.options.link_grace_s))

    def lease(self, subscriber: TetheredSubscriber, for_s: float = LOST_S_MAX) -> None:
        """It ends unless somebody comes for it, or recalls it, in time."""
        subscriber.enter(Owed.LEASED if subscriber.observed else Owed.REMINDED)
        self.set_lease(subscriber, for_s)

    def set_lease(self, subscriber: TetheredSubscriber, for_s: float = LOST_S_MAX) -> None:
        at = self._context.now + for_s
        self._context.set_timer(VisitOver(subscriber.serial), at)

    def expired(self, serial: int) -> None:
        """Nobody has recalled a subscriber that was lost."""
        subscriber = self._remote.by_serial.get(serial)
        if isinstance(subscriber, TetheredSubscriber) and (
            self._engine.stopping or subscriber.state in LEASES
        ):
            self._remote.ports.on_closed(subscriber)
            self.guests.left(subscriber)
            self.end(subscriber)

    def recall(self, answer: GuestAnswer) -> None:
        """The origin is ready to serve the subscriber at home, or does so."""
        self._look_back()
        subscriber = self.get((answer.origin, answer.number))
        if subscriber is not None and subscriber.attachment >= answer.attachment:
            return  # it has come here again since
        if answer.step is GuestStep.READY:
            is_known = subscriber is not None
            words = self._last_words(subscriber) if subscriber is not None else ((), (), 0)
            for cut in self.guests.salvage.cuts(answer, *words, is_known=is_known):
                self._paths.pass_on(answer.path[1], cut)
        elif answer.step in (GuestStep.ARRIVED, GuestStep.GONE) and subscriber is not None:
            self.close(subscriber)

    def _last_words(self, subscriber: TetheredSubscriber) -> tuple[Seen, Backlog, int]:
        if subscriber.recalled is None:
            self._remote.ports.on_closed(subscriber)
            subscriber.recalled = (subscriber.seen(), subscriber.backlog())
            self.lease(subscriber)
        return *subscriber.recalled, subscriber.version

    def stop(self) -> None:
        """This broker is about to stop: whoever is connected elsewhere is recalled first."""
        for subscriber in list(self.visitors()):
            self._remote.ports.on_closed(subscriber)
            if subscriber.state is Owed.PREPARING:
                subscriber.enter(Owed.CONNECTED)
            self.set_lease(subscriber)
            subscriber.say(effects.CloseSession(effects.STOPPING))
