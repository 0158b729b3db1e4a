"""Everything clients ask of a broker: connect, subscribe, advertise, publish, acknowledge.

Turns client inputs into calls on sessions, router and dispatch. A publication whose topic is
not advertised yet is advertised for the client and waits until that has settled, everything the
client publishes meanwhile behind it.
"""

from __future__ import annotations

from itertools import count

from gravitate.broker.context import Context
from gravitate.broker.destinations import Destinations
from gravitate.broker.dispatch import Dispatch
from gravitate.broker.effects import (
    OVERLOADED,
    TAKEN_OVER,
    Accept,
    AdvertisementSettled,
    CloseSession,
    HoldReading,
    Persist,
    SetTimer,
    SubscriptionSettled,
)
from gravitate.broker.inputs import ClientConnected, ClientPublished, ClientSubscribed
from gravitate.broker.routing.strategy import Router
from gravitate.broker.sessions import LocalSubscription, Session
from gravitate.model.events import Batch
from gravitate.model.filters import Filter


class Clients:
    """The sessions of a broker."""

    def __init__(
        self,
        context: Context,
        router: Router,
        destinations: Destinations,
        dispatch: Dispatch,
    ) -> None:
        self._context = context
        self._router = router
        self._destinations = destinations
        self._dispatch = dispatch
        self.sessions: dict[str, Session] = {}
        self._persisting: dict[int, tuple[Session, int]] = {}
        self._tokens = count(1)
        self._network_congested = False

    # Sessions ------------------------------------------------------------------------------

    def connected(self, input: ClientConnected) -> None:
        if input.session in self.sessions:
            self.close(input.session, TAKEN_OVER)
        self.sessions[input.session] = session = Session(
            input.session,
            input.incarnation,
            input.window,
            input.counts,
            self._context.options,
            self._dispatch.hand_over,
        )
        self._observe(session, "opened")
        self._update_reading(session)

    def disconnected(self, id: str) -> None:
        """The session ends: what it published still goes out, then everything is undone."""
        session = self.sessions.get(id)
        if session is None:
            return
        self._release(session)
        del self.sessions[id]
        for subscription in session.subscriptions.values():
            self._end_subscription(session, subscription)
        session.subscriptions.clear()
        for name in session.advertisements:
            self._router.unadvertise(self._advertisement_id(session, name))
        self._observe(session, "closed")

    def _observe(self, session: Session, state: str) -> None:
        context = self._context
        for observer in context.observers:
            observer.on_session(context.broker_id, session.id, state, context.now)

    def close(self, id: str, reason: str) -> None:
        self.disconnected(id)
        self._context.emit(CloseSession(id, reason))

    def close_overloaded(self) -> None:
        """End the sessions that fell too far behind in this call."""
        overloaded = self._dispatch.overloaded
        while overloaded:
            id, session = overloaded.popitem()
            if self.sessions.get(id) is session:
                self.close(id, OVERLOADED)

    def acknowledged(self, id: str, sequence: int) -> None:
        session = self.sessions.get(id)
        if session is not None:
            session.acknowledged(sequence)

    def congested(self, id: str, congested: bool) -> None:
        session = self.sessions.get(id)
        if session is not None:
            session.congested = congested

    # Subscriptions -------------------------------------------------------------------------

    def subscribed(self, input: ClientSubscribed) -> None:
        session = self.sessions.get(input.session)
        if session is None:
            return
        name, context = input.name, self._context
        former = session.subscriptions.get(name)
        if former is not None and former.filter == input.filter:
            former.qos, former.no_local = input.qos, input.no_local
            self._destinations.changed()
            subscription = former
        else:
            session.revisions += 1
            id = f"{session.id}#{session.incarnation}@{context.broker_id}/{session.revisions}"
            subscription = self._destinations.add(
                lambda destination: LocalSubscription(
                    session, name, id, input.filter, input.qos, input.no_local, destination
                )
            )
            session.subscriptions[name] = subscription
            for observer in context.observers:
                observer.on_subscribed(context.broker_id, session.id, id, input.filter, context.now)

        def settled() -> None:
            if session.subscriptions.get(name) is subscription:
                context.emit(SubscriptionSettled(session.id, name))
                for observer in context.observers:
                    observer.on_settled(context.broker_id, session.id, subscription.id, context.now)

        self._router.subscribe(
            subscription.id, subscription.filter, subscription.destination, settled
        )
        if former is not None and former is not subscription:
            self._end_subscription(session, former)

    def unsubscribed(self, id: str, name: str) -> None:
        session = self.sessions.get(id)
        if session is not None and name in session.subscriptions:
            self._end_subscription(session, session.subscriptions.pop(name))

    def _end_subscription(self, session: Session, subscription: LocalSubscription) -> None:
        self._router.unsubscribe(subscription.id)
        self._destinations.remove(subscription)
        context = self._context
        for observer in context.observers:
            observer.on_unsubscribed(context.broker_id, session.id, subscription.id, context.now)

    # Advertisements ------------------------------------------------------------------------

    def advertised(self, id: str, name: str, filter: Filter) -> None:
        session = self.sessions.get(id)
        if session is not None:
            key = f"client:{name}"
            if session.advertisements.get(key, filter) != filter:
                self._release(session)
            self._advertise(session, key, filter, name)

    def unadvertised(self, id: str, name: str) -> None:
        session = self.sessions.get(id)
        if session is not None:
            # What waits was published under the advertisement and goes before it ends.
            self._release(session)
            self._unadvertise(session, f"client:{name}")

    def _advertise(self, session: Session, key: str, filter: Filter, name: str | None) -> None:
        """Advertise under `key`; `name` is what the client calls it, if it was the client's."""
        if session.advertisements.get(key) not in (None, filter):
            session.advertisement_ended()
        session.advertisements[key] = filter
        session.unsettled_advertisements.add(key)

        def settled() -> None:
            if self.sessions.get(session.id) is not session:
                return
            session.unsettled_advertisements.discard(key)
            if name is not None:
                self._context.emit(AdvertisementSettled(session.id, name))
            if not session.unsettled_advertisements:
                self._release(session)

        self._router.advertise(
            self._advertisement_id(session, key),
            session.id,
            session.incarnation,
            filter,
            settled,
        )

    def _unadvertise(self, session: Session, key: str) -> None:
        if session.advertisements.pop(key, None) is not None:
            session.unsettled_advertisements.discard(key)
            session.advertisement_ended()
            self._router.unadvertise(self._advertisement_id(session, key))

    def _advertisement_id(self, session: Session, key: str) -> str:
        return f"{session.id}#{session.incarnation}@{self._context.broker_id}/{key}"

    # Publications --------------------------------------------------------------------------

    def published(self, input: ClientPublished) -> None:
        session = self.sessions.get(input.session)
        if session is None:
            return
        size = len(input.bodies)
        batch = self._number(session, input, size)
        if batch is not None:
            self._publish(session, batch)
        if input.qos:
            self._accept(session, size, batch)

    def _number(self, session: Session, input: ClientPublished, size: int) -> Batch | None:
        """The publications as a batch, less what the client has sent before."""
        first = session.next_counter
        if session.counts and input.first_counter is not None:
            first = input.first_counter
        known = session.next_counter - first
        if known >= size:
            return None
        session.next_counter = first + size
        batch = Batch(
            session.id,
            session.incarnation,
            range(first, first + size),
            input.bodies,
            input.qos,
            self._context.now,
            self._router.current_plane,
        )
        return batch.select(range(known, size)) if known > 0 else batch

    def _publish(self, session: Session, batch: Batch) -> None:
        context = self._context
        if context.observers:
            for observer in context.observers:
                observer.on_published(context.broker_id, batch, context.now)
        topics = session.unadvertised(batch)
        if topics:
            widened, ended = session.widen(topics)
            for key, filter in widened.items():
                self._advertise(session, key, filter, None)
            for key in ended:
                if key not in widened:
                    self._unadvertise(session, key)
        if not session.unsettled_advertisements and not session.held:
            self._dispatch.route(batch, None)
            return
        if not session.held:
            at = context.now + context.options.hold_s_max
            context.emit(SetTimer(f"hold:{session.id}", at))
        session.held.append(batch)
        session.held_events += len(batch)
        self._update_reading(session)

    def hold_expired(self, id: str) -> None:
        """The oldest publication has waited long enough."""
        session = self.sessions.get(id)
        if session is not None:
            self._release(session)

    def _release(self, session: Session) -> None:
        while session.held:
            batch = session.held.popleft()
            session.held_events -= len(batch)
            self._dispatch.route(batch, None)
        self._update_reading(session)

    def _accept(self, session: Session, size: int, batch: Batch | None) -> None:
        if self._context.options.durable and batch is not None:
            token = next(self._tokens)
            self._persisting[token] = (session, size)
            self._context.emit(Persist(token, batch))
        else:
            self._context.emit(Accept(session.id, size))

    def persisted(self, token: int) -> None:
        session, size = self._persisting.pop(token)
        if self.sessions.get(session.id) is session:
            self._context.emit(Accept(session.id, size))

    # Back-pressure -------------------------------------------------------------------------

    def network_congested(self, congested: bool) -> None:
        """Hold (or release) every publisher: some link of the network cannot keep up."""
        if congested != self._network_congested:
            self._network_congested = congested
            for session in self.sessions.values():
                self._update_reading(session)

    def _update_reading(self, session: Session) -> None:
        hold = (
            self._network_congested or session.held_events > self._context.options.hold_events_max
        )
        if hold != session.reading_held:
            session.reading_held = hold
            self._context.emit(HoldReading(session.id, hold))
