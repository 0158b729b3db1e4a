"""One broker on sockets: the driver of a broker core.

Owns the clock, the batching of inputs and the carrying out of effects. Everything
submitted during one iteration of the event loop is handed to the core together, the first read
after a quiet moment excepted (`hurry`); what comes back is buffered per connection and written
once. Does not know frames (`links` moves them) nor MQTT (the front door attaches its connections
here).

Invariants: the core is entered from one place, `_run`, and never from within itself; effects are
carried out in the order given; an effect for a client that has gone is dropped. When the core
raises, its state can no longer be trusted: the node closes and `failure` says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from gravitate.broker.core import Broker
from gravitate.broker.effects import (
    MOVED,
    TAKEN_OVER,
    Accept,
    AdvertisementSettled,
    Attached,
    CloseLink,
    CloseSession,
    Deliver,
    Effect,
    HoldReading,
    OpenLink,
    Persist,
    PingBrokers,
    Redirect,
    Send,
    SetTimer,
    Stopped,
    SubscriptionSettled,
    Warn,
)
from gravitate.broker.inputs import Input, Persisted, StopRequested, TimerFired
from gravitate.broker.links import Link
from gravitate.broker.mechanisms import Mechanism
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch
from gravitate.model.moves import ClientMove, ReassignSubscriber
from gravitate.serve.links import Neighbour, PeerLinks
from gravitate.serve.moves import MoveRegister
from gravitate.serve.status import LinkStatus, NodeStatus
from gravitate.serve.timers import Timers

logger = logging.getLogger("gravitate.node")

STOP_MARGIN_S: Final = 2.0
"""How much longer than the core's own bound an orderly stop is waited for."""


class ClientConnection(Protocol):
    """Where the effects of a session go. All but `flush` and `close` only buffer."""

    def deliver(self, batch: Batch, qos: int, sequence: int) -> None: ...

    def accept(self, count: int) -> None: ...

    def subscription_settled(self, name: str) -> None: ...

    def advertisement_settled(self, name: str) -> None: ...

    def hold_reading(self, hold: bool) -> None: ...

    def redirect(self, target: str, host: str, port: int) -> None:
        """The client is expected at broker `target`, which takes clients at this address."""
        ...

    def stay(self) -> None:
        """The client is to go on here after all."""
        ...

    def ping(self, brokers: Mapping[str, tuple[str, int]], token: int) -> None:
        """The client is to measure how far brokers are that take clients at these addresses."""
        ...

    def attached(self) -> None: ...

    def moved(self, target: str, host: str, port: int) -> None:
        """The session has ended; the client is expected at broker `target`."""
        ...

    def close(self, reason: str) -> None: ...

    def flush(self) -> None:
        """Once per connection touched, after all effects of a batch."""
        ...


class Door(Protocol):
    """Something that lets clients in and is closed with the node."""

    async def close(self) -> None: ...


def microseconds_now() -> int:
    return time.time_ns() // 1000


class Node:
    """Create it inside a running event loop; `start` opens its doors, `stop` ends it in order."""

    def __init__(
        self,
        broker_id: str,
        neighbours: Mapping[str, Neighbour],
        options: BrokerOptions | None = None,
        observers: Iterable[Observer] = (),
        routing: str = "content",
        forwarding: str = "S0",
        incarnation: int | None = None,
        mqtt_addresses: Mapping[str, tuple[str, int]] | None = None,
        others: Mapping[str, Neighbour] | None = None,
        mechanisms: Sequence[Mechanism] = (),
    ) -> None:
        self.broker_id = broker_id
        self.options = options or BrokerOptions()
        self.incarnation = incarnation or microseconds_now()
        self._mqtt_addresses = dict(mqtt_addresses or {})
        self.broker = Broker(
            broker_id,
            self.incarnation,
            {peer: neighbour.dials for peer, neighbour in neighbours.items()},
            options=self.options,
            mechanisms=mechanisms,
            observers=tuple(observers),
            routing=routing,
            forwarding=forwarding,
            others=[peer for peer, other in (others or {}).items() if other.possible],
        )
        self.moves = MoveRegister(broker_id)
        self.broker.watch_moves(self.moves.stepped)
        self.links = PeerLinks(self.options.network, broker_id, neighbours, self.submit, others)
        self.doors: list[Door] = []
        self.failure: BaseException | None = None
        self.inputs_handled = 0
        self.batches_handled = 0
        self._started_at_s = time.monotonic()
        self._loop = asyncio.get_running_loop()
        # Wall time that never goes back: delays are measured between brokers, timers within one.
        self._clock_offset_s = time.time() - time.monotonic()
        self._inputs: list[Input] = []
        self._scheduled = False
        self._hurried_at = 0.0
        self._running = False
        self._ended = False
        self._clients: dict[str, ClientConnection] = {}
        self._detached: set[str] = set()
        self._timers = Timers(self.now, lambda key: self.submit(TimerFired(key)))
        self._last_incarnation = 0
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    # --- life -----------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic() + self._clock_offset_s

    def start(self) -> None:
        """Bring the core to life; links are dialled from here on."""
        self._carry_out(self.broker.start(self.now()))

    async def stop(self) -> None:
        """Stop in order: sessions are closed, links emptied, then every socket closed."""
        if not self._stopped.done():
            self.submit(StopRequested())
            try:
                async with asyncio.timeout(self.options.stop_s_max + STOP_MARGIN_S):
                    await asyncio.shield(self._stopped)
            except TimeoutError:
                logger.warning("%s did not stop in order in time", self.broker_id)
        await self.close()

    async def close(self) -> None:
        """Let go of every socket and timer at once."""
        self._ended = True
        self._timers.cancel()
        doors, self.doors = self.doors, []
        for door in doors:
            await door.close()
        await self.links.shutdown()
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def wait(self) -> None:
        """Until the node has stopped; raises what made it fail."""
        await asyncio.shield(self._stopped)
        if self.failure is not None:
            raise self.failure

    # --- what doors and links use ---------------------------------------------------------------

    def submit(self, input: Input) -> None:
        """Queue an input; everything queued in this iteration of the loop is handled together."""
        self._inputs.append(input)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def hurry(self, tick: float) -> None:
        """A read has been submitted as a whole; `tick` is the time of the loop's clock.

        The first read within a tick (a millisecond) is handled at once, so that a lone event does
        not wait for another turn of the loop; those that follow it are handled together."""
        if tick != self._hurried_at and self._inputs:
            self._hurried_at = tick
            self._run()

    def attach(self, session: str, connection: ClientConnection) -> None:
        """Effects of `session` go to `connection` from now on.

        A connection that had the session before gets what it is still owed, then is closed."""
        former = self._clients.get(session)
        if former is not None and former is not connection:
            self._run()
            former.close(TAKEN_OVER)
            former.flush()
        elif session in self._detached:
            # What is queued belongs to the connection that has gone: its answers go nowhere.
            self._run()
        self._clients[session] = connection

    def detach(self, session: str, connection: ClientConnection) -> None:
        """No more effects of `session` go to `connection`; nothing if another has it by now."""
        if self._clients.get(session) is connection:
            del self._clients[session]
            self._detached.add(session)

    def next_incarnation(self) -> int:
        """Grows with every call, over restarts too."""
        self._last_incarnation = max(self._last_incarnation + 1, microseconds_now())
        return self._last_incarnation

    @property
    def sessions(self) -> int:
        return len(self._clients)

    def attached(self) -> list[str]:
        """The ids of all clients that are attached to this broker, wherever they are connected."""
        sessions = self.broker.clients.sessions.values()
        here = {session.id for session in sessions if session.tether is None}
        return sorted(here | {publisher.id for publisher in self.broker.tethered})

    def served(self) -> list[str]:
        """The ids of all clients that this broker serves as subscribers, wherever they are
        connected."""
        sessions = self.broker.clients.sessions.values()
        here = {session.id for session in sessions if session.subscriber_tether is None}
        return sorted(here | {one.id for one in self.broker.subscribers.tethered})

    def reconnects(self, move: ClientMove) -> bool:
        """Whether the client of a move would connect elsewhere itself."""
        if isinstance(move, ReassignSubscriber):
            session = self.broker.clients.sessions.get(move.subscriber)
            return (
                session is not None
                and session.subscriber_tether is None
                and not session.stays_as_subscriber()
            )
        session = self.broker.clients.sessions.get(move.publisher)
        return session is not None and session.tether is None and not session.stays()

    def status(self) -> NodeStatus:
        """What this node tells about itself at this moment."""
        broker = self.broker
        dispatch = broker.dispatch
        return NodeStatus(
            broker=self.broker_id,
            incarnation=self.incarnation,
            network=self.options.network,
            uptime_s=time.monotonic() - self._started_at_s,
            sessions=len(broker.clients.sessions),
            links=[self._link_status(link) for link in broker.links],
            tables={
                "subscriptions": len(broker.router.entries()),
                "advertisements": len(broker.router.advertisements()),
            },
            counters={
                "events_in": dispatch.events_in,
                "events_forwarded": dispatch.events_forwarded,
                "events_delivered": dispatch.events_delivered,
                "events_dropped": dispatch.events_dropped,
                "inputs_handled": self.inputs_handled,
                "batches_handled": self.batches_handled,
                "peers_refused": sum(self.links.offences.values()),
            },
        )

    def _link_status(self, link: Link) -> LinkStatus:
        connection = self.links.connection_of(link.peer)
        return LinkStatus(
            peer=link.peer,
            state=link.state.value,
            rtt_ms=1000 * link.rtt_s,
            queue_events=link.queued_events,
            queue_bytes=connection.queued_bytes if connection else 0,
            bytes_in=connection.bytes_in if connection else 0,
            bytes_out=connection.bytes_out if connection else 0,
        )

    # --- the core -------------------------------------------------------------------------------

    def _run(self) -> None:
        self._scheduled = False
        inputs, self._inputs = self._inputs, []
        self._detached.clear()
        if not inputs or self._ended or self.broker.stopped:
            return
        assert not self._running, "the core was entered from within itself"
        self._running = True
        try:
            effects = self.broker.handle(inputs, self.now())
            self.inputs_handled += len(inputs)
            self.batches_handled += 1
            self._carry_out(effects, at_once=len(inputs) == 1)
        except Exception as error:
            self._fail(error)
        finally:
            self._running = False

    def _fail(self, error: Exception) -> None:
        logger.critical("broker %s failed and closes", self.broker_id, exc_info=error)
        self.failure = error
        self._ended = True
        self._closing = self._loop.create_task(self.close())

    def _carry_out(self, effects: Sequence[Effect], at_once: bool = False) -> None:
        """Buffer what effects bring for each connection and write it, links first.

        What follows from a single input brings a client hardly ever more than one thing, so it
        may be written as it comes: the first of many clients need not wait for the last."""
        clients = self._clients
        if at_once and effects and type(effects[-1]) is Send:
            at_once = False
        touched: dict[ClientConnection, None] = {}
        for effect in effects:
            # The most frequent first.
            match effect:
                case Deliver():
                    client = clients.get(effect.session)
                    if client is not None:
                        client.deliver(effect.batch, effect.qos, effect.sequence)
                        if at_once:
                            client.flush()
                        else:
                            touched[client] = None
                case Accept():
                    client = clients.get(effect.session)
                    if client is not None:
                        client.accept(effect.count)
                        touched[client] = None
                case Send():
                    self.links.send(effect.connection, effect.frame)
                case SetTimer():
                    self._timers.set(effect.key, effect.at)
                case OpenLink():
                    self.links.open(effect.peer)
                case CloseLink():
                    self.links.close(effect.connection, effect.reason)
                case Persist():
                    # Without a journal nothing is more stable than memory.
                    self.submit(Persisted(effect.token))
                case Warn():
                    logger.warning("%s, from %s: %s", self.broker_id, effect.origin, effect.text)
                case Stopped():
                    if not self._stopped.done():
                        self._stopped.set_result(None)
                case _:
                    client = clients.get(effect.session)
                    if client is not None:
                        self._tell(client, effect)
                        touched[client] = None
        if self.links.touched:
            self.links.flush()
        for client in touched:
            client.flush()

    def _tell(
        self,
        client: ClientConnection,
        effect: SubscriptionSettled
        | AdvertisementSettled
        | HoldReading
        | Redirect
        | PingBrokers
        | Attached
        | CloseSession,
    ) -> None:
        match effect:
            case SubscriptionSettled():
                client.subscription_settled(effect.name)
            case AdvertisementSettled():
                client.advertisement_settled(effect.name)
            case HoldReading():
                client.hold_reading(effect.hold)
            case Attached():
                client.attached()
            case PingBrokers():
                known = self._mqtt_addresses
                client.ping({id: known[id] for id in effect.brokers if id in known}, effect.token)
            case Redirect(target=target) if target == self.broker_id:
                client.stay()
            case Redirect(target=target):
                if target in self._mqtt_addresses:
                    client.redirect(target, *self._mqtt_addresses[target])
                else:
                    # It is not told, does not pause, and stays.
                    logger.warning("%s knows no MQTT address of %s", self.broker_id, target)
            case CloseSession(reason=reason) if (
                reason == MOVED and effect.target in self._mqtt_addresses
            ):
                client.moved(effect.target, *self._mqtt_addresses[effect.target])
            case CloseSession(reason=reason) if reason != TAKEN_OVER:
                # The connection that was taken over was told when the new one was attached.
                client.close(reason)
