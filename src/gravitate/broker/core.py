"""The broker: inputs in, effects out.

`handle` takes a batch of inputs and returns a batch of effects; it does no I/O and reads no
clock, so a simulator and a node drive the same object. What it is made of is built by `assembly`;
here every input finds its part, and a step its end.

Invariants: what is sent to a neighbour in one call leaves together, in the order it was sent,
publications and control messages alike; events of one publisher keep their order towards every
session and every neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from gravitate.broker.assembly import Parts
from gravitate.broker.incoming import Incoming
from gravitate.broker.interface import inputs
from gravitate.broker.interface.effects import STOPPING, CloseSession, Effect, Stopped, Tell, Warn
from gravitate.broker.interface.timers import StopLate
from gravitate.broker.mechanisms.guards import Failed, Guard, guarded_call
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.moves.engine import MoveWatcher
from gravitate.broker.observers import Observer
from gravitate.broker.options import DEFAULTS, BrokerOptions
from gravitate.broker.sessions.outbound import Outbound
from gravitate.overlay.strategies import CONTENT, S0, Forwarding, Routing
from gravitate.overlay.topology import Neighbourhood, Topology


class Broker:
    """One broker. `links` names its neighbours and whether this side dials them, `others` the
    brokers beside them that a link can be made with; without it, any. `tree` is what it is part of
    at the start; without it, it knows its neighbours alone. A mechanism, observer or watcher that
    raises is detached if `detached` is told of it; else the call raises."""

    def __init__(
        self,
        broker_id: str,
        incarnation: int,
        links: Mapping[str, bool],
        *,
        options: BrokerOptions = DEFAULTS,
        mechanisms: Sequence[Mechanism] = (),
        observers: Sequence[Observer] = (),
        routing: Routing = CONTENT,
        forwarding: Forwarding = S0,
        others: Collection[str] | None = None,
        tree: Topology | None = None,
        detached: Failed | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation
        self._detached = detached
        if detached is not None:
            mechanisms = [Guard(mechanism, detached) for mechanism in mechanisms]
            observers = [Guard(observer, detached) for observer in observers]
        make = partial(
            Parts,
            broker_id,
            incarnation,
            links,
            options,
            mechanisms,
            observers,
            routing,
            forwarding,
            others,
            tree,
        )
        self._incoming = Incoming(make, self._is_late)
        self._parts = parts = self._incoming.parts
        self._context = parts.context
        # What drivers, checkers and tests ask.
        self.mechanisms, self.links, self.peering = parts.mechanisms, parts.links, parts.peering
        self.router, self.dispatch = parts.router, parts.dispatch
        self.lives, self.congestion, self.deposits = parts.lives, parts.congestion, parts.deposits
        self.clients, self.publishers, self.engine = parts.clients, parts.publishers, parts.engine
        self.tethers, self.tethered = parts.publisher_tethers, parts.tethered
        self.subscriber_tethers, self.guests = parts.subscriber_tethers, parts.guests
        self.tethered_subscribers = parts.tethered_subscribers
        self.tether_links = parts.tether_links
        self._stopping = self.stopped = False
        clients, peering, of = parts.clients, parts.peering, parts.clients.taking
        self._handlers: dict[type, Callable[[Any], None]] = {
            inputs.FrameReceived: peering.received,
            inputs.ClientPublished: clients.published,
            inputs.ClientAcknowledged: of(clients.acknowledged),
            inputs.TimerFired: self._incoming.on_timer,
            inputs.ClientCongested: of(clients.congested),
            inputs.ClientConnected: self._connected,
            inputs.ClientDisconnected: of(clients.disconnected),
            inputs.ClientSubscribed: of(clients.subscribed),
            inputs.ClientUnsubscribed: of(clients.unsubscribed),
            inputs.ClientAdvertised: of(clients.advertised),
            inputs.ClientUnadvertised: of(clients.unadvertised),
            inputs.ClientPaused: of(
                lambda session, _: parts.paused(session.outbound, session.inbound)
            ),
            inputs.ClientArrived: of(clients.arrived),
            inputs.BrokersPinged: of(parts.posts.pinged),
            inputs.LinkHeard: peering.heard,
            inputs.LinkOpened: peering.opened,
            inputs.LinkClosed: peering.closed,
            inputs.DialFailed: peering.dial_failed,
            inputs.Persisted: lambda i: clients.persisted(i.token),
            inputs.MoveRequested: lambda i: parts.engine.propose(i.move),
            inputs.StopRequested: lambda i: self._request_stop(),
        }
        """What takes each kind of input."""

    def neighbours(self) -> Neighbourhood:
        """What it answers for its own part of the tree, which nothing changes yet."""
        return Neighbourhood(0, tuple(self.links.neighbours()))

    def watch_moves(self, watcher: MoveWatcher) -> None:
        """Tell `watcher` how the moves that begin here go on; costs events nothing."""
        if self._detached is not None:
            watcher = guarded_call(watcher, self._detached)
        self._parts.engine.watchers.append(watcher)

    def start(self, now: float) -> list[Effect]:
        """The first effects: dial the neighbours, let mechanisms set their timers."""
        self._context.now = now
        self._context.effects = []
        self.peering.start()
        self._incoming.start()
        self._parts.posts.attach()
        return self._end()

    def handle(self, batch: Sequence[inputs.Input], now: float) -> list[Effect]:
        """Take a batch of inputs, in order; what is to be done about them. Time never goes back,
        and is never before that of a timer."""
        assert not self.stopped, f"{self.broker_id} has stopped"
        context, handlers = self._context, self._handlers
        if now > context.now:
            context.now = now
        context.step += 1
        context.effects = []
        for input in batch:
            handlers[type(input)](input)
        return self._end()

    def _connected(self, input: inputs.ClientConnected) -> None:
        if self._stopping:
            self._context.emit(Tell(input.connection, CloseSession(STOPPING)))
        else:
            self.clients.connected(input)

    def _end(self) -> list[Effect]:
        """The end of a step, in this order and nowhere else."""
        parts, dispatch = self._parts, self.dispatch
        if self._incoming.has_reset:
            self._incoming.has_reset = False
            self.router.synchronise()
        while dispatch.overloaded:
            session = dispatch.overloaded.popitem()[0]
            assert isinstance(session, Outbound)
            parts.close_overloaded(session)
        parts.deposits.look_back()
        self.subscriber_tethers.flush()
        if parts.chores.waiting:
            parts.chores.go_on()
        if dispatch.outgoing:
            dispatch.flush()
        if self._stopping and self._may_drain():
            self.tethered.stop()
            dispatch.flush()
            self.links.drain()
        parts.handovers.review()
        self.congestion.review()
        links = self.links
        if links.touched:
            links.flush()
        if links.draining and not links.queued.events:
            self._stop()
        return self._context.effects

    # Stopping ------------------------------------------------------------------------------

    def _request_stop(self) -> None:
        """Close the sessions, undo what they asked for, empty the links. What tethered clients have
        published is handed over or taken home first: emptied links take nothing more."""
        self._stopping = True
        self._parts.engine.stop()
        for session in list(self.clients.sessions):
            self.clients.close(session, STOPPING)
        self.tethered_subscribers.stop()
        if self._context.options.stop_s_max:
            at = self._context.now + self._context.options.stop_s_max
            self._context.set_timer(StopLate(), at)

    def _may_drain(self) -> bool:
        return (
            not self._parts.chores.waiting
            and not self.links.draining
            and self._parts.engine.may_stop()
            and not any(self.tethers)
            and not any(self.tethered_subscribers.visitors())
        )

    def _is_late(self) -> None:
        """An orderly stop has taken too long."""
        self._context.emit(Warn(self.broker_id, "stopped with links not emptied"))
        self._stop()

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._context.emit(Stopped())
