"""The broker: inputs in, effects out.

`handle` takes a batch of inputs and returns a batch of effects; it does no I/O and reads no
clock, so a simulator and a node drive the same object. The broker wires its parts: the clients'
sessions, links to neighbours, a routing strategy that answers destinations, a forwarding
strategy that turns anchors into links, the move lock, and the mechanisms that are switched on.

Invariants: what is sent to a neighbour in one call leaves together, in the order it was sent,
publications and control messages alike; events of one publisher keep their order towards every
session and every neighbour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gravitate.broker.chores import Chores
from gravitate.broker.clients import Clients
from gravitate.broker.congestion import CongestionView
from gravitate.broker.context import Context
from gravitate.broker.deposits import Deposits
from gravitate.broker.destinations import Destinations
from gravitate.broker.dispatch import Dispatch
from gravitate.broker.effects import STOPPING, CloseSession, Effect, SetTimer, Stopped, Warn
from gravitate.broker.forwarding import FORWARDERS
from gravitate.broker.guards import Failed, Guard, guarded_call
from gravitate.broker.guest_messages import (
    Deliveries,
    Entrusted,
    GuestAnswer,
    GuestAttach,
    GuestAttached,
    GuestClosed,
    GuestCut,
    GuestDetach,
    GuestPaused,
    GuestRedirect,
    GuestSettled,
    GuestWants,
    Reminder,
    TakeGuest,
)
from gravitate.broker.handovers import Handovers
from gravitate.broker.inputs import (
    BrokersPinged,
    ClientAcknowledged,
    ClientAdvertised,
    ClientArrived,
    ClientCongested,
    ClientConnected,
    ClientDisconnected,
    ClientPaused,
    ClientPublished,
    ClientSubscribed,
    ClientUnadvertised,
    ClientUnsubscribed,
    FrameReceived,
    Input,
    LinkClosed,
    LinkHeard,
    LinkOpened,
    MoveRequested,
    Persisted,
    StopRequested,
    TimerFired,
)
from gravitate.broker.links import LinkTable
from gravitate.broker.lives import Life, Lives
from gravitate.broker.mechanisms import Mechanism
from gravitate.broker.messages import (
    Advertise,
    Congested,
    Drained,
    EndMove,
    LockAnswer,
    LockRelease,
    LockRequest,
    MechanismMessage,
    Message,
    MoveAnswer,
    PrepareMove,
    Publications,
    Settled,
    Subscribe,
    SyncEnd,
    TetherAdvertise,
    TetherAttach,
    TetherAttached,
    TetherClosed,
    TetherDetach,
    TetherHold,
    TetherPaused,
    TetherRedirect,
    TetherSettled,
    TetherUnadvertise,
    ToTether,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.move_paths import MovePaths
from gravitate.broker.observers import Observer
from gravitate.broker.options import DEFAULTS, BrokerOptions
from gravitate.broker.pings import Pings
from gravitate.broker.posts import MoveWatcher, Posts
from gravitate.broker.publishers import Publishers
from gravitate.broker.recent import RECENT_S_MAX
from gravitate.broker.relocation import Relocations
from gravitate.broker.routing.strategy import ROUTERS
from gravitate.broker.routing.table import EVERYWHERE
from gravitate.broker.sessions import Publisher
from gravitate.broker.subscriber_moves import SubscriberMoves
from gravitate.broker.subscriptions import Subscriptions
from gravitate.broker.tether_links import TetherLinks
from gravitate.broker.tethered import Tethered, TetheredPublishers
from gravitate.broker.tethers import Tethers
from gravitate.errors import PeerError
from gravitate.model.moves import ReassignSubscriber, RelocatePublisher


class Broker:
    """One broker. `links` names its neighbours and whether this side dials them, `others` the
    brokers beside them that a link can be made with; without it, any. A mechanism, observer or
    watcher that raises is detached if `detached` is told of it; else the call raises."""

    def __init__(
        self,
        broker_id: str,
        incarnation: int,
        links: Mapping[str, bool],
        *,
        options: BrokerOptions = DEFAULTS,
        mechanisms: Sequence[Mechanism] = (),
        observers: Sequence[Observer] = (),
        routing: str = "content",
        forwarding: str = "S0",
        others: Collection[str] | None = None,
        detached: Failed | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation
        self._detached = detached
        if detached is not None:
            mechanisms = [Guard(mechanism, detached) for mechanism in mechanisms]
            observers = [Guard(observer, detached) for observer in observers]
        self.mechanisms = tuple(mechanisms)
        self.lives = Lives(options, lambda *life: self.router.is_advertised(*life))
        self._context = context = Context(broker_id, options, observers, mechanisms, self.lives)
        self.links = LinkTable(
            broker_id,
            incarnation,
            links.items(),
            options,
            context.emit,
            self._message,
            self._link_changed,
            lambda: self.dispatch.flush(),
            self._keep,
            self._received,
            self._taken,
        )
        self._destinations = Destinations(FORWARDERS[forwarding]())
        self.router = ROUTERS[routing](
            broker_id,
            links,
            lambda peer, message: self.dispatch.send_control(peer, message),
            self._destinations.anchor,
            lambda advertisement: self.publishers.departed(advertisement),
            lambda *moved: self.subscribers.guests.publisher_moved(*moved),
            lambda *life: self.lives.ended(life, context.now),
        )
        self.dispatch = Dispatch(context, self.router, self._destinations, self.links)
        self._chores = Chores(context)
        self._handovers = Handovers(self.dispatch, self.links)
        self.publishers = Publishers(
            context, self.router, self.dispatch, self._handovers, self._chores
        )
        self.tethered = TetheredPublishers(
            context, self.router, self.publishers, self.links, self._tell_tether
        )
        self.tether_links = TetherLinks(context, self.links, self._is_link_needed, others)
        self.tethers = Tethers(
            context,
            self.router,
            self.dispatch,
            self.publishers,
            self.tethered,
            self.tether_links,
        )
        self._posts = Posts(context, mechanisms, self.links, self.dispatch.send_control)
        self._paths = MovePaths(
            context,
            self.links,
            self.tether_links,
            self._posts.lock,
            self.dispatch.send_control,
        )
        self._subscriptions = Subscriptions(context, self.router, self._destinations, self._chores)
        self.subscribers = SubscriberMoves(
            context,
            self.dispatch,
            self._subscriptions,
            self._paths,
            self.links,
            self.tether_links,
        )
        self.clients = Clients(
            context,
            self.router,
            self._subscriptions,
            self.dispatch,
            self.publishers,
            self.tethers,
            self.subscribers.tethers,
        )
        self.publishers.on_left = self._left
        self.publishers.on_ended = self.tethered.ended
        self.publishers.on_taken_over = self._taken_over
        self.tethers.close_session = self.clients.close
        self.congestion = CongestionView(
            context,
            self.links,
            self.router,
            self.dispatch.send_control,
            lambda life: bool(self._publishers_of(life)),
            self._update_reading,
        )
        self.publishers.is_congested = self.congestion.is_held
        self.publishers.on_gone = self._publisher_gone
        self._relocations = Relocations(
            context,
            self.clients,
            self.publishers,
            self.tethers,
            self.tethered,
            self._paths,
            self._posts.ended,
            self._posts.entered,
        )
        self._reassignments = self.subscribers.lead(
            self.clients, self._posts.ended, self._posts.entered
        )
        self._relocations.is_busy = self._reassignments.is_moving
        self._reassignments.is_busy = self._relocations.is_moving
        self._posts.protocols[RelocatePublisher] = self._relocations.propose
        self._posts.protocols[ReassignSubscriber] = self._reassignments.propose
        self._posts.may_move = self._relocations.may_move
        self.deposits = Deposits(
            options.deposits_bytes_max,
            self.links,
            self.dispatch.send_control,
            self.subscribers.tethered.entrusted,
        )
        self.subscribers.tethered.on_served = self.deposits.tell
        self._pings = Pings(context, self.clients)
        self._posts.ping = self._pings.ask
        self._unheard = set(links)
        """Neighbours that have not said what they know since the start."""
        self._stopping = False
        self._has_reset = False
        """Since the last step some link has started anew."""
        self.stopped = False

    def watch_moves(self, watcher: MoveWatcher) -> None:
        """Tell `watcher` how the moves that begin here go on; costs events nothing."""
        if self._detached is not None:
            watcher = guarded_call(watcher, self._detached)
        self._posts.move_watchers.append(watcher)

    def start(self, now: float) -> list[Effect]:
        """The first effects: dial the neighbours, let mechanisms set their timers."""
        self._begin(now)
        self.links.start(now)
        if self._unheard:
            self._context.emit(SetTimer("recent", now + RECENT_S_MAX))
        else:
            self._forget_recent()
        self._posts.attach()
        return self._end()

    def handle(self, inputs: Sequence[Input], now: float) -> list[Effect]:
        """Take a batch of inputs, in order; what is to be done about them."""
        assert not self.stopped, f"{self.broker_id} has stopped"
        context = self._context
        context.now = now
        context.step += 1
        context.effects = []
        for input in inputs:
            self._take(input)
        return self._end()

    def _begin(self, now: float) -> None:
        self._context.now = now
        self._context.effects = []

    def _end(self) -> list[Effect]:
        context = self._context
        if self._has_reset:
            self._has_reset = False
            self.router.synchronise()
        while self.dispatch.overloaded:
            self.subscribers.close_overloaded(self.dispatch.overloaded.popitem()[0])
        self.subscribers.tethers.flush()
        if self._chores.waiting:
            self._chores.go_on()
        if self.dispatch.outgoing:
            self.dispatch.flush()
        if (
            self._stopping
            and not self._chores.waiting
            and not self.links.draining
            and not len(self.tethers)
            and not self.subscribers.tethered.has_visitors()
        ):
            self.tethered.stop()
            self.dispatch.flush()
            self.links.drain()
        self._handovers.review()
        self.congestion.review()
        if self.links.touched:
            self.links.flush(context.now)
        if self.links.draining and self.links.emptied():
            self._stop()
        return context.effects

    def _take(self, input: Input) -> None:
        clients, now = self.clients, self._context.now
        match input:
            case FrameReceived():
                self.links.received(input.peer, input.connection, input.frame, now)
            case ClientPublished():
                clients.published(input)
            case ClientAcknowledged():
                clients.acknowledged(input.session, input.sequence)
            case TimerFired():
                self._timer(input.key)
            case ClientCongested():
                clients.congested(input.session, input.congested)
            case ClientConnected():
                if self._stopping:
                    self._context.emit(CloseSession(input.session, STOPPING))
                else:
                    clients.connected(input)
            case ClientDisconnected():
                clients.disconnected(input.session)
            case ClientSubscribed():
                clients.subscribed(input)
            case ClientUnsubscribed():
                clients.unsubscribed(input.session, input.name)
            case ClientAdvertised():
                clients.advertised(input.session, input.name, input.filter)
            case ClientUnadvertised():
                clients.unadvertised(input.session, input.name)
            case ClientPaused():
                if not self._reassignments.paused(input.session):
                    self._relocations.paused(input.session)
            case ClientArrived():
                clients.arrived(input.session)
            case BrokersPinged():
                self._pings.answered(input)
            case LinkHeard():
                self.links.heard(input.peer, input.connection, now)
            case LinkOpened():
                self.links.opened(input.peer, input.connection, now)
            case LinkClosed():
                self.links.closed(input.peer, input.connection, now)
            case Persisted():
                clients.persisted(input.token)
            case MoveRequested():
                self._posts.propose(input.move)
            case StopRequested():
                self._request_stop()

    def _message(self, peer: str, message: Message) -> None:
        """A neighbour's message, once and in order; `PeerError` when it cannot be meant."""
        match message:
            case Publications():
                for batch in message.batches:
                    if batch.tether is not None:
                        self.tethered.publish(peer, batch)
                        continue
                    if not self.links.is_neighbour(peer):
                        raise PeerError("no-neighbour", "publications that were not handed over")
                    if batch.plane == EVERYWHERE:
                        self.lives.heard((batch.publisher, batch.incarnation), self._context.now)
                    elif batch.plane not in self.router.planes:
                        raise PeerError("unknown-plane", f"publications of plane {batch.plane}")
                    self.dispatch.route(batch, peer)
            case (
                TetherAttach()
                | TetherAdvertise()
                | TetherUnadvertise()
                | TetherPaused()
                | TetherDetach()
            ):
                self.tethered.handle(peer, message)
            case (
                TetherAttached()
                | TetherSettled()
                | TetherHold()
                | TetherRedirect()
                | TetherClosed()
            ):
                self.tethers.handle(peer, message)
            case (
                Deliveries()
                | GuestAttach()
                | GuestWants()
                | GuestPaused()
                | GuestDetach()
                | GuestAttached()
                | GuestSettled()
                | GuestRedirect()
                | GuestClosed()
            ):
                self.subscribers.handle(peer, message)
            case _ if not self.links.is_neighbour(peer):
                raise PeerError("no-neighbour", f"{type(message).__name__} on a tether")
            case Subscribe() if not self.links.is_neighbour(message.anchor):
                raise PeerError("unknown-anchor", f"subscription anchored at {message.anchor!r}")
            case Subscribe() | Unsubscribe() | Advertise() | Unadvertise() | Settled() | SyncEnd():
                self.router.handle(peer, message)
                if isinstance(message, Advertise):
                    self.tethers.heard(message)
                elif isinstance(message, Unadvertise | SyncEnd):
                    self.tethers.advertisements_ended()
                if isinstance(message, SyncEnd):
                    self._note_heard(peer)
            case Congested():
                self.congestion.on_congested(peer, message)
            case Drained():
                self.congestion.on_drained(peer, message)
            case LockRequest() | LockAnswer() | LockRelease() | MechanismMessage():
                self._posts.handle(peer, message)
            case PrepareMove() | MoveAnswer() | EndMove():
                self._paths.handle(peer, message)
            case TakeGuest() | GuestCut() | GuestAnswer():
                self.subscribers.handle_along_path(peer, message)
            case Entrusted():
                self.deposits.heard(peer, message)
            case Reminder():
                self.subscribers.tethered.remind(message)

    def _note_heard(self, peer: str) -> None:
        """A neighbour has said what it knows."""
        self._unheard.discard(peer)
        if not self._unheard:
            self._forget_recent()

    def _forget_recent(self) -> None:
        """Nobody will remind this broker of anything any more."""
        self.subscribers.tethered.look_back()
        self.dispatch.recent = None

    def _timer(self, key: str) -> None:
        match key.split(":", 2):
            case ["link", what, peer]:
                self.links.timer(what, peer, self._context.now)
            case ["mechanism", name, own_key]:
                self._posts.timer(name, own_key)
            case ["hold", *session]:
                self.clients.hold_expired(":".join(session))
            case ["tether", what, which]:
                self._tether_timer(what, which)
            case ["guest", what, which]:
                self.subscribers.timer(what, which)
            case ["move", *move]:
                self._relocations.expired(":".join(move))
                self._reassignments.expired(":".join(move))
            case ["chores"]:
                pass  # every step goes on with them
            case ["recent"]:
                self._forget_recent()
            case ["leases"]:
                self._paths.watch_leases()
            case ["stop"]:
                if self._stopping:
                    self._context.emit(Warn(self.broker_id, "stopped with links not emptied"))
                    self._stop()

    def _tether_timer(self, what: str, which: str) -> None:
        match what:
            case "hold":
                self.tethered.hold_expired(which)
            case "arrive":
                self.tethers.late(which)
            case "idle":
                self.tether_links.idle(which)
            case "down":
                if self.tether_links.given_up(which):
                    self._tethers_down(which)

    def _tethers_down(self, peer: str) -> None:
        """A link that tethers go over has been down for a while. Where it is the tree's too, what
        is under way on it is not forgotten: those who are served here for others go on."""
        if self.links.is_neighbour(peer):
            self.tethers.link_lost(peer)
            self.subscribers.link_down(peer)
            self.tether_links.review(peer)
        else:
            self._tethers_lost(peer)

    def _tethers_lost(self, peer: str) -> None:
        self.tethered.lost(peer)
        self.tethers.link_lost(peer)
        self.subscribers.link_lost(peer)

    def _received(self, peer: str, message: Message) -> None:
        """The other end of a link has a message of this one's."""
        if isinstance(message, Deliveries):
            self.subscribers.taken(peer, message)

    def _taken(self, peer: str, message: Message) -> None:
        """The other end of a link has passed on what was in a message of this one's."""
        if not isinstance(message, Deliveries):
            self.tethers.taken(peer, message)

    def _is_link_needed(self, peer: str) -> bool:
        return (
            peer in self.tethers.peers()
            or peer in self.tethered.origins()
            or self.subscribers.needs_link(peer)
        )

    def _tell_tether(self, origin: str, message: ToTether) -> None:
        """Whoever is no longer there to be told has forgotten its tether."""
        if origin == self.broker_id:
            self.tethers.handle(origin, message)
        elif origin in self.links:
            self.dispatch.send_control(origin, message)

    def _publishers_of(self, life: Life) -> list[Publisher]:
        """Those of a life that are here: the client's session, and what is attached for it."""
        session = self.clients.sessions.get(life[0])
        connected = [session] if session is not None and session.life == life else []
        return [*connected, *self.tethered.of(life)]

    def _update_reading(self, life: Life) -> None:
        for publisher in self._publishers_of(life):
            self.publishers.update_reading(publisher)

    def _publisher_gone(self, life: Life) -> None:
        if not self._publishers_of(life):
            self.congestion.left(life)

    def _left(self, publisher: Publisher) -> None:
        if isinstance(publisher, Tethered):
            self.tether_links.review(publisher.origin)

    def _taken_over(self, publisher: Publisher) -> None:
        self.clients.taken_over(publisher)
        self.tethered.taken_over(publisher)

    def _link_changed(self, peer: str, state: str) -> None:
        context = self._context
        primary = self.links.is_neighbour(peer)
        if state == "reset":
            if primary:
                self.router.reset(peer)
                self._has_reset = True
                self.congestion.forget(peer)
                self._posts.lost(peer)
                self._relocations.lost(peer)
                self._reassignments.lost(peer)
                self.deposits.reset(peer)
            self.tethered.lost(peer)
            self.tethers.link_reset(peer)
            self.subscribers.link_reset(peer)
        elif state == "given up":
            if primary:
                self.router.forget(peer)
                self.congestion.forget(peer)
                self._posts.lost(peer)
                self._relocations.lost(peer)
                self._reassignments.lost(peer)
                self.tethers.advertisements_ended()
                self.deposits.forget(peer)
            self._tethers_lost(peer)
            context.emit(Warn(peer, "link given up: what was queued for it is dropped"))
        elif state == "down":
            self.tether_links.down(peer)
        elif state == "absent" and primary:
            self.router.absent(peer)
            self.congestion.forget(peer)
        elif state == "resumed" and primary:
            self.router.present(peer)
        if state in ("reset", "resumed"):
            self.tether_links.up(peer)
            self.tethers.link_up(peer)
            self.subscribers.link_up(peer)
        if state in ("reset", "resumed", "given up"):
            self.tether_links.review(peer)
        if state != "absent":  # which is no news to who knows that it is down
            for observer in context.observers:
                observer.on_link(self.broker_id, peer, state, context.now)

    def _keep(self, peer: str, message: Publications) -> Publications:
        """Publications that outlive the reset of the link to `peer`: what is no longer advertised,
        or was by that side, goes everywhere, for the neighbour will not be told who wanted it. What
        was handed over to be published there is published elsewhere."""
        return Publications(
            [
                batch if self.router.announced(batch, peer) else batch.on_plane(EVERYWHERE)
                for batch in message.batches
                if batch.tether is None
            ]
        )

    def _request_stop(self) -> None:
        """Close the sessions, undo what they asked for, empty the links.

        What clients have published is first handed over, or taken home, where they are tethered:
        links take nothing more once they are being emptied."""
        self._stopping = True
        self._reassignments.stop()
        for session in list(self.clients.sessions):
            self.clients.close(session, STOPPING)
        self.tethered.take_no_more()
        self.subscribers.tethered.stop()
        for publisher in list(self.publishers.departing):
            self.publishers.abandon(publisher)
        if self._context.options.stop_s_max:
            at = self._context.now + self._context.options.stop_s_max
            self._context.emit(SetTimer("stop", at))

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._context.emit(Stopped())
