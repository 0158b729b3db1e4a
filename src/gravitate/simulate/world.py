"""Worlds: many brokers, the lines between them and their clients, on one virtual clock.

Owns the translation of effects into inputs: who gets what when. It runs the production broker and
knows nothing of what brokers say to each other; clients are whatever has the methods of
`SessionEnd`. Nothing here is random: a world is a function of what is scheduled on it.

How a link behaves: `OpenLink` is answered after the line's latency, by `LinkOpened` on both sides
or by `DialFailed` when the line is cut or the peer down. A cut loses what is in
flight and each side notices it in its own time. A broker that stopped in order, or closed a link,
has its last frames arrive before the other side reads the end of the stream.

A broker can be killed between any two effects of a step. What it has sent may still arrive; each
peer notices the end in its own time, clients at once.

Invariants: a broker handles one batch at a time; inputs reach it in the order they arrived; with
the instant service model a batch is one input. A *step* is one batch handled by one broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Data, Frame
from gravitate.broker.observers import Observer
from gravitate.config.distances import distance_ms, ways_ms
from gravitate.config.network import Network
from gravitate.model.events import Bodies, Event, PlainBodies
from gravitate.model.moves import Move
from gravitate.simulate.hosts import (
    LOST,
    REFUSED,
    Attachment,
    BrokerFactory,
    Host,
    SessionEnd,
    StepWatcher,
)
from gravitate.simulate.lines import Line, Pipe, as_sent, connect, disconnect
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.scheduler import FIRST, Scheduler
from gravitate.wire.mqtt.bodies import FrameBodies

T = TypeVar("T")


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
        self._watchers = [one for one in observers if isinstance(one, StepWatcher)]
        self._watched = [
            one for one in self._watchers if type(one).before_step is not StepWatcher.before_step
        ]
        self.as_bytes = as_bytes
        """Whether frames between brokers are written and read as on sockets."""
        self.warnings: list[tuple[float, str, str]] = []
        self.steps = 0
        self._data_frames = 0
        self._client_inputs = 0
        self._factory = factory
        service = service or ServiceModel()
        self._service = None if service.instant() else service
        self._connections = 0
        """To peers, and of clients, so far."""
        self.hosts = {broker.id: Host(broker.id) for broker in network.brokers}
        self.lines: dict[tuple[str, str], Line] = {}
        """Under both orders of their ends: those of the network, and any that brokers have opened
        since (`line`)."""
        self._ways_ms: dict[str, dict[str, float]] = {}
        """From places that clients have measured from. Invalidated by: nothing."""
        self._dials: dict[str, dict[str, bool]] = {broker.id: {} for broker in network.brokers}
        for link in network.links:
            a, b = link.between
            line = Line(a, b, link.latency_ms / 1000, link.bandwidth_bytes_per_s)
            self.lines[a, b] = self.lines[b, a] = line
            self._dials[a][b] = True
            self._dials[b][a] = False

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

    # The life of brokers

    def start(self) -> None:
        """Start every broker that is not up, in the order of the network file."""
        for broker in self.hosts:
            self.start_broker(broker)

    def start_broker(self, broker: str) -> None:
        """Start a broker with empty state and a higher incarnation; nothing if it is up."""
        host = self.hosts[broker]
        if host.broker is not None:
            return
        host.incarnation += 1
        host.stopping = False
        host.broker = self._factory(broker, host.incarnation, self._dials[broker], self.observers)
        self._finish(host, (), host.broker.start(self.now))

    def crash_broker(
        self,
        broker: str,
        after: Callable[[int], int],
        noticed_after_s: Callable[[], float | None],
        within_s: float = 0.2,
    ) -> None:
        """Kill a broker within its next step, `after` so many of the effects it wants; or when it
        takes none, after `within_s`. Each peer notices after the time drawn; None: when it has read
        all that the broker had sent."""
        host = self.hosts[broker]
        if host.broker is not None and host.doomed is None:
            host.doomed, host.noticed_after_s = after, noticed_after_s
            self.scheduler.after(within_s, self._killed, (host, host.incarnation))

    def _killed(self, what: tuple[Host, int]) -> None:
        host, incarnation = what
        if host.incarnation == incarnation and host.doomed is not None:
            self._crash(host)

    def stop_broker(self, broker: str) -> None:
        """Ask a broker to stop in order; it is down once it says so."""
        host = self.hosts[broker]
        if host.broker is not None and not host.stopping:
            host.stopping = True
            self._input(host, i.StopRequested())

    def is_up(self, broker: str) -> bool:
        return self.hosts[broker].broker is not None

    def said(self) -> tuple[int, int]:
        """Grows while anything is going on: data between brokers, inputs of clients."""
        return self._data_frames, self._client_inputs

    # Faults of lines

    def cut(self, a: str, b: str, noticed_after_s: tuple[float, float] = (0.0, 0.0)) -> None:
        """Cut a line: what is in flight is lost; `a` and `b` notice after the times given."""
        line = self.line(a, b)
        line.up = False
        notice_s = {a: noticed_after_s[0], b: noticed_after_s[1]}
        for pipe in list(line.pipes):
            if pipe.open:
                disconnect(pipe)
            self.scheduler.after(notice_s[pipe.source], self._notice_end, pipe, FIRST)

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
        """Open a session; a broker that is down answers with `on_closed(REFUSED)`."""
        attachment = Attachment(connected.connection, client, latency_s)
        host = self.hosts[broker]
        self.scheduler.after(latency_s, self._attached, (host, attachment, connected))
        return attachment

    def submit(self, attachment: Attachment, broker: str, item: i.Input) -> None:
        """Send an input of a client; it is lost if the session has ended on arrival."""
        host = self.hosts[broker]
        self.scheduler.after(attachment.latency_s, self._submitted, (host, attachment, item))

    def bodies(self, events: Sequence[Event], qos: int) -> Bodies:
        """Events as clients publish them."""
        return FrameBodies.from_events(events, qos) if self.as_bytes else PlainBodies(events)

    def request_move(self, move: Move, broker: str) -> None:
        """Ask a broker for a move; nothing happens when it is down."""
        self._input(self.hosts[broker], i.MoveRequested(move))

    def run(self, until_s: float = float("inf"), actions_max: int | None = None) -> int:
        """Let the world go on; see `Scheduler.run`."""
        return self.scheduler.run(until_s, actions_max)

    # From schedule to broker

    def _attached(self, what: tuple[Host, Attachment, i.ClientConnected]) -> None:
        host, attachment, connected = what
        self._client_inputs += 1
        if host.broker is None or host.stopping:
            attachment.live = False
            self._to_client(attachment, attachment.client.on_closed, REFUSED)
            return
        host.attachments[attachment.connection] = attachment
        self._input(host, connected)

    def _submitted(self, what: tuple[Host, Attachment, i.Input]) -> None:
        host, attachment, item = what
        self._client_inputs += 1
        if not attachment.live:
            return
        if type(item) is i.ClientDisconnected:
            attachment.live = False
            host.attachments.pop(attachment.connection, None)
        elif attachment.held:
            attachment.queue.append(item)
            return
        self._input(host, item)

    def _arrived(self, parcel: tuple[Pipe, Frame]) -> None:
        pipe, frame = parcel
        if pipe.open:
            host = self.hosts[pipe.target]
            self._input(host, i.FrameReceived(pipe.source, pipe.number, frame))

    def _dialled(self, what: tuple[Host, int, Host]) -> None:
        host, incarnation, peer = what
        if host.broker is None or host.incarnation != incarnation:
            return
        line = self.line(host.id, peer.id)
        if not line.up or peer.broker is None:
            self._input(host, i.DialFailed(peer.id))
            return
        there, back = connect(line, self.new_connection(), host.id, peer.id)
        host.pipes[there.number] = there
        peer.pipes[back.number] = back
        self._input(peer, i.LinkOpened(host.id, back.number))
        self._input(host, i.LinkOpened(peer.id, there.number))

    def _notice_end(self, pipe: Pipe) -> None:
        """The source of `pipe` learns that the connection is gone."""
        host = self.hosts[pipe.source]
        if host.pipes.pop(pipe.number, None) is not None:
            self._input(host, i.LinkClosed(pipe.target, pipe.number))

    def _stream_ended(self, pipe: Pipe) -> None:
        """The target of `pipe` reads the end of the stream that its source closed."""
        if pipe.open:
            disconnect(pipe)
            self._notice_end(pipe.twin)

    def _fired(self, what: tuple[Host, int, Timer, float]) -> None:
        host, incarnation, timer, at = what
        if host.incarnation == incarnation and host.timers.get(timer) == at:
            del host.timers[timer]
            self._input(host, i.TimerFired(timer, at))

    def _persisted(self, what: tuple[Host, int, int]) -> None:
        host, incarnation, token = what
        if host.incarnation == incarnation:
            self._input(host, i.Persisted(token))

    # One step

    def _input(self, host: Host, item: i.Input) -> None:
        if host.broker is None:
            return
        if self._service is None:
            self.steps += 1
            self._step(host, (item,))
            return
        host.inbox.append(item)
        if not host.busy:
            self._serve(host)

    def _serve(self, host: Host) -> None:
        assert self._service is not None
        host.busy = True
        batch, host.inbox = _first_batch(host.inbox)
        self.scheduler.after(
            self._service.duration_s(batch), self._served, (host, host.incarnation, batch)
        )

    def _served(self, what: tuple[Host, int, list[i.Input]]) -> None:
        host, incarnation, batch = what
        if host.broker is None or host.incarnation != incarnation:
            return
        host.busy = False
        self.steps += 1
        self._step(host, batch)
        if host.inbox and not host.busy:
            self._serve(host)

    def _step(self, host: Host, inputs: Sequence[i.Input]) -> None:
        core, now = host.broker, self.scheduler.now
        assert core is not None
        for watcher in self._watched:
            watcher.before_step(host.id, core, inputs, now)
        self._finish(host, inputs, core.handle(inputs, now))

    def _finish(self, host: Host, inputs: Sequence[i.Input], effects: Sequence[e.Effect]) -> None:
        """A broker has taken a step; if it was to be killed, it is before all is carried out."""
        if host.doomed is not None:
            effects = effects[: host.doomed(len(effects))]
        for watcher in self._watchers:
            watcher.on_step(host.id, inputs, effects, self.scheduler.now)
        self._carry_out(host, effects)
        if host.doomed is not None and host.broker is not None:
            self._crash(host)

    def _crash(self, host: Host) -> None:
        assert host.broker is not None
        for watcher in self._watchers:
            watcher.on_crash(host.id, host.broker, self.now)
        assert host.noticed_after_s is not None
        for pipe in host.pipes.values():
            after_s = host.noticed_after_s()
            if after_s is None:
                self._shut(pipe)
            else:
                if pipe.open:
                    disconnect(pipe)
                self.scheduler.after(after_s, self._notice_end, pipe.twin, FIRST)
        self._empty(host, LOST)

    def _carry_out(self, host: Host, effects: Sequence[e.Effect]) -> None:
        scheduler = self.scheduler
        for effect in effects:
            if type(effect) is e.Send:
                pipe = host.pipes.get(effect.connection)
                if pipe is not None:
                    if type(effect.frame) is Data:
                        self._data_frames += 1
                    for frame in as_sent(effect.frame) if self.as_bytes else (effect.frame,):
                        arrival = pipe.arrival(frame, scheduler.now)
                        scheduler.at(arrival, self._arrived, (pipe, frame))
            elif type(effect) is e.Deliver:
                attachment = host.attachments.get(effect.connection)
                if attachment is not None:
                    self._to_client(attachment, attachment.client.on_delivered, effect)
            elif type(effect) is e.SetTimer:
                host.timers[effect.timer] = effect.at
                scheduler.at(
                    effect.at, self._fired, (host, host.incarnation, effect.timer, effect.at)
                )
            else:
                self._carry_out_rare(host, effect)

    def _carry_out_rare(self, host: Host, effect: e.Effect) -> None:
        match effect:
            case e.Accept(connection, count):
                if attachment := host.attachments.get(connection):
                    self._to_client(attachment, attachment.client.on_accepted, count)
            case e.Tell(connection, word):
                if attachment := host.attachments.get(connection):
                    self._told(host, attachment, word)
            case e.OpenLink(peer):
                self.scheduler.after(
                    self.line(host.id, peer).delay_s(),
                    self._dialled,
                    (host, host.incarnation, self.hosts[peer]),
                )
            case e.CloseLink(_, connection, _):
                if (pipe := host.pipes.get(connection)) is not None:
                    self._shut(pipe)
                    self.scheduler.at(self.now, self._notice_end, pipe)
            case e.Persist(token, _):
                self.scheduler.at(self.now, self._persisted, (host, host.incarnation, token))
            case e.Warn(_, text):
                self.warnings.append((self.now, host.id, text))
            case e.Stopped():
                self._stopped(host)
            case _:
                raise AssertionError(f"an effect no world knows: {effect!r}")

    def _told(self, host: Host, attachment: Attachment, word: e.Word) -> None:
        client = attachment.client
        match word:
            case e.SubscriptionSettled(name) | e.AdvertisementSettled(name):
                self._to_client(attachment, client.on_settled, name)
            case e.Redirect(target):
                self._to_client(attachment, client.on_redirected, target)
            case e.Stay():
                self._to_client(attachment, client.on_stay, None)
            case e.PingBrokers():
                self._to_client(attachment, client.on_ping, word)
            case e.Attached():
                self._to_client(attachment, client.on_attached, None)
            case e.HoldReading(hold):
                self._hold(host, attachment, hold)
            case e.CloseSession(reason, target):
                self._close(host, attachment, reason, target)

    def _to_client(self, attachment: Attachment, method: Callable[[T], None], argument: T) -> None:
        if attachment.latency_s == 0.0:
            method(argument)
        else:
            self.scheduler.after(attachment.latency_s, method, argument)

    def _hold(self, host: Host, attachment: Attachment, hold: bool) -> None:
        attachment.held = hold
        if not hold and attachment.queue:
            queue, attachment.queue = attachment.queue, []
            for item in queue:
                self.scheduler.at(self.now, self._submitted, (host, attachment, item))

    def _close(self, host: Host, attachment: Attachment, reason: str, target: str = "") -> None:
        del host.attachments[attachment.connection]
        attachment.live = False
        if reason == e.MOVED:
            self._to_client(attachment, attachment.client.on_moved, target)
        else:
            self._to_client(attachment, attachment.client.on_closed, reason)

    def _shut(self, pipe: Pipe) -> None:
        """The source closes: what it sent still arrives, then the end; it receives no more."""
        if pipe.open:
            pipe.twin.open = False
            self.scheduler.at(pipe.arrival(None, self.now), self._stream_ended, pipe)

    def _stopped(self, host: Host) -> None:
        for pipe in host.pipes.values():
            self._shut(pipe)
        self._empty(host, e.STOPPING)

    def _empty(self, host: Host, reason: str) -> None:
        """There is no broker any more."""
        for attachment in list(host.attachments.values()):
            self._close(host, attachment, reason)
        host.pipes = {}
        host.timers = {}
        host.inbox = []
        host.busy = False
        host.stopping = False
        host.doomed = host.noticed_after_s = None
        host.broker = None


def _first_batch(inbox: list[i.Input]) -> tuple[list[i.Input], list[i.Input]]:
    """What a broker takes at once, and the rest: a session that begins begins a batch, so that
    checkers can tell what was asked for before from what is asked for now."""
    for index in range(1, len(inbox)):
        if type(inbox[index]) is i.ClientConnected:
            return inbox[:index], inbox[index:]
    return inbox, []
