"""One broker on sockets: the driver of a broker core.

Owns the clock and the batching of inputs; the `Interpreter` carries out the effects. Everything
submitted during one iteration of the event loop is handed to the core together, the first read
after a quiet moment excepted (`hurry`); what comes back is buffered per connection and written
once. Does not know frames (`links` moves them) nor MQTT (the front door attaches its connections
here).

Invariants: the core is entered from one place, `_run`, and never from within itself; effects are
carried out in the order given; an effect for a client that has gone is dropped. What goes wrong for
one client, link or watcher is contained there. When the core itself raises, its state can no longer
be trusted: the node closes and `failure` says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, Protocol

from gravitate.broker.core import Broker
from gravitate.broker.interface.inputs import FrameReceived, Input, StopRequested, TimerFired
from gravitate.broker.interface.interpreter import Interpreter
from gravitate.broker.links.link import Link, LinkState
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import Data
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions
from gravitate.model.moves import ClientMove, ReassignSubscriber
from gravitate.overlay.strategies import CONTENT, S0, Forwarding, Routing
from gravitate.overlay.topology import Topology
from gravitate.serve.descriptors import Doorkeeper
from gravitate.serve.node.moves import MoveRegister
from gravitate.serve.node.status import HeldStatus, LinkStatus, NodeStatus, Readiness
from gravitate.serve.node.surroundings import ClientConnection, Sockets
from gravitate.serve.node.timers import Timers
from gravitate.serve.peers.links import Neighbour, PeerLinks

logger = logging.getLogger("gravitate.node")

FEW_INPUTS: Final = 20
MESSAGES_A_TURN: Final = 512
"""What is handled before the event loop turns again: so much takes some ten milliseconds."""
HELD_NAMED_MAX: Final = 20
"""Publishers that a status names of those that are held."""
STOP_MARGIN_S: Final = 2.0
"""How much longer than the core's own bound an orderly stop is waited for."""


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
        routing: Routing = CONTENT,
        forwarding: Forwarding = S0,
        incarnation: int | None = None,
        mqtt_addresses: Mapping[str, tuple[str, int]] | None = None,
        others: Mapping[str, Neighbour] | None = None,
        mechanisms: Sequence[Mechanism] = (),
        tree: Topology | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.options = options or BrokerOptions()
        self.incarnation = incarnation or microseconds_now()
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
            tree=tree,
            detached=self._watcher_failed,
        )
        self.moves = MoveRegister(broker_id)
        self.broker.watch_moves(self.moves.stepped)
        self.doorkeeper = Doorkeeper(broker_id, 1 + len(neighbours) + len(others or ()))
        self.links = PeerLinks(
            self.options.network, broker_id, neighbours, self.submit, others, self.doorkeeper
        )
        self.doors: list[Door] = []
        self.failure: BaseException | None = None
        """What ended it, if the core broke."""
        self.counted: list[Callable[[], Mapping[str, int]]] = []
        """Who counts something beside this one; it is told with the status."""
        self.detached: list[str] = []
        """Mechanisms and observers that raised."""
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
        self._connections = count(1)
        self._timers = Timers(self.now, lambda timer, at: self.submit(TimerFired(timer, at)))
        around = Sockets(broker_id, self.links, self._timers, self.submit, self._has_stopped)
        self._interpreter: Interpreter[ClientConnection] = Interpreter(around)
        self.mqtt_addresses = dict(mqtt_addresses or {})
        """Where brokers take clients."""
        self.failures = around.failures
        """What was contained."""
        self.client_failed = around.client_failed
        self._last_incarnation = 0
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    # --- life -----------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic() + self._clock_offset_s

    def start(self) -> None:
        """Bring the core to life; links are dialled from here on."""
        self._interpreter.carry_out(self.broker.start(self.now()))

    async def stop(self) -> None:
        """Stop in order: sessions are closed, links emptied, then every socket closed."""
        if not self._stopped.done():
            self.submit(StopRequested())
            bound_s = self.options.stop_s_max
            try:
                async with asyncio.timeout(bound_s + STOP_MARGIN_S if bound_s else None):
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
        self._has_stopped()

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

    def attach(self, client: ClientConnection) -> int:
        """The number of a client's connection: what it brings about goes there from now on."""
        number = next(self._connections)
        self._interpreter.clients[number] = client
        return number

    def detach(self, connection: int) -> None:
        """No more goes to a connection."""
        self._interpreter.clients.pop(connection, None)

    def next_incarnation(self) -> int:
        """Grows with every call, over restarts too."""
        self._last_incarnation = max(self._last_incarnation + 1, microseconds_now())
        return self._last_incarnation

    def attached(self) -> Iterator[str]:
        """The ids of all clients that are attached to this broker, wherever they are connected; in
        any order, some perhaps twice. Clients may come and go while it is read."""
        for session in [*self.broker.clients.sessions.values()]:
            if session.inbound.place is None:
                yield session.id
        yield from [publisher.id for publisher in self.broker.tethered]

    def served(self) -> Iterator[str]:
        """The same of all clients that this broker serves as subscribers."""
        for session in [*self.broker.clients.sessions.values()]:
            if session.outbound.place is None:
                yield session.id
        yield from [one.id for one in self.broker.tethered_subscribers]

    def reconnects(self, move: ClientMove) -> bool:
        """Whether the client of a move would connect elsewhere itself."""
        if isinstance(move, ReassignSubscriber):
            session = self.broker.clients.sessions.get(move.subscriber)
            return (
                session is not None
                and session.outbound.place is None
                and not session.stays_as_subscriber()
            )
        session = self.broker.clients.sessions.get(move.publisher)
        return session is not None and session.inbound.place is None and not session.stays()

    def status(self) -> NodeStatus:
        """What this node tells about itself at this moment."""
        broker = self.broker
        dispatch = broker.dispatch
        unsettled = broker.router.unsettled()
        return NodeStatus(
            broker=self.broker_id,
            incarnation=self.incarnation,
            network=self.options.network,
            uptime_s=time.monotonic() - self._started_at_s,
            sessions=len(broker.clients.sessions),
            links=[self._link_status(link, unsettled.get(link.peer, 0)) for link in broker.links],
            held=[
                HeldStatus(*link, len(publishers), publishers[:HELD_NAMED_MAX])
                for link, publishers in broker.congestion.held().items()
            ],
            detached=list(self.detached),
            topology=broker.neighbours(),
            tables=dict(broker.router.sizes()),
            counters={
                "events_in": dispatch.events_in,
                "events_forwarded": dispatch.events_forwarded,
                "events_delivered": dispatch.events_delivered,
                "events_dropped": dispatch.events_dropped,
                "events_overflowed": dispatch.events_overflowed,
                "inputs_handled": self.inputs_handled,
                "batches_handled": self.batches_handled,
                "peers_refused": sum(self.links.offences.values()),
                "frames_refused_again": broker.peering.refused_again,
                "publishers_forgotten": broker.lives.forgotten,
                "deposits_refused": broker.deposits.refused,
                **{f"{kind}_failed": count for kind, count in self.failures.counts.items()},
                "connections_refused": self.doorkeeper.refused,
                **{name: count for source in self.counted for name, count in source().items()},
            },
        )

    def readiness(self) -> Readiness:
        """Whether every neighbour has been heard since the start, and those that are there know
        what clients of this broker want."""
        awaited: dict[str, str] = {}
        down: list[str] = []
        for link in self.broker.links:
            if not link.is_primary:
                continue
            if not link.peer_incarnation:
                awaited[link.peer] = "its link has not been up since the start"
            elif link.state is not LinkState.UP:
                down.append(link.peer)
            elif self.broker.router.is_awaited(link.peer):
                awaited[link.peer] = "it has not answered all it was told"
        return Readiness(self.broker_id, not awaited, awaited, down)

    def _link_status(self, link: Link, unsettled: int) -> LinkStatus:
        connection = self.links.connection_of(link.peer)
        return LinkStatus(
            peer=link.peer,
            state=link.state.value,
            rtt_ms=1000 * link.rtt_s,
            queue_events=link.queued.events,
            queue_bytes=connection.queued_bytes if connection else 0,
            bytes_in=connection.bytes_in if connection else 0,
            bytes_out=connection.bytes_out if connection else 0,
            unsettled=unsettled,
        )

    # --- the core -------------------------------------------------------------------------------

    def _run(self) -> None:
        self._scheduled = False
        inputs, self._inputs = self._inputs, []
        if len(inputs) > FEW_INPUTS:
            inputs = self._portion(inputs)
        if not inputs or self._ended or self.broker.stopped:
            return
        assert not self._running, "the core was entered from within itself"
        self._running = True
        try:
            effects = self.broker.handle(inputs, self.now())
            self.inputs_handled += len(inputs)
            self.batches_handled += 1
            self._interpreter.carry_out(effects, at_once=len(inputs) == 1)
        except Exception as error:
            self._fail(error)
        finally:
            self._running = False

    def _portion(self, inputs: list[Input]) -> list[Input]:
        """The first of many inputs; the rest has the next turn, so that others have theirs."""
        messages = 0
        for index, input in enumerate(inputs):
            if type(input) is FrameReceived and type(input.frame) is Data:
                messages += len(input.frame.messages)
            else:
                messages += 1
            if messages > MESSAGES_A_TURN and index:
                self._inputs = inputs[index:]
                self._scheduled = True
                self._loop.call_soon(self._run)
                return inputs[:index]
        return inputs

    def _watcher_failed(self, name: str, error: Exception) -> None:
        """A mechanism or an observer raised; the broker has let go of it."""
        self.failures.note("watchers", name, error)
        self.detached.append(name)

    def _has_stopped(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def _fail(self, error: Exception) -> None:
        logger.critical(
            "broker %s failed and closes: its core is broken", self.broker_id, exc_info=error
        )
        self.failure = error
        self._ended = True
        self._closing = self._loop.create_task(self.close())
