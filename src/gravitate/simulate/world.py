"""Worlds: many brokers, the lines between them and their clients, on one virtual clock.

Owns what all have in common: the clock, the lines and their faults. What happens at one broker is
the business of `hosts`. A line that is cut loses what is in flight, and each side notices it in its
own time. Nothing here is random: a world is a function of what is scheduled on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gravitate.broker.interface import inputs as i
from gravitate.broker.observers import Observer
from gravitate.config.distances import distance_ms, ways_ms
from gravitate.config.network import Network
from gravitate.model.events import Bodies, Event, PlainBodies
from gravitate.model.moves import Move
from gravitate.simulate.hosts import Attachment, BrokerFactory, Host, SessionEnd, StepWatcher
from gravitate.simulate.lines import Line, Pipe, disconnect
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.scheduler import FIRST, Scheduler
from gravitate.wire.mqtt.bodies import FrameBodies


class World:
    """A network of simulated brokers; see the module for how it behaves."""

    def __init__(
        self,
        network: Network,
        factory: BrokerFactory,
        *,
        service: ServiceModel | None = None,
        observers: Sequence[Observer] = (),
        as_bytes: bool = False,
    ) -> None:
        self.network = network
        self.scheduler = Scheduler()
        self.observers = tuple(observers)
        self.watchers = [one for one in observers if isinstance(one, StepWatcher)]
        self.watchers_before = [
            one for one in self.watchers if type(one).before_step is not StepWatcher.before_step
        ]
        self.as_bytes = as_bytes
        """Whether frames between brokers are written and read as on sockets."""
        self.warnings: list[tuple[float, str, str]] = []
        self.steps = 0
        self.data_frames = 0
        self.client_inputs = 0
        self.factory = factory
        self.service = None if service is None or service.instant() else service
        self._connections = 0
        """To peers, and of clients, so far."""
        self.hosts = {broker.id: Host(self, broker.id) for broker in network.brokers}
        self.lines: dict[tuple[str, str], Line] = {}
        """Under both orders of their ends: those of the network, and any that brokers have opened
        since (`line`)."""
        self._ways_ms: dict[str, dict[str, float]] = {}
        """From places that clients have measured from. Invalidated by: nothing."""
        for link in network.links:
            a, b = link.between
            line = Line(a, b, link.latency_ms / 1000, link.bandwidth_bytes_per_s)
            self.lines[a, b] = self.lines[b, a] = line
            self.hosts[a].dials[b] = True
            self.hosts[b].dials[a] = False

    def line(self, a: str, b: str) -> Line:
        """The line between two brokers; where the network has none, it is as long as they are
        apart, and of unlimited bandwidth."""
        line = self.lines.get((a, b))
        if line is None:
            line = Line(a, b, distance_ms(self.network, a, b) / 1000)
            self.lines[a, b] = self.lines[b, a] = line
        return line

    def round_trip_s(self, place: str, broker: str) -> float | None:
        """Between a client that is next to the broker `place` and another broker, over the links
        of the network as its file has them; None when nobody answers there."""
        if place not in self._ways_ms:
            self._ways_ms[place] = ways_ms(self.network, place)
        way_ms = self._ways_ms[place].get(broker)
        return None if way_ms is None or not self.is_up(broker) else 2 * way_ms / 1000

    @property
    def now(self) -> float:
        return self.scheduler.now

    def start(self) -> None:
        """Start every broker that is not up, in the order of the network file."""
        for host in self.hosts.values():
            host.start()

    def is_up(self, broker: str) -> bool:
        return self.hosts[broker].broker is not None

    def said(self) -> tuple[int, int]:
        """Grows while anything is going on: data between brokers, inputs of clients."""
        return self.data_frames, self.client_inputs

    # Faults of lines

    def cut(self, a: str, b: str, noticed_after_s: tuple[float, float] = (0.0, 0.0)) -> None:
        """Cut a line: what is in flight is lost; `a` and `b` notice after the times given."""
        line = self.line(a, b)
        line.up = False
        notice_s = {a: noticed_after_s[0], b: noticed_after_s[1]}
        for pipe in list(line.pipes):
            if pipe.open:
                disconnect(pipe)
            self.scheduler.after(notice_s[pipe.source], self.notice_end, pipe, FIRST)

    def notice_end(self, pipe: Pipe) -> None:
        """The source of `pipe` learns that the connection is gone."""
        host = self.hosts[pipe.source]
        if host.pipes.pop(pipe.number, None) is not None:
            host.take(i.LinkClosed(pipe.target, pipe.number))

    def heal(self, a: str, b: str) -> None:
        """The line can be used again; brokers dial it in their own time."""
        self.line(a, b).up = True

    def delay(self, a: str, b: str, extra_s: float) -> None:
        """Frames sent from now on take `extra_s` longer, both ways."""
        self.line(a, b).extra_s = extra_s

    # Clients

    def new_connection(self) -> int:
        self._connections += 1
        return self._connections

    def attach(
        self, client: SessionEnd, connected: i.ClientConnected, broker: str, latency_s: float
    ) -> Attachment:
        """Open a session; a broker that is down answers `CloseSession(REFUSED)`."""
        attachment = Attachment(self.hosts[broker], connected.connection, client, latency_s)
        attachment.submit(connected)
        return attachment

    def bodies(self, events: Sequence[Event], qos: int) -> Bodies:
        """Events as clients publish them."""
        return FrameBodies.from_events(events, qos) if self.as_bytes else PlainBodies(events)

    def request_move(self, move: Move, broker: str) -> None:
        """Ask a broker for a move; nothing happens when it is down."""
        self.hosts[broker].take(i.MoveRequested(move))

    def run(self, until_s: float = float("inf"), actions_max: int | None = None) -> int:
        """Let the world go on; see `Scheduler.run`."""
        return self.scheduler.run(until_s, actions_max)
