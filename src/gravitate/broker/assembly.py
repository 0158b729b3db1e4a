"""Builds the parts of a broker and gives each its ports; nothing else.

A part is given what it stands on, and *ports* for what it asks or tells of others. Where those are
built later, a port looks them up when it is used. A port that was forgotten is an error when the
broker is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.congestion import CongestionView
from gravitate.broker.forwarding.destinations import Destinations
from gravitate.broker.forwarding.handovers import Handovers
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.forwarding.strategy import FORWARDERS
from gravitate.broker.interface.effects import Stay
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.links.peering import Peering, PeeringPorts
from gravitate.broker.links.seek import Seek
from gravitate.broker.links.table import LinkTable
from gravitate.broker.lives import Life, Lives
from gravitate.broker.mechanisms.mechanism import Mechanism, Posts
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.messages.tether import Publishing, TetherAttach
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.reassignment import Reassignments
from gravitate.broker.moves.relocation import Relocations
from gravitate.broker.moves.staging import GuestPorts
from gravitate.broker.moves.table import On
from gravitate.broker.moves.tether.attached import TetheredPublishers
from gravitate.broker.moves.tether.deposits import Deposits
from gravitate.broker.moves.tether.origin import Tethers
from gravitate.broker.moves.tether.publisher import PublisherTethers
from gravitate.broker.moves.tether.remote import Remote, RemotePorts
from gravitate.broker.moves.tether.served import TetheredSubscribers
from gravitate.broker.moves.tether.subscriber import SubscriberTethers
from gravitate.broker.observers import LinkChange, Observer
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.registry import ROUTERS
from gravitate.broker.routing.router import RouterPorts
from gravitate.broker.sessions.chores import Chores
from gravitate.broker.sessions.clients import ClientPorts, Clients
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.publishers import PublisherPorts, Publishers
from gravitate.broker.sessions.subscriptions import SubscriptionPorts, Subscriptions
from gravitate.model.events import Batch
from gravitate.overlay.strategies import Forwarding, Routing
from gravitate.overlay.topology import Topology


class LinkEvents(NamedTuple):
    """Who is told what happens on links, see `LinkTable` and `Peering`."""

    message: Callable[[str, Message], None]
    changed: Callable[[str, LinkChange], None]
    keep: Callable[[str, Publications], Publications]
    received: Callable[[str, Message], None]
    taken: Callable[[str, Message], None]
    synchronised: Callable[[str], None]


class Parts:
    """What a broker is made of."""

    def __init__(
        self,
        broker_id: str,
        incarnation: int,
        links: Mapping[str, bool],
        options: BrokerOptions,
        mechanisms: Sequence[Mechanism],
        observers: Sequence[Observer],
        routing: Routing,
        forwarding: Forwarding,
        others: Collection[str] | None,
        tree: Topology | None,
        told: LinkEvents,
    ) -> None:
        self.broker_id = broker_id
        known = tree or Topology.started_as((broker_id, *links), [(broker_id, it) for it in links])
        self.seek = Seek(broker_id, known)
        self.mechanisms = tuple(mechanisms)
        self.lives = Lives(options, lambda life: self.router.is_advertised(life))
        self.context = context = Context(broker_id, options, (*mechanisms, *observers), self.lives)
        on = (told.message, told.received, told.taken)
        self.links = LinkTable(context, links.items(), *on)
        ports = PeeringPorts(told.changed, lambda: self.dispatch.flush(), told.keep)
        self.peering = Peering(context, incarnation, self.links, ports)
        self.destinations = Destinations(FORWARDERS[forwarding]())
        self.router = ROUTERS[routing](
            links,
            RouterPorts(
                send=lambda peer, message: self.dispatch.send_control(peer, message),
                destination_of=self.destinations.anchor,
                departed=lambda life, key: self.publishers.departed(life, key),
                moved=lambda *moved: self.guests.publisher_moved(*moved),
                ended=lambda life: self.lives.ended(life, context.now),
                advertised=lambda life, key: self.publisher_tethers.heard(life, key),
                withdrawn=lambda: self.publisher_tethers.advertisements_ended(),
                synchronised=told.synchronised,
            ),
        )
        self.dispatch = Dispatch(context, self.router, self.destinations, self.links)
        self.handovers = Handovers(self.dispatch, self.links)
        self.congestion = CongestionView(
            context,
            self.links,
            self.router,
            self.dispatch.send_control,
            lambda life: bool(self._publishers_of(life)),
            self._update_reading,
        )
        self.tether_links = TetherLinks(
            context, self.links, self.peering, self._is_link_needed, others
        )
        self._build_sessions()
        self._build_moves(told.message)

    def _build_sessions(self) -> None:
        context = self.context
        self.chores = Chores(context)
        self.publishers = Publishers(
            context,
            self.router,
            self.dispatch,
            self.handovers,
            self.chores,
            PublisherPorts(
                mark=self._mark,
                is_congested=self.congestion.is_held,
                on_gone=self._publisher_gone,
                on_departure=lambda publisher, gone: self.relocations.on_departure(publisher, gone),
                on_at_rest=lambda publisher: self.relocations.on_at_rest(publisher),
                on_taken_over=self._taken_over,
                on_left=self._left,
                on_closed=self._closed,
                on_ended=lambda publisher: self.tethered.ended(publisher),
                take=lambda input: self.clients.published(input),
            ),
        )
        self.subscriptions = Subscriptions(
            context,
            self.router,
            self.destinations,
            self.chores,
            SubscriptionPorts(
                on_changed=lambda session: self.reassignments.on_changed(session),
                on_settled=lambda session: self.guests.on_settled(session),
                on_partly_settled=lambda *settled: self.guests.on_partly_settled(*settled),
            ),
        )

    def _build_moves(self, hear: Callable[[str, Message], None]) -> None:
        context, dispatch, links, seek = self.context, self.dispatch, self.links, self.seek.find
        send = dispatch.send_control
        self.remote = Remote(
            context,
            dispatch,
            links,
            RemotePorts(
                attach=self._attach,
                on_detached=lambda *key: self.guests.left_origin(*key),
                hear=hear,
                on_lost=lambda origin: self.tethered.forget(origin),
                on_paused=self.paused,
                on_closed=self._closed,
                on_left=self.tether_links.review,
            ),
        )
        self.paths = MovePaths(
            context, links, self.tether_links, send, lambda *told: self.engine.tell(*told)
        )
        self.engine = Engine(context, self.paths, seek)
        self.tethered = TetheredPublishers(self.publishers, self.remote, self.engine, seek)
        self.tethers = Tethers(
            self.remote, self.tether_links, lambda id, reason: self.clients.close(id, reason)
        )
        self.publisher_tethers = PublisherTethers(
            self.router, self.publishers, self.tethered, self.tethers
        )
        self.tethered_subscribers = served = TetheredSubscribers(
            self.engine,
            self.subscriptions,
            self.paths,
            self.remote,
            lambda session: self.reassignments.on_drained(session),
            lambda: self.deposits.look_back(),
            GuestPorts(
                on_complete=lambda guest: self.subscriber_tethers.on_complete(guest),
                on_answer=lambda answer: self.reassignments.on_answer(answer),
                on_finished=lambda guest: self.subscriber_tethers.on_finished(guest),
                on_lost=lambda guest: self.subscriber_tethers.on_lost(guest),
            ),
        )
        self.guests = served.guests
        self.subscriber_tethers = SubscriberTethers(self.subscriptions, served, self.tethers, seek)
        self.clients = Clients(
            context,
            self.subscriptions,
            dispatch,
            self.publishers,
            ClientPorts(
                on_ended=self._session_ended,
                on_drained=lambda session: self.reassignments.on_drained(session),
                continued=lambda input: self.reassignments.continued(input),
                on_arrived=lambda session: self.reassignments.on_arrived(session),
                adopt=self.publisher_tethers.adopt,
            ),
        )
        begun = (context, self.engine, self.clients)
        self.relocations = Relocations(
            *begun, self.publishers, self.publisher_tethers, self.tethered
        )
        self.reassignments = Reassignments(
            *begun, dispatch, self.subscriptions, self.subscriber_tethers, served, self.paths
        )
        self.deposits = Deposits(self.subscriptions, self.remote, served)
        self.posts = Posts(
            context, self.mechanisms, links, self.clients, self.engine, self.relocations, send
        )

    # What concerns several parts -----------------------------------------------------------

    def _is_link_needed(self, peer: str) -> bool:
        is_origin = peer in self.remote.origins()
        return is_origin or self.tethers.needs(peer) or self.tethered.expects(peer)

    def paused(self, *ends: Inbound | Outbound) -> None:
        """A client does nothing more here; one that is not to leave is told to go on."""
        if not any(self.engine.tell_subject(end, On.PAUSED) for end in ends):
            ends[0].say(Stay())

    def _closed(self, end: Inbound | Outbound) -> None:
        self.engine.tell_subject(end, On.CLOSED, f"{end.id!r} has disconnected")

    def _session_ended(self, end: Outbound) -> None:
        self._closed(end)
        self.guests.left(end)

    def close_overloaded(self, session: Outbound) -> None:
        """End a session that fell too far behind, connected or not."""
        self.dispatch.events_overflowed += session.owed_events()
        if not self.clients.close_overloaded(session):
            self.reassignments.on_overloaded(session)
            self.tethered_subscribers.overloaded(session)

    def _attach(self, origin: str, message: TetherAttach) -> None:
        if isinstance(message.role, Publishing):
            self.tethered.attach(origin, message, message.role)
        else:
            self.tethered_subscribers.attach(origin, message, message.role)

    def _mark(self, batch: Batch) -> int:
        """What mechanisms write on a batch that is published here."""
        marks = (one.mark(batch, self.context.now) for one in self.mechanisms)
        return next(filter(None, marks), 0)

    def _publishers_of(self, life: Life) -> list[Inbound]:
        """Those of a life that are here: the client's session, and what is attached for it."""
        session = self.clients.sessions.get(life[0])
        here = session is not None and session.inbound.life == life
        connected = [session.inbound] if session is not None and here else []
        return [*connected, *self.tethered.of(life)]

    def _update_reading(self, life: Life) -> None:
        for publisher in self._publishers_of(life):
            self.publishers.update_reading(publisher)

    def _publisher_gone(self, life: Life) -> None:
        if not self._publishers_of(life):
            self.congestion.left(life)

    def _left(self, publisher: Inbound) -> None:
        if publisher.origin is not None:
            self.tether_links.review(publisher.origin)

    def _taken_over(self, publisher: Inbound) -> None:
        self.clients.taken_over(publisher)
        self.tethered.taken_over(publisher)
