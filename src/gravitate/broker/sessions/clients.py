"""Everything clients ask of a broker: connect, subscribe, advertise, publish, acknowledge.

Turns client inputs into calls on what takes them (`PublishesAt`, `ServedAt`): this broker's own
publishers and subscriptions, or whoever stands for a client that is attached, or served, elsewhere.
A publication whose topic is not advertised yet is advertised for the client.

What a client is owed may be older than its connection, and may outlive it: it is handed over from
another broker where the client moves as a subscriber, or kept for one that was sent elsewhere
(`reassignment`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface import effects, inputs
from gravitate.broker.interface.timers import HoldOver
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.outbound import LocalOutbound, Outbound
from gravitate.broker.sessions.publishers import CLIENTS_OWN, Publishers
from gravitate.broker.sessions.states import Owed, Publishing
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.events import Batch

ATTACHMENTS_MAX: Final = 1 << 20
"""How often brokers may attach a publisher somewhere within one connection of its client."""


@dataclass(slots=True, eq=False)
class Session:
    """One client: what it said of itself when it connected, what it is owed, what it publishes."""

    id: str
    connection: int
    client: inputs.ClientConnected
    outbound: LocalOutbound
    inbound: Inbound
    pings: dict[str, effects.PingBrokers] = field(default_factory=dict)
    """What the client was asked to measure and has not answered, by who wants to know."""
    farewell: effects.CloseSession | None = None
    """It has ended, and the client is told so once what it published is accepted."""

    def subscribes(self) -> bool:
        """Whether the client is served, wherever its subscriptions are."""
        return bool(self.outbound.subscriptions) or self.outbound.place is not None

    def stays(self) -> bool:
        """Whether the client cannot be sent elsewhere as a publisher."""
        return not self.client.follows or self.subscribes()

    def stays_as_subscriber(self) -> bool:
        """Whether the client cannot be sent elsewhere as a subscriber."""
        inbound = self.inbound
        return not self.client.follows or bool(inbound.advertisements) or inbound.place is not None


class ClientPorts(NamedTuple):
    """Who is asked and told about sessions."""

    on_ended: Callable[[Outbound], None]
    """Told of every session that ends with its connection, before anything is undone."""
    on_drained: Callable[[Outbound], None]
    """Told when a session that holds owes its client nothing else."""
    continued: Callable[[inputs.ClientConnected], Outbound | None]
    """Asked for what a client goes on with which connects."""
    on_arrived: Callable[[Outbound], None]
    """Told when a client goes on with what held for it."""
    adopt: Callable[[Inbound], bool]
    """Asked whether a client that comes back is attached elsewhere; its new session goes on."""


@dataclass(eq=False)
class Clients:
    _context: Context
    _subscriptions: Subscriptions
    _dispatch: Dispatch
    _publishers: Publishers
    _ports: ClientPorts
    sessions: dict[str, Session] = field(default_factory=dict)
    """By client."""
    by_connection: dict[int, Session] = field(default_factory=dict)
    _persisting: dict[int, tuple[Session, int]] = field(default_factory=dict)
    _tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def taking(self, take: Callable[[Session, Any], None]) -> Callable[[Any], None]:
        """What takes inputs of clients that have a session here."""

        def taken(input: Any) -> None:
            session = self.by_connection.get(input.connection)
            if session is not None:
                take(session, input)

        return taken

    # Sessions ------------------------------------------------------------------------------

    def connected(self, input: inputs.ClientConnected) -> None:
        id, connection, publishers = input.session, input.connection, self._publishers
        self.close(id, effects.TAKEN_OVER)
        outbound = self._ports.continued(input)
        if outbound is not None:
            assert isinstance(outbound, LocalOutbound)
            outbound.renew(input.window, connection)
        elif input.continues is inputs.Continues.MOVED:
            self._tell(connection, effects.CloseSession(effects.NOT_HERE))
            return
        else:
            owed = (id, input.incarnation, input.window, connection, self._context)
            outbound = LocalOutbound(*owed, self._dispatch, self._subscriptions)
        about = (id, input.incarnation, input.attachment * ATTACHMENTS_MAX, self._context.options)
        inbound = Inbound(*about, partial(self._tell, connection), HoldOver(id), publishers)
        session = Session(id, connection, input, outbound, inbound)
        self.sessions[id] = self.by_connection[connection] = session
        if input.counts and not self._ports.adopt(inbound):
            publishers.came_back(inbound.life)
            publishers.bring_along(inbound)
        for former in publishers.departing.of_client(id):
            if former.origin is None:
                publishers.abandon(former)
        if not outbound.holding:
            self._observe(outbound, "opened")
        publishers.update_reading(inbound)

    def _tell(self, connection: int, word: effects.Word) -> None:
        self._context.emit(effects.Tell(connection, word))

    def arrived(self, session: Session, input: inputs.ClientArrived) -> None:
        """The client goes on with what was kept for it."""
        if session.outbound.state in (Owed.CLAIMED, Owed.RESUMING):
            self._ports.on_arrived(session.outbound)

    def disconnected(self, session: Session, input: object = None) -> None:
        """What the client published still goes out, then everything is undone."""
        self._ports.on_ended(session.outbound)
        self._end(session, Publishing.ENDING)
        session.inbound.at.close(session.inbound)

    def _end(self, session: Session, state: Publishing) -> None:
        inbound, outbound = session.inbound, session.outbound
        self._publishers.release(inbound)
        del self.sessions[session.id], self.by_connection[session.connection]
        # What an arriving publisher sent was not accepted; it will send it where it goes.
        inbound.enter(state)
        outbound.end()
        self._publishers.congestion.left(inbound.life)
        outbound.at.close(outbound)
        self._observe(outbound, "closed")

    def _observe(self, outbound: Outbound, state: str) -> None:
        context = self._context
        if outbound.observed:
            for observer in context.observers:
                observer.on_session(context.broker_id, outbound.id, state, context.now)

    def park(self, outbound: Outbound, target: str) -> None:
        """Send the client to `target`, as a subscriber; what it is owed is kept."""
        session = self.sessions.pop(outbound.id)
        del self.by_connection[session.connection]
        session.inbound.enter(Publishing.GONE)
        self._publishers.congestion.left(session.inbound.life)
        self._tell(session.connection, effects.CloseSession(effects.MOVED, target))
        session.outbound.enter(Owed.DETACHED)
        session.outbound.connection = 0

    def end_parked(self, outbound: Outbound) -> None:
        """The client that something was kept for is elsewhere, or nowhere."""
        outbound.end()
        self._subscriptions.close(outbound)
        self._observe(outbound, "closed")

    def close(self, id: str, reason: str) -> None:
        """End the session of a client, if it has one here. What it published is accepted first: one
        that falls behind its own publications would say them again, and fall behind again."""
        session = self.sessions.get(id)
        if session is not None:
            self.disconnected(session)
            session.farewell = effects.CloseSession(reason)
            self._bid_farewell(session)

    def _bid_farewell(self, session: Session) -> None:
        if session.farewell is not None and not session.inbound.persisting:
            self._tell(session.connection, session.farewell)

    def close_of(self, end: Inbound | Outbound, reason: str) -> bool:
        """Whether it is that of a client which is connected here, whose session is closed then."""
        session = self.sessions.get(end.id)
        is_connected = session is not None and end in (session.inbound, session.outbound)
        if is_connected:
            self.close(end.id, reason)
        return is_connected

    def depart(self, publisher: Inbound, target: str) -> None:
        """Send the client to `target`; its advertisements wait to be taken along."""
        session = self.sessions[publisher.id]
        assert not session.subscribes(), f"{session.id} subscribes here"
        self._end(session, Publishing.DEPARTING)
        self._tell(session.connection, effects.CloseSession(effects.MOVED, target))
        self._publishers.depart(publisher)

    # Subscriptions -------------------------------------------------------------------------

    def acknowledged(self, session: Session, input: inputs.ClientAcknowledged) -> None:
        outbound = session.outbound
        outbound.acknowledged(input.sequence)
        if outbound.state is Owed.CUTTING and outbound.drained():
            self._ports.on_drained(outbound)

    def congested(self, session: Session, input: inputs.ClientCongested) -> None:
        session.outbound.congested = input.congested

    def subscribed(self, session: Session, input: inputs.ClientSubscribed) -> None:
        wanted = Wanted(input.name, input.filter, input.qos, input.no_local)
        session.outbound.at.subscribe(session.outbound, wanted)

    def unsubscribed(self, session: Session, input: inputs.ClientUnsubscribed) -> None:
        session.outbound.at.unsubscribe(session.outbound, input.name)

    # Publications --------------------------------------------------------------------------

    def advertised(self, session: Session, input: inputs.ClientAdvertised) -> None:
        inbound = session.inbound
        inbound.at.advertise(inbound, f"{CLIENTS_OWN}{input.name}", input.filter)

    def unadvertised(self, session: Session, input: inputs.ClientUnadvertised) -> None:
        session.inbound.at.withdraw(session.inbound, f"{CLIENTS_OWN}{input.name}")

    def published(self, input: inputs.ClientPublished) -> None:
        session = self.by_connection.get(input.connection)
        if session is None:
            return
        inbound = session.inbound
        if inbound.state is not Publishing.HERE:
            if inbound.state is Publishing.ARRIVING:
                inbound.arriving.append(input)
                inbound.unpublished.add(input.bodies)
                self._publishers.update_reading(inbound)
            return
        batch = self._number(session, input)
        if batch is not None:
            inbound.at.publish(inbound, batch)
        if input.qos:
            self._accept(session, len(input.bodies), batch)

    def _number(self, session: Session, input: inputs.ClientPublished) -> Batch | None:
        """The publications as a batch, less what the client has sent before."""
        inbound, size = session.inbound, len(input.bodies)
        first = input.first_counter if session.client.counts else None
        if first is None:
            first = inbound.next_counter
        known = inbound.next_counter - first
        if known >= size:
            return None
        inbound.next_counter = first + size
        counters = range(first, first + size)
        about = (inbound.id, inbound.incarnation, counters, input.bodies, input.qos)
        batch = Batch(*about, self._context.now)
        return batch.select(range(known, size)) if known > 0 else batch

    def hold_expired(self, id: str) -> None:
        """The oldest publication has waited long enough."""
        session = self.sessions.get(id)
        if session is not None:
            self._publishers.release(session.inbound)

    def _accept(self, session: Session, size: int, batch: Batch | None) -> None:
        if self._context.options.durable and batch is not None:
            token = next(self._tokens)
            self._persisting[token] = (session, size)
            session.inbound.persisting += 1
            self._context.emit(effects.Persist(token, batch))
        else:
            self._context.emit(effects.Accept(session.connection, size))

    def persisted(self, token: int) -> None:
        session, size = self._persisting.pop(token)
        inbound = session.inbound
        inbound.persisting -= 1
        if inbound.live or session.farewell is not None:
            self._context.emit(effects.Accept(session.connection, size))
            self._bid_farewell(session)
        if inbound.live and inbound.at_rest():
            self._publishers.ports.on_at_rest(inbound)
