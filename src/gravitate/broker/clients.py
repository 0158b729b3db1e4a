"""Everything clients ask of a broker: connect, subscribe, advertise, publish, acknowledge.

Turns client inputs into calls on sessions, router and dispatch. A publication whose topic is
not advertised yet is advertised for the client and waits until that has settled, everything the
client publishes meanwhile behind it.

A publisher that has been at another broker is *arriving*: its advertisements are taken along, and
what it sends waits until they have settled, for then everything it published there is ahead. One
that was sent away is *departing*: its session is over, its advertisements stay until they have
been taken along, or nobody has come for them in time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count

from gravitate.broker.context import Context
from gravitate.broker.destinations import Destinations
from gravitate.broker.dispatch import Dispatch
from gravitate.broker.effects import (
    MOVED,
    OVERLOADED,
    TAKEN_OVER,
    Accept,
    AdvertisementSettled,
    Attached,
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
        self.departing: dict[str, Session] = {}
        """Ended sessions of publishers on their way to another broker, by their ids."""
        self.on_departure: Callable[[str, bool], None] = lambda id, gone: None
        """Told of a departing publisher that it is gone (True) or back (False)."""
        self.on_closed: Callable[[str], None] = lambda id: None
        """Told of sessions that end, but for those of departing publishers."""
        self.on_at_rest: Callable[[str], None] = lambda id: None
        """Told when a client's session comes to rest, see `Session.at_rest`."""
        self._owners: dict[str, Session] = {}
        """Whose the local advertisements are."""
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
            input.attachment,
            input.follows,
        )
        former = self.departing.pop(session.id, None)
        if former is not None:
            if former.incarnation != session.incarnation:
                self._unadvertise_all(former)
            self.on_departure(session.id, False)
        if session.counts:
            self._bring_along(session)
        self._observe(session, "opened")
        self._update_reading(session)

    def disconnected(self, id: str) -> None:
        """The session ends: what it published still goes out, then everything is undone."""
        session = self.sessions.get(id)
        if session is None:
            return
        self._release(session)
        self._end_session(session)
        self._unadvertise_all(session)
        self._observe(session, "closed")
        self.on_closed(id)

    def _end_session(self, session: Session) -> None:
        del self.sessions[session.id]
        # What an arriving publisher sent was not accepted; it will send it where it goes.
        session.arriving = None
        for subscription in session.subscriptions.values():
            self._end_subscription(session, subscription)
        session.subscriptions.clear()

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

    # Publishers that come and go -----------------------------------------------------------

    def _bring_along(self, session: Session) -> None:
        """Attach the publisher here, with whatever it has advertised wherever it was."""
        entries = self._router.advertised_by(session.id, session.incarnation)
        prefix = self._advertisement_id(session, "")
        brought = {entry.id.removeprefix(prefix): entry.filter for entry in entries}
        if any(entry.last_hop is not None for entry in entries):
            session.arriving = deque()
            session.unsettled_advertisements.update(brought)
        else:
            self._context.emit(Attached(session.id))
        for key, filter in brought.items():
            self._advertise(session, key, filter, None)

    def _arrived(self, session: Session) -> None:
        """Everything the publisher published elsewhere is ahead: it publishes here now."""
        sent, session.arriving = session.arriving, None
        if sent is not None:
            self._context.emit(Attached(session.id))
            for input in sent:
                self.published(input)
            self._update_reading(session)

    def depart(self, id: str, target: str) -> None:
        """Send a publisher away; its advertisements wait to be taken along."""
        session = self.sessions[id]
        assert not session.subscriptions, f"{id} subscribes here"
        self._release(session)
        self._end_session(session)
        self._observe(session, "closed")
        self._context.emit(CloseSession(id, MOVED, target))
        if session.advertisements:
            self.departing[id] = session
        else:
            self.on_departure(id, True)

    def abandon(self, id: str) -> None:
        """Nobody came for what a departing publisher had advertised."""
        session = self.departing.pop(id, None)
        if session is not None:
            self._unadvertise_all(session)

    def departed(self, advertisement: str) -> None:
        """The router tells that the publisher of a local advertisement is elsewhere now."""
        session = self._owners.pop(advertisement, None)
        if session is None:
            return  # it was ending
        self._release(session)
        key = advertisement.removeprefix(self._advertisement_id(session, ""))
        session.advertisements.pop(key, None)
        session.unsettled_advertisements.discard(key)
        session.departed = True
        if session.advertisements:
            return
        if self.departing.get(session.id) is session:
            del self.departing[session.id]
            self.on_departure(session.id, True)
        elif self.sessions.get(session.id) is session:
            self.close(session.id, TAKEN_OVER)

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
                self._arrived(session)
                if session.at_rest():
                    self.on_at_rest(session.id)

        id = self._advertisement_id(session, key)
        self._owners[id] = session
        self._router.advertise(
            id, session.id, session.incarnation, filter, settled, session.attachment
        )

    def _unadvertise(self, session: Session, key: str) -> None:
        if session.advertisements.pop(key, None) is not None:
            session.unsettled_advertisements.discard(key)
            session.advertisement_ended()
            id = self._advertisement_id(session, key)
            del self._owners[id]
            self._router.unadvertise(id)

    def _unadvertise_all(self, session: Session) -> None:
        for key in list(session.advertisements):
            self._unadvertise(session, key)

    def _advertisement_id(self, session: Session, key: str) -> str:
        """The same at every broker: the publisher may take it along."""
        return f"{session.id}#{session.incarnation}/{key}"

    # Publications --------------------------------------------------------------------------

    def published(self, input: ClientPublished) -> None:
        session = self.sessions.get(input.session)
        if session is None or session.departed:
            return
        if session.arriving is not None:
            session.arriving.append(input)
            self._update_reading(session)
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
            for mechanism in context.mechanisms:
                batch.trace_mark = batch.trace_mark or mechanism.mark(batch, context.now)
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
            session.persisting += 1
            self._context.emit(Persist(token, batch))
        else:
            self._context.emit(Accept(session.id, size))

    def persisted(self, token: int) -> None:
        session, size = self._persisting.pop(token)
        session.persisting -= 1
        if self.sessions.get(session.id) is session:
            self._context.emit(Accept(session.id, size))
            if session.at_rest():
                self.on_at_rest(session.id)

    # Back-pressure -------------------------------------------------------------------------

    def network_congested(self, congested: bool) -> None:
        """Hold (or release) every publisher: some link of the network cannot keep up."""
        if congested != self._network_congested:
            self._network_congested = congested
            for session in self.sessions.values():
                self._update_reading(session)

    def _update_reading(self, session: Session) -> None:
        waiting = session.held_events + len(session.arriving or ())
        hold = self._network_congested or waiting > self._context.options.hold_events_max
        if hold != session.reading_held:
            session.reading_held = hold
            self._context.emit(HoldReading(session.id, hold))
