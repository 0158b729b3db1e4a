"""Builds the parts of a broker, gives each its ports, and does what concerns several of them.

A part is given what it stands on, and *ports* for what it asks or tells of others. Where those are
built later, a port looks them up when it is used. A port that was forgotten is an error when the
broker is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding import congestion, destinations, handovers, pipeline
from gravitate.broker.interface.effects import OVERLOADED, TAKEN_OVER, Stay
from gravitate.broker.links import demand, peering, table
from gravitate.broker.links.link import LinkEvents
from gravitate.broker.links.seek import Seek
from gravitate.broker.lives import Life, Lives
from gravitate.broker.mechanisms.mechanism import Mechanism, Posts
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.messages.tether import Deliveries, Publishing, TetherAttach
from gravitate.broker.moves import engine, path, reassignment, relocation, staging
from gravitate.broker.moves.table import On
from gravitate.broker.moves.tether import attached, deposits, origin, remote, served
from gravitate.broker.moves.tether.publisher import PublisherTethers
from gravitate.broker.moves.tether.subscriber import SubscriberTethers
from gravitate.broker.observers import LinkChange, Observer
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.registry import ROUTERS
from gravitate.broker.routing.router import RouterPorts
from gravitate.broker.sessions import chores, clients, publishers, subscriptions
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.overlay.strategies import Forwarding, Routing
from gravitate.overlay.topology import Topology


class Told(NamedTuple):
    """Who is told what other brokers say, and what becomes of links to them."""

    message: Callable[[str, Message], None]
    changed: Callable[[str, LinkChange], None]
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
        told: Told,
    ) -> None:
        known = tree or Topology.started_as((broker_id, *links), [(broker_id, it) for it in links])
        self.seek: Seek = lambda to, then: then(known.path(broker_id, to))
        self.mechanisms = tuple(mechanisms)
        self.lives = Lives(options, lambda life: self.router.is_advertised(life))
        self.context = context = Context(broker_id, options, (*mechanisms, *observers), self.lives)
        on = LinkEvents(
            message=told.message,
            received=self._received,
            done_with=self._done_with,
            changed=told.changed,
            collect=lambda: self.dispatch.flush(),
            keep=self._keep,
        )
        self.links = table.LinkTable(context, links.items(), on)
        self.peering = peering.Peering(context, incarnation, self.links, on)
        self.destinations = destinations.Destinations(destinations.FORWARDERS[forwarding])
        router_ports = RouterPorts(
            send=lambda peer, message: self.dispatch.send_control(peer, message),
            destination_of=self.destinations.anchor,
            departed=lambda life, key: self.publishers.departed(life, key),
            moved=lambda *moved: self.guests.publisher_moved(*moved),
            ended=lambda life: self.lives.ended(life, context.now),
            advertised=lambda life, key: self.publisher_tethers.heard(life, key),
            withdrawn=lambda: self.publisher_tethers.advertisements_ended(),
            synchronised=told.synchronised,
        )
        self.router = ROUTERS[routing](links, router_ports)
        self.dispatch = pipeline.Dispatch(context, self.router, self.destinations, self.links)
        self.handovers = handovers.Handovers(self.dispatch, self.links)
        self.congestion = congestion.CongestionView(
            context,
            self.links,
            self.router,
            self.dispatch.send_control,
            lambda life: bool(self._publishers_of(life)),
            self._update_reading,
        )
        self.tether_links = demand.TetherLinks(
            context, self.links, self.peering, self._is_link_needed, others
        )
        self._build_sessions()
        self._build_moves(told.message)

    def _build_sessions(self) -> None:
        self.chores = chores.Chores(self.context)
        publisher_ports = publishers.PublisherPorts(
            on_departure=lambda publisher, gone: self.relocations.on_departure(publisher, gone),
            on_at_rest=lambda publisher: self.relocations.on_at_rest(publisher),
            on_taken_over=self._taken_over,
            on_closed=self._closed,
            on_ended=lambda publisher: self.tethered.ended(publisher),
            take=lambda input: self.clients.published(input),
        )
        beside = (self.handovers, self.congestion, self.tether_links, self.chores)
        self.publishers = publishers.Publishers(
            self.context, self.router, self.dispatch, *beside, publisher_ports
        )
        ports = subscriptions.SubscriptionPorts(
            on_changed=lambda session: self.reassignments.on_changed(session),
            on_settled=lambda session: self.guests.on_settled(session),
            on_partly_settled=lambda *settled: self.guests.on_partly_settled(*settled),
        )
        self.subscriptions = subscriptions.Subscriptions(
            self.context, self.router, self.destinations, self.chores, ports
        )

    def _build_moves(self, hear: Callable[[str, Message], None]) -> None:
        context, dispatch, links, seek = self.context, self.dispatch, self.links, self.seek
        send = dispatch.send_control
        remote_ports = remote.RemotePorts(
            attach=self._attach,
            on_detached=lambda *key: self.guests.left_origin(*key),
            hear=hear,
            on_lost=lambda origin: self.tethered.forget(origin),
            on_paused=self.paused,
            on_closed=self._closed,
            on_left=self.tether_links.review,
        )
        self.remote = remote.Remote(context, dispatch, links, remote_ports)
        self.paths = path.MovePaths(
            context, links, self.tether_links, send, lambda *told: self.engine.tell(*told)
        )
        self.engine = engine.Engine(context, self.paths, seek)
        self.tethered = attached.TetheredPublishers(self.publishers, self.remote, self.engine, seek)
        self.tethers = origin.Tethers(
            self.remote, self.tether_links, lambda id, reason: self.clients.close(id, reason)
        )
        self.publisher_tethers = PublisherTethers(
            self.router, self.publishers, self.tethered, self.tethers
        )
        guest_ports = staging.GuestPorts(
            on_complete=lambda guest: self.subscriber_tethers.on_complete(guest),
            on_answer=lambda answer: self.reassignments.on_answer(answer),
            on_finished=lambda guest: self.subscriber_tethers.on_finished(guest),
            on_lost=lambda guest: self.subscriber_tethers.on_lost(guest),
        )
        self.tethered_subscribers = subscribers = served.TetheredSubscribers(
            self.engine,
            self.subscriptions,
            self.paths,
            self.remote,
            lambda session: self.reassignments.on_drained(session),
            lambda: self.deposits.look_back(),
            lambda *asked: self.deposits.heard_of(*asked),
            guest_ports,
        )
        self.guests = subscribers.guests
        self.subscriber_tethers = SubscriberTethers(
            self.subscriptions, subscribers, self.tethers, seek
        )
        client_ports = clients.ClientPorts(
            on_ended=self._session_ended,
            on_drained=lambda session: self.reassignments.on_drained(session),
            continued=lambda input: self.reassignments.continued(input),
            on_arrived=lambda session: self.reassignments.on_arrived(session),
            adopt=self.publisher_tethers.adopt,
        )
        self.clients = clients.Clients(
            context, self.subscriptions, dispatch, self.publishers, client_ports
        )
        begun = (context, self.engine, self.clients)
        self.relocations = relocation.Relocations(
            *begun, self.publishers, self.publisher_tethers, self.tethered
        )
        self.reassignments = reassignment.Reassignments(
            *begun, dispatch, self.subscriptions, self.subscriber_tethers, subscribers, self.paths
        )
        self.deposits = deposits.Deposits(self.subscriptions, self.remote, subscribers)
        mechanisms = {mechanism.name: mechanism for mechanism in self.mechanisms}
        self.posts = Posts(
            context, mechanisms, links, self.clients, self.engine, self.relocations, send
        )

    # What concerns several parts -----------------------------------------------------------

    def _received(self, peer: str, message: Message) -> None:
        if isinstance(message, Deliveries):
            self.tethered_subscribers.taken(peer, message)

    def _done_with(self, peer: str, message: Message) -> None:
        self.publisher_tethers.taken(peer, message)

    def _keep(self, peer: str, message: Publications) -> Publications:
        return Publications([self.router.outlives_reset(one, peer) for one in message.batches])

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
        for queue in (session.waiting, session.kept):
            self.dispatch.events_overflowed += queue.measure.events
        if not self.clients.close_of(session, OVERLOADED):
            self.reassignments.on_overloaded(session)
            self.tethered_subscribers.overloaded(session)

    def _attach(self, origin: str, message: TetherAttach) -> None:
        if isinstance(message.role, Publishing):
            self.tethered.attach(origin, message, message.role)
        else:
            self.tethered_subscribers.attach(origin, message, message.role)

    def _publishers_of(self, life: Life) -> list[Inbound]:
        """Those of a life that are here: the client's session, and what is attached for it."""
        session, tethered = self.clients.sessions.get(life[0]), self.tethered.of(life)
        if session is not None and session.inbound.life == life:
            return [session.inbound, *tethered]
        return [*tethered]

    def _update_reading(self, life: Life) -> None:
        for publisher in self._publishers_of(life):
            self.publishers.update_reading(publisher)

    def _taken_over(self, publisher: Inbound) -> None:
        self.clients.close_of(publisher, TAKEN_OVER)
        self.tethered.taken_over(publisher)
