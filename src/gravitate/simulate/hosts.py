"""The places of a world: where brokers run and where clients are attached.

Owns the steps of one broker: what it takes when, what becomes of its effects, and how it ends. It
runs the production broker and knows nothing of what brokers say to each other; clients are whatever
has the methods of `SessionEnd`.

How a link behaves: `OpenLink` is answered after the line's latency, by `LinkOpened` on both sides
or by `DialFailed` when the line is cut or the peer down. A broker that stopped in order, or closed
a link, has its last frames arrive before the other side reads the end of the stream.

A broker can be killed between any two effects of a step. What it has sent may still arrive; each
peer notices the end in its own time, clients at once.

Invariants: a broker handles one batch at a time; inputs reach it in the order they arrived; with
the instant service model a batch is one input. A *step* is one batch handled by one broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.interpreter import Interpreter, Surroundings
from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Data, Frame
from gravitate.broker.observers import Observer
from gravitate.simulate.lines import Pipe, as_sent, connect, disconnect
from gravitate.simulate.scheduler import FIRST

if TYPE_CHECKING:
    from gravitate.simulate.world import World

T = TypeVar("T")


class SteppedBroker(Protocol):
    """What a world drives: the broker core, or a stand-in of the tests."""

    def start(self, now: float) -> list[e.Effect]: ...

    def handle(self, inputs: Sequence[i.Input], now: float) -> list[e.Effect]: ...


BrokerFactory = Callable[[str, int, Mapping[str, bool], Sequence[Observer]], SteppedBroker]
"""Called with id, incarnation, links (peer -> whether this side dials) and observers."""


class StepWatcher:
    """Sees every step of every broker: what it took, and what was carried out of what it wanted.
    Override what you need."""

    def before_step(
        self, broker: str, core: SteppedBroker, inputs: Sequence[i.Input], now: float
    ) -> None:
        """A broker is about to take a step."""

    def on_step(
        self, broker: str, inputs: Sequence[i.Input], effects: Sequence[e.Effect], now: float
    ) -> None:
        """A broker has taken a step."""

    def on_crash(self, broker: str, core: SteppedBroker, now: float) -> None:
        """A broker is gone, with all that it held."""


class SessionEnd(Protocol):
    """The client's side of a session."""

    def deliver(self, effect: e.Deliver) -> None: ...

    def accept(self, count: int) -> None: ...

    def tell(self, word: e.Word) -> None: ...


REFUSED = "refused"
"""Why a session ended that never began: the broker is down."""
LOST = "lost"
"""Why a session ended whose broker was killed."""


class Attachment:
    """One connection of one client to one broker; either hears the other after `latency_s`."""

    def __init__(self, host: Host, connection: int, client: SessionEnd, latency_s: float) -> None:
        self.connection = connection
        self._host = host
        self._latency_s = latency_s
        self._live = True
        self.held = False
        self._queue: deque[i.Input] = deque()
        self.deliver = self._later(client.deliver)
        self.accept = self._later(client.accept)
        self._tell = self._later(client.tell)

    def _later(self, method: Callable[[T], None]) -> Callable[[T], None]:
        if not self._latency_s:
            return method
        return partial(self._host.scheduler.after, self._latency_s, method)

    def tell(self, word: e.Word) -> None:
        if type(word) is e.HoldReading:
            self.held = word.hold
            while self._queue and not word.hold:
                self._host.scheduler.after(0.0, self._submitted, self._queue.popleft())
            return
        if type(word) is e.CloseSession:
            del self._host.attachments[self.connection]
            self._live = False
        self._tell(word)

    def flush(self) -> None:
        """Nothing is buffered."""

    def submit(self, item: i.Input) -> None:
        """Send an input of the client; it is lost if the session has ended on arrival."""
        self._host.scheduler.after(self._latency_s, self._submitted, item)

    def _submitted(self, item: i.Input) -> None:
        host = self._host
        host.world.client_inputs += 1
        if not self._live:
            return
        if type(item) is i.ClientConnected:
            if host.broker is None or host.stopping:
                self._live = False
                self._tell(e.CloseSession(REFUSED))
                return
            host.attachments[self.connection] = self
        elif type(item) is i.ClientDisconnected:
            self._live = False
            host.attachments.pop(self.connection, None)
        elif self.held:
            self._queue.append(item)
            return
        host.take(item)


class Host(Surroundings[Attachment]):
    """The place of one broker: the broker itself while it is up, and all that it is in."""

    def __init__(self, world: World, broker_id: str) -> None:
        self.id = broker_id
        self.world = world
        self.scheduler = world.scheduler
        self.dials: dict[str, bool] = {}
        """Its neighbours, and whether this side dials."""
        self.incarnation = 0
        self._interpreter: Interpreter[Attachment] = Interpreter(self)
        self.attachments = self._interpreter.clients
        self._empty()

    def _empty(self) -> None:
        """There is no broker, and nothing for one."""
        self.broker: SteppedBroker | None = None
        self.pipes: dict[int, Pipe] = {}
        self.timers: dict[Timer, float] = {}
        self.stopping = False
        self._inbox: list[i.Input] = []
        self._busy = False
        self._doomed: Callable[[int], int] | None = None
        """It is killed within its next step: after so many of the effects that it wants."""
        self._noticed_after_s: Callable[[], float | None] = lambda: None

    # Its life

    def start(self) -> None:
        """With empty state and a higher incarnation; nothing if it is up."""
        if self.broker is None:
            self.incarnation += 1
            world = self.world
            self.broker = world.factory(self.id, self.incarnation, self.dials, world.observers)
            self._finish((), self.broker.start(self.scheduler.now))

    def stop(self) -> None:
        """Ask it to stop in order; it is down once it says so."""
        if self.broker is not None and not self.stopping:
            self.stopping = True
            self.take(i.StopRequested())

    def kill(
        self,
        after: Callable[[int], int],
        noticed_after_s: Callable[[], float | None],
        within_s: float,
    ) -> None:
        """Kill it within its next step, `after` so many of the effects it wants; or when it takes
        none, after `within_s`. Each peer notices after the time drawn; None: when it has read all
        that the broker had sent."""
        if self.broker is not None and self._doomed is None:
            self._doomed, self._noticed_after_s = after, noticed_after_s
            self.scheduler.after(within_s, self._killed, self.incarnation)

    def _killed(self, incarnation: int) -> None:
        if self.incarnation == incarnation and self._doomed is not None:
            self._crash()

    def _crash(self) -> None:
        assert self.broker is not None
        for watcher in self.world.watchers:
            watcher.on_crash(self.id, self.broker, self.scheduler.now)
        for pipe in self.pipes.values():
            after_s = self._noticed_after_s()
            if after_s is None:
                self._shut(pipe)
            else:
                if pipe.open:
                    disconnect(pipe)
                self.scheduler.after(after_s, self.world.notice_end, pipe.twin, FIRST)
        self._end(LOST)

    def _end(self, reason: str) -> None:
        for attachment in list(self.attachments.values()):
            attachment.tell(e.CloseSession(reason))
        self._empty()

    # One step

    def take(self, item: i.Input) -> None:
        """An input arrives; nothing happens when there is no broker."""
        if self.broker is None:
            return
        if self.world.service is None:
            self._step((item,))
            return
        self._inbox.append(item)
        if not self._busy:
            self._serve()

    def _serve(self) -> None:
        assert self.world.service is not None
        self._busy = True
        batch, self._inbox = _first_batch(self._inbox)
        duration_s = self.world.service.duration_s(batch)
        self.scheduler.after(duration_s, self._served, (self.incarnation, batch))

    def _served(self, what: tuple[int, list[i.Input]]) -> None:
        incarnation, batch = what
        if self.broker is None or self.incarnation != incarnation:
            return
        self._busy = False
        self._step(batch)
        if self._inbox and not self._busy:
            self._serve()

    def _step(self, inputs: Sequence[i.Input]) -> None:
        core, now = self.broker, self.scheduler.now
        assert core is not None
        self.world.steps += 1
        for watcher in self.world.watchers_before:
            watcher.before_step(self.id, core, inputs, now)
        self._finish(inputs, core.handle(inputs, now))

    def _finish(self, inputs: Sequence[i.Input], effects: Sequence[e.Effect]) -> None:
        """A broker has taken a step; if it was to be killed, it is before all is carried out."""
        if self._doomed is not None:
            effects = effects[: self._doomed(len(effects))]
        for watcher in self.world.watchers:
            watcher.on_step(self.id, inputs, effects, self.scheduler.now)
        self._interpreter.carry_out(effects)
        if self._doomed is not None and self.broker is not None:
            self._crash()

    # What its broker wants

    def send(self, connection: int, frame: Frame) -> None:
        pipe = self.pipes.get(connection)
        if pipe is not None:
            world, scheduler = self.world, self.scheduler
            if type(frame) is Data:
                world.data_frames += 1
            for one in as_sent(frame) if world.as_bytes else (frame,):
                arrival = pipe.arrival(one, scheduler.now)
                scheduler.at(arrival, self._arrived, (pipe, one))

    def _arrived(self, parcel: tuple[Pipe, Frame]) -> None:
        pipe, frame = parcel
        if pipe.open:
            target = self.world.hosts[pipe.target]
            target.take(i.FrameReceived(self.id, pipe.number, frame))

    def open_link(self, peer: str) -> None:
        delay_s = self.world.line(self.id, peer).delay_s()
        self.scheduler.after(delay_s, self._dialled, (self.incarnation, self.world.hosts[peer]))

    def _dialled(self, what: tuple[int, Host]) -> None:
        incarnation, peer = what
        if self.broker is None or self.incarnation != incarnation:
            return
        line = self.world.line(self.id, peer.id)
        if not line.up or peer.broker is None:
            self.take(i.DialFailed(peer.id))
            return
        there, back = connect(line, self.world.new_connection(), self.id, peer.id)
        self.pipes[there.number] = there
        peer.pipes[back.number] = back
        peer.take(i.LinkOpened(self.id, back.number))
        self.take(i.LinkOpened(peer.id, there.number))

    def close_link(self, connection: int, reason: str) -> None:
        pipe = self.pipes.get(connection)
        if pipe is not None:
            self._shut(pipe)
            self.scheduler.after(0.0, self.world.notice_end, pipe)

    def _shut(self, pipe: Pipe) -> None:
        """The source closes: what it sent still arrives, then the end; it receives no more."""
        if pipe.open:
            pipe.twin.open = False
            arrival = pipe.arrival(None, self.scheduler.now)
            self.scheduler.at(arrival, self._stream_ended, pipe)

    def _stream_ended(self, pipe: Pipe) -> None:
        """The target of `pipe` reads the end of the stream that its source closed."""
        if pipe.open:
            disconnect(pipe)
            self.world.notice_end(pipe.twin)

    def set_timer(self, timer: Timer, at: float) -> None:
        self.timers[timer] = at
        self.scheduler.at(at, self._fired, (self.incarnation, timer, at))

    def _fired(self, what: tuple[int, Timer, float]) -> None:
        incarnation, timer, at = what
        if self.incarnation == incarnation and self.timers.get(timer) == at:
            del self.timers[timer]
            self.take(i.TimerFired(timer, at))

    def persist(self, token: int) -> None:
        self.scheduler.after(0.0, self._persisted, (self.incarnation, token))

    def _persisted(self, what: tuple[int, int]) -> None:
        incarnation, token = what
        if self.incarnation == incarnation:
            self.take(i.Persisted(token))

    def warn(self, warning: e.Warn) -> None:
        self.world.warnings.append((self.scheduler.now, self.id, warning.text))

    def stopped(self) -> None:
        for pipe in self.pipes.values():
            self._shut(pipe)
        self._end(e.STOPPING)


def _first_batch(inbox: list[i.Input]) -> tuple[list[i.Input], list[i.Input]]:
    """What a broker takes at once, and the rest: a session that begins begins a batch, so that
    checkers can tell what was asked for before from what is asked for now."""
    for index in range(1, len(inbox)):
        if type(inbox[index]) is i.ClientConnected:
            return inbox[:index], inbox[index:]
    return inbox, []
