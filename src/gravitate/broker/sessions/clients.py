"""Everything clients ask of a broker: connect, subscribe, advertise, publish, acknowledge.

Turns client inputs into calls on sessions, router, dispatch and publishers. A publication whose
topic is not advertised yet is advertised for the client. What a client with a tether publishes
and advertises is passed to the tether, which knows where the client is attached as a publisher;
what one with a subscriber's tether subscribes to, to that.

A session may outlive its connection, and be handed over from another broker, where its client moves
as a subscriber (`reassignment`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import (
    MOVED,
    NOT_HERE,
    OVERLOADED,
    TAKEN_OVER,
    Accept,
    CloseSession,
    Persist,
)
from gravitate.broker.interface.inputs import (
    ClientConnected,
    ClientPublished,
    ClientSubscribed,
    Continues,
)
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.sessions.elsewhere import PublishersElsewhere, SubscribersElsewhere
from gravitate.broker.sessions.publishers import CLIENTS_OWN, Publishers
from gravitate.broker.sessions.session import Publisher, Session
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

ATTACHMENTS_MAX: Final = 1 << 20
"""How often brokers may attach a publisher somewhere within one connection of its client."""


class ClientPorts(NamedTuple):
    """Who is asked and told about sessions."""

    on_closed: Callable[[Publisher], None]
    """Told of publishers that end with their session."""
    on_ended: Callable[[Session], None]
    """Told of every session that ends with its connection, before anything is undone."""
    on_drained: Callable[[Session], None]
    """Told when a session that holds owes its client nothing else."""
    continued: Callable[[ClientConnected], Session | None]
    """Asked for the session that a client goes on with which connects."""
    on_arrived: Callable[[Session], None]
    """Told when a client goes on with a session that holds."""


class Clients:
    """The sessions of a broker."""

    def __init__(
        self,
        context: Context,
        subscriptions: Subscriptions,
        dispatch: Dispatch,
        publishers: Publishers,
        tethers: PublishersElsewhere,
        subscriber_tethers: SubscribersElsewhere,
        ports: ClientPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._subscriptions = subscriptions
        self._dispatch = dispatch
        self._publishers = publishers
        self._tethers = tethers
        self._subscriber_tethers = subscriber_tethers
        self.sessions: dict[str, Session] = {}
        self._persisting: dict[int, tuple[Session, int]] = {}
        self._tokens = count(1)

    # Sessions ------------------------------------------------------------------------------

    def connected(self, input: ClientConnected) -> None:
        if input.session in self.sessions:
            self.close(input.session, TAKEN_OVER)
        attachment = input.attachment * ATTACHMENTS_MAX
        session = self._ports.continued(input)
        if session is not None:
            session.renew(input, attachment, self._context.emit)
        elif input.continues is Continues.MOVED:
            self._context.emit(CloseSession(input.session, NOT_HERE))
            return
        else:
            session = self._new_session(input, attachment)
        self.sessions[session.id] = session
        publishers = self._publishers
        former = publishers.departing.get(session.id)
        if former is not None and isinstance(former, Session):
            if former.incarnation != session.incarnation:
                publishers.abandon(session.id)
                publishers.ports.on_departure(session.id, False)
            else:
                publishers.came_back(session.id, session.incarnation)
        if session.counts and not self._tethers.adopt(session):
            publishers.bring_along(session)
        if not session.holding:
            self._observe(session, "opened")
        publishers.update_reading(session)

    def _new_session(self, input: ClientConnected, attachment: int) -> Session:
        return Session(
            input.session,
            input.incarnation,
            input.window,
            input.counts,
            self._context.options,
            self._dispatch.hand_over,
            self._context.emit,
            self._context.lives,
            attachment,
            input.follows,
        )

    def arrived(self, id: str) -> None:
        """The client goes on with what was kept for it."""
        session = self.sessions.get(id)
        if session is not None and session.holding and session.is_renewed:
            session.is_renewed = False
            self._ports.on_arrived(session)

    def disconnected(self, id: str) -> None:
        """The session ends: what it published still goes out, then everything is undone."""
        session = self.sessions.get(id)
        if session is None:
            return
        self._ports.on_ended(session)
        if session.tether is None:
            self._publishers.release(session)
        self._end_session(session)
        self._observe(session, "closed")
        if session.tether is None:
            self._publishers.unadvertise_all(session)
            self._ports.on_closed(session)
        else:
            self._tethers.close(session)

    def _end_session(self, session: Session) -> None:
        del self.sessions[session.id]
        session.live = False
        self._publishers.ports.on_gone(session.life)
        # What an arriving publisher sent was not accepted; it will send it where it goes.
        session.arriving = None
        if session.subscriber_tether is not None:
            self._subscriber_tethers.close(session)
        self._subscriptions.end_all(session)

    def _observe(self, session: Session, state: str) -> None:
        context = self._context
        if session.observed:
            for observer in context.observers:
                observer.on_session(context.broker_id, session.id, state, context.now)

    def park(self, session: Session, target: str) -> None:
        """Send the client to `target`, as a subscriber; its session stays as it is."""
        del self.sessions[session.id]
        self._publishers.ports.on_gone(session.life)
        session.say(CloseSession(session.id, MOVED, target))
        session.fall_silent()

    def end_parked(self, session: Session) -> None:
        """The client of a session is elsewhere, or nowhere."""
        session.live = False
        self._subscriptions.end_all(session)
        self._observe(session, "closed")

    def close(self, id: str, reason: str) -> None:
        self.disconnected(id)
        self._context.emit(CloseSession(id, reason))

    def close_overloaded(self, session: Session) -> bool:
        """Whether a session that fell too far behind had a connection; it is closed then."""
        is_connected = self.sessions.get(session.id) is session
        if is_connected:
            self.close(session.id, OVERLOADED)
        return is_connected

    def depart(self, session: Session, target: str) -> None:
        """Send the client to `target`; its advertisements wait to be taken along."""
        assert not session.subscribes(), f"{session.id} subscribes here"
        self._publishers.release(session)
        self._end_session(session)
        self._observe(session, "closed")
        self._context.emit(CloseSession(session.id, MOVED, target))
        self._publishers.depart(session)

    def acknowledged(self, id: str, sequence: int) -> None:
        session = self.sessions.get(id)
        if session is not None:
            session.acknowledged(sequence)
            if session.holding and session.drained():
                self._ports.on_drained(session)

    def congested(self, id: str, congested: bool) -> None:
        session = self.sessions.get(id)
        if session is not None:
            session.congested = congested

    # Subscriptions -------------------------------------------------------------------------

    def subscribed(self, input: ClientSubscribed) -> None:
        session = self.sessions.get(input.session)
        if session is None:
            return
        wanted = Wanted(input.name, input.filter, input.qos, input.no_local)
        if session.subscriber_tether is None:
            self._subscriptions.subscribe(session, wanted)
        else:
            self._subscriber_tethers.subscribe(session, wanted)

    def unsubscribed(self, id: str, name: str) -> None:
        session = self.sessions.get(id)
        if session is None:
            return
        if session.subscriber_tether is None:
            self._subscriptions.unsubscribe(session, name)
        else:
            self._subscriber_tethers.unsubscribe(session, name)

    # Publications --------------------------------------------------------------------------

    def advertised(self, id: str, name: str, filter: Filter) -> None:
        session = self.sessions.get(id)
        if session is None:
            return
        if session.tether is None:
            self._publishers.advertise(session, f"{CLIENTS_OWN}{name}", filter)
        else:
            self._tethers.advertise(session, f"{CLIENTS_OWN}{name}", filter)

    def unadvertised(self, id: str, name: str) -> None:
        session = self.sessions.get(id)
        if session is None:
            return
        if session.tether is None:
            self._publishers.withdraw(session, f"{CLIENTS_OWN}{name}")
        else:
            self._tethers.withdraw(session, f"{CLIENTS_OWN}{name}")

    def published(self, input: ClientPublished) -> None:
        session = self.sessions.get(input.session)
        if session is None or session.departed:
            return
        if session.arriving is not None:
            session.arriving.append(input)
            session.unpublished.add(input.bodies)
            self._publishers.update_reading(session)
            return
        size = len(input.bodies)
        batch = self._number(session, input, size)
        if batch is not None:
            if session.tether is None:
                self._publishers.publish(session, batch)
            else:
                self._tethers.publish(session, batch)
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
        )
        return batch.select(range(known, size)) if known > 0 else batch

    def hold_expired(self, id: str) -> None:
        """The oldest publication has waited long enough."""
        session = self.sessions.get(id)
        if session is not None:
            self._publishers.release(session)

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
        if session.live:
            self._context.emit(Accept(session.id, size))
            if session.at_rest():
                self._publishers.ports.on_at_rest(session)

    def taken_over(self, publisher: Publisher) -> None:
        """The publisher of a session is attached elsewhere: its client is there."""
        if self.sessions.get(publisher.id) is publisher:
            self.close(publisher.id, TAKEN_OVER)
