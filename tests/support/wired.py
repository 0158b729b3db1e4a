"""Brokers wired by queues: no latency, no simulator, connections that tests open and cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

from gravitate.broker.core import Broker
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.effects import Accept, Deliver, Effect, Tell, Warn
from gravitate.broker.interface.interpreter import ClientEnd, Interpreter, Surroundings
from gravitate.broker.interface.timers import Timer
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import Frame
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
        self.queue: deque[tuple[str, i.Input]] = deque()
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

    def tell(self, name: str, *inputs: i.Input) -> list[Effect]:
        """Hand inputs to a broker at once, then run until nothing is under way."""
        effects = self.handle(name, *inputs)
        self.run()
        return effects

    def handle(self, name: str, *inputs: i.Input) -> list[Effect]:
        """Hand inputs to a broker and carry out what it wants."""
        effects = self.brokers[name].handle(inputs, self.now)
        self._carry_out(name, effects)
        return effects

    def is_up(self, name: str) -> bool:
        return name in self.brokers and not self.brokers[name].stopped

    def run(self) -> None:
        for _ in range(100_000):
            if not self.queue:
                return
            self.step()
        raise AssertionError("brokers keep talking for ever")

    def step(self) -> None:
        """Let one broker handle what has waited longest."""
        name, input = self.queue.popleft()
        if self.is_up(name):
            self.handle(name, input)

    def pass_time(self, seconds: float) -> None:
        """Fire the timers of the next `seconds`, in order."""
        end = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= end]:
            at, (name, timer) = min(due, key=itemgetter(0))
            del self.timers[name, timer]
            self.now = max(self.now, at)
            if self.is_up(name):
                self.handle(name, i.TimerFired(timer, at))
            self.run()
        self.now = end

    def fire_early(self, name: str, timer: Timer) -> None:
        """A timer fires before its time, by as much as a node's may (`serve.node.timers`)."""
        at = self.timers.pop((name, timer))
        self.now = at - 0.0004
        self.tell(name, i.TimerFired(timer, at))

    def lose(self, a: str, b: str) -> None:
        """Cut the connection with everything that is under way on it."""
        pair = frozenset((a, b))
        self.cut.add(pair)
        connection = self.connections.pop(pair, 0)
        if connection:
            self.queue = deque(
                (name, input)
                for name, input in self.queue
                if not (isinstance(input, i.FrameReceived) and input.connection == connection)
            )
            for name, peer in ((a, b), (b, a)):
                if name in self.brokers:
                    self.queue.append((name, i.LinkClosed(peer, connection)))

    def heal(self, a: str, b: str) -> None:
        self.cut.discard(frozenset((a, b)))
        self.pass_time(5.0)

    def _carry_out(self, name: str, effects: Sequence[Effect]) -> None:
        self.effects[name].extend(effects)
        Interpreter(Place(self, name)).carry_out(effects)

    # What tests say and ask ------------------------------------------------------------------

    def connect(self, name: str, client: str, window: int = 65535, counts: bool = False) -> None:
        self.tell(name, i.ClientConnected(at(client), client, 1, window, counts))

    def disconnect(self, name: str, client: str) -> None:
        self.tell(name, i.ClientDisconnected(at(client)))

    def subscribe(self, name: str, client: str, condition: str, qos: int = 1) -> None:
        self.tell(name, i.ClientSubscribed(at(client), condition, parse(condition), qos))

    def publish(
        self, name: str, client: str, *attributes: dict[str, float | str], qos: int = 1
    ) -> None:
        events = [Event({"topic": "t", **a}) for a in attributes]
        self.tell(name, i.ClientPublished(at(client), PlainBodies(events), qos))

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
        return {
            id: entry.last_hop
            for id, entry in self.brokers[name].router.table.subscriptions.items()
        }


class Place(Surroundings[ClientEnd]):
    """Of one of the brokers: what it is in. Nobody is there to listen to what clients are told."""

    def __init__(self, wired: Wired, name: str) -> None:
        self._wired = wired
        self._name = name

    def _open_to(self, connection: int) -> Iterator[str]:
        """Who is at the other end of a connection, if it is open."""
        for pair, number in self._wired.connections.items():
            if number == connection:
                yield from pair - {self._name}

    def send(self, connection: int, frame: Frame) -> None:
        for peer in self._open_to(connection):
            self._wired.queue.append((peer, i.FrameReceived(self._name, connection, frame)))

    def open_link(self, peer: str) -> None:
        wired, name = self._wired, self._name
        pair = frozenset((name, peer))
        if pair in wired.cut or not wired.is_up(peer):
            wired.queue.append((name, i.DialFailed(peer)))
            return
        wired.connects += 1
        wired.connections[pair] = wired.connects
        wired.queue.append((name, i.LinkOpened(peer, wired.connects)))
        wired.queue.append((peer, i.LinkOpened(name, wired.connects)))

    def close_link(self, connection: int, reason: str) -> None:
        for peer in list(self._open_to(connection)):
            del self._wired.connections[frozenset((self._name, peer))]
            self._wired.queue.append((peer, i.LinkClosed(self._name, connection)))

    def set_timer(self, timer: Timer, at: float) -> None:
        self._wired.timers[self._name, timer] = at

    def persist(self, token: int) -> None:
        """Tests say so themselves."""

    def warn(self, warning: Warn) -> None:
        """Tests read it among the effects."""

    def stopped(self) -> None:
        # What it has said still arrives, then the end of each connection.
        for pair, connection in list(self._wired.connections.items()):
            if self._name in pair:
                self.close_link(connection, "")
