"""Brokers wired by queues: no latency, no simulator, connections that tests open and cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

from gravitate.broker.core import Broker
from gravitate.broker.interface.effects import (
    Accept,
    CloseLink,
    Deliver,
    Effect,
    OpenLink,
    Send,
    SetTimer,
    Stopped,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
    DialFailed,
    FrameReceived,
    Input,
    LinkClosed,
    LinkOpened,
    TimerFired,
)
from gravitate.broker.interface.timers import Timer
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Event, PlainBodies
from gravitate.model.language import parse
from gravitate.overlay.topology import Topology

QUIET = BrokerOptions(heartbeat_s=0, link_grace_s=0, stop_s_max=0)


_numbers: dict[str, int] = {}


def at(client: str) -> int:
    """The connection of a client, at every broker."""
    return _numbers.setdefault(client, len(_numbers) + 1)


def told(effects: Iterable[Effect], kind: type) -> list[Tell]:
    """What clients were told of one kind."""
    return [one for one in effects if isinstance(one, Tell) and isinstance(one.word, kind)]


W = TypeVar("W")


def words(effects: Iterable[Effect], kind: type[W]) -> list[W]:
    """The same, whoever was told."""
    return [one.word for one in told(effects, kind) if isinstance(one.word, kind)]


class Wired:
    """A tree of brokers. Frames wait in one queue and are handled in order by `run`."""

    def __init__(
        self,
        links: Iterable[tuple[str, str]],
        options: BrokerOptions = QUIET,
        mechanisms: dict[str, list[Mechanism]] | None = None,
    ) -> None:
        self.links = [tuple(link) for link in links]
        self.options = options
        self.now = 0.0
        self.brokers: dict[str, Broker] = {}
        self.effects: dict[str, list[Effect]] = {}
        self.timers: dict[tuple[str, Timer], float] = {}
        self.queue: deque[tuple[str, Input]] = deque()
        self.cut: set[frozenset[str]] = set()
        self.connections: dict[frozenset[str], int] = {}
        self.connects = 0
        for name in sorted({name for link in self.links for name in link}):
            self.boot(name, 1, (mechanisms or {}).get(name, []))
        self.run()
        self.pass_time(1.0)

    def boot(
        self,
        name: str,
        incarnation: int,
        mechanisms: Sequence[Mechanism] = (),
        others: Sequence[str] | None = None,
    ) -> None:
        neighbours = {b: True for a, b in self.links if a == name}
        neighbours |= {a: False for a, b in self.links if b == name}
        broker = Broker(
            name,
            incarnation,
            neighbours,
            options=self.options,
            mechanisms=mechanisms,
            others=others,
            tree=Topology.started_as({name for link in self.links for name in link}, self.links),
        )
        self.brokers[name] = broker
        self.effects[name] = []
        self._carry_out(name, broker.start(self.now))

    def tell(self, name: str, *inputs: Input) -> list[Effect]:
        """Hand inputs to a broker at once, then run until nothing is under way."""
        effects = self.brokers[name].handle(inputs, self.now)
        self._carry_out(name, effects)
        self.run()
        return effects

    def run(self) -> None:
        for _ in range(100_000):
            if not self.queue:
                return
            self.step()
        raise AssertionError("brokers keep talking for ever")

    def step(self) -> None:
        """Let one broker handle what has waited longest."""
        name, input = self.queue.popleft()
        if name in self.brokers and not self.brokers[name].stopped:
            self._carry_out(name, self.brokers[name].handle([input], self.now))

    def pass_time(self, seconds: float) -> None:
        """Fire the timers of the next `seconds`, in order."""
        end = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= end]:
            at, (name, timer) = min(due, key=itemgetter(0))
            del self.timers[name, timer]
            self.now = max(self.now, at)
            if name in self.brokers and not self.brokers[name].stopped:
                fired = TimerFired(timer, at)
                self._carry_out(name, self.brokers[name].handle([fired], self.now))
            self.run()
        self.now = end

    def fire_early(self, name: str, timer: Timer) -> None:
        """A timer fires before its time, by as much as a node's may (`serve.node.timers`)."""
        at = self.timers.pop((name, timer))
        self.now = at - 0.0004
        self.tell(name, TimerFired(timer, at))

    def lose(self, a: str, b: str) -> None:
        """Cut the connection with everything that is under way on it."""
        pair = frozenset((a, b))
        self.cut.add(pair)
        connection = self.connections.pop(pair, 0)
        if connection:
            self.queue = deque(
                (name, input)
                for name, input in self.queue
                if not (isinstance(input, FrameReceived) and input.connection == connection)
            )
            for name, peer in ((a, b), (b, a)):
                if name in self.brokers:
                    self.queue.append((name, LinkClosed(peer, connection)))

    def heal(self, a: str, b: str) -> None:
        self.cut.discard(frozenset((a, b)))
        self.pass_time(5.0)

    def _carry_out(self, name: str, effects: Sequence[Effect]) -> None:
        self.effects[name].extend(effects)
        for effect in effects:
            match effect:
                case Send():
                    if self.connections.get(frozenset((name, effect.peer))) == effect.connection:
                        input = FrameReceived(name, effect.connection, effect.frame)
                        self.queue.append((effect.peer, input))
                case OpenLink():
                    self._open(name, effect.peer)
                case CloseLink():
                    pair = frozenset((name, effect.peer))
                    if self.connections.get(pair) == effect.connection:
                        del self.connections[pair]
                        self.queue.append((effect.peer, LinkClosed(name, effect.connection)))
                case SetTimer():
                    self.timers[name, effect.timer] = effect.at
                case Stopped():
                    # What it has said still arrives, then the end of each connection.
                    for pair in [pair for pair in self.connections if name in pair]:
                        (peer,) = pair - {name}
                        self.queue.append((peer, LinkClosed(name, self.connections.pop(pair))))

    def _open(self, name: str, peer: str) -> None:
        pair = frozenset((name, peer))
        alive = peer in self.brokers and not self.brokers[peer].stopped
        if pair in self.cut or not alive:
            self.queue.append((name, DialFailed(peer)))
            return
        self.connects += 1
        self.connections[pair] = self.connects
        self.queue.append((name, LinkOpened(peer, self.connects)))
        self.queue.append((peer, LinkOpened(name, self.connects)))

    # What tests say and ask ------------------------------------------------------------------

    def connect(self, name: str, client: str, window: int = 65535, counts: bool = False) -> None:
        self.tell(name, ClientConnected(at(client), client, 1, window, counts))

    def disconnect(self, name: str, client: str) -> None:
        self.tell(name, ClientDisconnected(at(client)))

    def subscribe(self, name: str, client: str, condition: str, qos: int = 1) -> None:
        self.tell(name, ClientSubscribed(at(client), condition, parse(condition), qos))

    def publish(
        self, name: str, client: str, *attributes: dict[str, float | str], qos: int = 1
    ) -> None:
        events = [Event({"topic": "t", **a}) for a in attributes]
        self.tell(name, ClientPublished(at(client), PlainBodies(events), qos))

    def delivered(self, name: str, client: str) -> list[tuple[str, int]]:
        """(publisher, counter) of everything handed to a client, in order."""
        return [
            (effect.batch.publisher, counter)
            for effect in self.effects[name]
            if isinstance(effect, Deliver) and effect.connection == at(client)
            for counter in effect.batch.counters
        ]

    def accepted(self, name: str, client: str) -> int:
        return sum(
            effect.count
            for effect in self.effects[name]
            if isinstance(effect, Accept) and effect.connection == at(client)
        )

    def table(self, name: str) -> dict[str, str | None]:
        """Subscription ids with their last hops."""
        return {id: entry.last_hop for id, entry in self.brokers[name].router.entries().items()}
