"""Everything clients ask of a broker: connect, subscribe, advertise, publish, acknowledge.

Turns client inputs into calls on what takes them (`PublishesAt`, `ServedAt`): this broker's own
publishers and subscriptions, or whoever stands for a client that is attached, or served, elsewhere.
A publication whose topic is not advertised yet is advertised for the client.

What a client is owed may outlive its connection, and be handed over from another broker, where its
client moves as a subscriber (`reassignment`).
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
    Tell,
    ToClient,
    Word,
)
from gravitate.broker.interface.inputs import (
    ClientConnected,
    ClientPublished,
    ClientSubscribed,
    Continues,
)
from gravitate.broker.interface.timers import HoldOver
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.sessions.elsewhere import PublishersElsewhere
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.local import LocalOutbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.publishers import CLIENTS_OWN, Publishers
from gravitate.broker.sessions.session import Session
from gravitate.broker.sessions.states import Owed, Publishing
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

ATTACHMENTS_MAX: Final = 1 << 20
"""How often brokers may attach a publisher somewhere within one connection of its client."""


class ClientPorts(NamedTuple):
    """Who is asked and told about sessions."""

    on_ended: Callable[[Outbound], None]
    """Told of every session that ends with its connection, before anything is undone."""
    on_drained: Callable[[Outbound], None]
    """Told when a session that holds owes its client nothing else."""
    continued: Callable[[ClientConnected], Outbound | None]
    """Asked for what a client goes on with which connects."""
    on_arrived: Callable[[Outbound], None]
    """Told when a client goes on with what held for it."""


class _Connection:
    """The outlet of a client that is connected here: effects."""

    __slots__ = ("_emit", "connection", "hand_over")

    def __init__(self, connection: int, context: Context, dispatch: Dispatch) -> None:
        self.connection = connection
        self._emit = context.emit
        self.hand_over = dispatch.hand_over

    def say(self, word: ToClient, /) -> None:
        self._emit(Tell(self.connection, word))


class Clients:
    """The sessions of a broker."""

    def __init__(
        self,
        context: Context,
        subscriptions: Subscriptions,
        dispatch: Dispatch,
        publishers: Publishers,
        tethers: PublishersElsewhere,
        ports: ClientPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._subscriptions = subscriptions
        self._dispatch = dispatch
        self._publishers = publishers
        self._tethers = tethers
        self.sessions: dict[str, Session] = {}
        """By client."""
        self.by_connection: dict[int, Session] = {}
        self._persisting: dict[int, tuple[Session, int]] = {}
        self._tokens = count(1)

    # Sessions ------------------------------------------------------------------------------

    def connected(self, input: ClientConnected) -> None:
        if input.session in self.sessions:
            self.close(input.session, TAKEN_OVER)
        outlet = _Connection(input.connection, self._context, self._dispatch)
        outbound = self._ports.continued(input)
        if outbound is not None:
            assert isinstance(outbound, LocalOutbound)
            outbound.renew(input.window, outlet)
        elif input.continues is Continues.MOVED:
            outlet.say(CloseSession(NOT_HERE))
            return
        else:
            outbound = self._new_outbound(input, outlet)
        inbound = self._new_inbound(input, outlet)
        id, publishers = input.session, self._publishers
        session = Session(input, outbound, inbound)
        self.sessions[id] = self.by_connection[input.connection] = session
        former = publishers.departing.get(id)
        if former is not None and former.origin is None:
            if former.incarnation != input.incarnation:
                publishers.abandon(id)
                publishers.ports.on_departure(former, False)
            else:
                publishers.came_back(id, input.incarnation)
        if input.counts and not self._tethers.adopt(inbound):
            publishers.bring_along(inbound)
        if not outbound.holding:
            self._observe(outbound, "opened")
        publishers.update_reading(inbound)

    def _new_outbound(self, input: ClientConnected, outlet: _Connection) -> LocalOutbound:
        options, lives = self._context.options, self._context.lives
        about = (input.session, input.incarnation, input.window)
        return LocalOutbound(*about, options, lives, outlet, self._subscriptions)

    def _new_inbound(self, input: ClientConnected, outlet: _Connection) -> Inbound:
        about = (input.session, input.incarnation, input.attachment * ATTACHMENTS_MAX)
        options, timer = self._context.options, HoldOver(input.session)
        return Inbound(*about, options, outlet.say, timer, self._publishers)

    def arrived(self, connection: int) -> None:
        """The client goes on with what was kept for it."""
        session = self.by_connection.get(connection)
        if session is not None and session.outbound.state in (Owed.CLAIMED, Owed.RESUMING):
            self._ports.on_arrived(session.outbound)

    def disconnected(self, connection: int) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            self._end(session)

    def _end(self, session: Session) -> None:
        """The session ends: what it published still goes out, then everything is undone."""
        self._ports.on_ended(session.outbound)
        self._end_session(session, Publishing.ENDING)
        session.inbound.at.close(session.inbound)

    def _end_session(self, session: Session, state: Publishing) -> None:
        inbound, outbound = session.inbound, session.outbound
        self._publishers.release(inbound)
        del self.sessions[session.id], self.by_connection[session.connection]
        # What an arriving publisher sent was not accepted; it will send it where it goes.
        inbound.enter(state)
        outbound.end()
        self._publishers.ports.on_gone(inbound.life)
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
        self._publishers.ports.on_gone(session.inbound.life)
        session.outbound.say(CloseSession(MOVED, target))
        session.outbound.detach()

    def end_parked(self, outbound: Outbound) -> None:
        """The client that something was kept for is elsewhere, or nowhere."""
        outbound.end()
        self._subscriptions.close(outbound)
        self._observe(outbound, "closed")

    def close(self, id: str, reason: str) -> None:
        """End the session of a client, if it has one here."""
        session = self.sessions.get(id)
        if session is not None:
            self._end(session)
            self._tell(session, CloseSession(reason))

    def _tell(self, session: Session, word: Word) -> None:
        self._context.emit(Tell(session.connection, word))

    def close_overloaded(self, outbound: Outbound) -> bool:
        """Whether a subscriber that fell too far behind has a connection; it is closed then."""
        session = self.sessions.get(outbound.id)
        is_connected = session is not None and session.outbound is outbound
        if is_connected:
            self.close(outbound.id, OVERLOADED)
        return is_connected

    def depart(self, publisher: Inbound, target: str) -> None:
        """Send the client to `target`; its advertisements wait to be taken along."""
        session = self.sessions[publisher.id]
        assert not session.subscribes(), f"{session.id} subscribes here"
        self._end_session(session, Publishing.DEPARTING)
        self._tell(session, CloseSession(MOVED, target))
        self._publishers.depart(publisher)

    def acknowledged(self, connection: int, sequence: int) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            outbound = session.outbound
            outbound.acknowledged(sequence)
            if outbound.state is Owed.CUTTING and outbound.drained():
                self._ports.on_drained(outbound)

    def congested(self, connection: int, congested: bool) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            session.outbound.congested = congested

    # Subscriptions -------------------------------------------------------------------------

    def subscribed(self, input: ClientSubscribed) -> None:
        session = self.by_connection.get(input.connection)
        if session is not None:
            wanted = Wanted(input.name, input.filter, input.qos, input.no_local)
            session.outbound.at.subscribe(session.outbound, wanted)

    def unsubscribed(self, connection: int, name: str) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            session.outbound.at.unsubscribe(session.outbound, name)

    # Publications --------------------------------------------------------------------------

    def advertised(self, connection: int, name: str, filter: Filter) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            session.inbound.at.advertise(session.inbound, f"{CLIENTS_OWN}{name}", filter)

    def unadvertised(self, connection: int, name: str) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            session.inbound.at.withdraw(session.inbound, f"{CLIENTS_OWN}{name}")

    def published(self, input: ClientPublished) -> None:
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
        size = len(input.bodies)
        first = input.first_counter if session.client.counts else None
        batch = self._number(inbound, input, size, first)
        if batch is not None:
            inbound.at.publish(inbound, batch)
        if input.qos:
            self._accept(session, size, batch)

    def _number(
        self, inbound: Inbound, input: ClientPublished, size: int, first: int | None
    ) -> Batch | None:
        """The publications as a batch, less what the client has sent before."""
        if first is None:
            first = inbound.next_counter
        known = inbound.next_counter - first
        if known >= size:
            return None
        inbound.next_counter = first + size
        batch = Batch(
            inbound.id,
            inbound.incarnation,
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
            self._publishers.release(session.inbound)

    def _accept(self, session: Session, size: int, batch: Batch | None) -> None:
        if self._context.options.durable and batch is not None:
            token = next(self._tokens)
            self._persisting[token] = (session, size)
            session.inbound.persisting += 1
            self._context.emit(Persist(token, batch))
        else:
            self._context.emit(Accept(session.connection, size))

    def persisted(self, token: int) -> None:
        session, size = self._persisting.pop(token)
        inbound = session.inbound
        inbound.persisting -= 1
        if inbound.live:
            self._context.emit(Accept(session.connection, size))
            if inbound.at_rest():
                self._publishers.ports.on_at_rest(inbound)

    def taken_over(self, publisher: Inbound) -> None:
        """The publisher of a session is attached elsewhere: its client is there."""
        session = self.sessions.get(publisher.id)
        if session is not None and session.inbound is publisher:
            self.close(publisher.id, TAKEN_OVER)
