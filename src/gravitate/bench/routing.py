"""`bench routing`: what routing tables cost a broker, in milliseconds of processor time.

One broker with one neighbour, both without sockets; what is timed are the broker's own steps, as
its links and its front door would bring them about. The neighbour answers at once.

    leave-N         a publisher of N topics leaves behind the neighbour, while as many filters, one
                    a topic, are subscribed to here
    subscribe-N     N filters are subscribed to that meet N advertised topics
    advertise-N     N topics are advertised that meet N subscribed filters
    churn-N         among N of both, N times one filter and one topic end and others begin
    unsubscribe-N   a client that subscribes to N filters takes them back, packet by packet

The baseline of `leave-200` is a table that compares every subscribed filter with every advertised
one whenever an advertisement ends. Of the others a tenth of the size is the baseline for `growth`:
how many times longer they take. `longest` is the longest single step of a case.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.broker.core import Broker
from gravitate.broker.interface.effects import Send
from gravitate.broker.interface.inputs import (
    ClientConnected,
    ClientSubscribed,
    ClientUnsubscribed,
    FrameReceived,
    Input,
    LinkOpened,
)
from gravitate.broker.messages.frames import (
    Advertise,
    Data,
    Hello,
    Message,
    Settled,
    Subscribe,
    SyncEnd,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.messages.parcels import FRAME_MESSAGES_MAX
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.content.table import Neighbour
from gravitate.model.covering import intersects
from gravitate.model.filters import Filter
from gravitate.model.topics import topic_filter
from gravitate.serve.control.processes import quieten_collector
from gravitate.serve.mqtt.requests import Answer, Requests
from gravitate.wire.mqtt.packets import TopicRequest

BENCH: Final = "routing"
ROUNDS: Final = 3
FILTERS_A_PACKET: Final = 100
OPTIONS: Final = BrokerOptions(heartbeat_s=0)
HERE, THERE = "b1", "b2"


class ScannedNeighbour(Neighbour):
    """A neighbour that looks at all filters when an advertisement ends: the baseline."""

    def unadvertise(self, filter: Filter) -> list[Filter]:
        self.advertised[filter] -= 1
        if self.advertised[filter]:
            return []
        del self.advertised[filter]
        gone = [
            one
            for one in self.eligible
            if not any(intersects(advertised, one) for advertised in self.advertised)
        ]
        for one in gone:
            del self.eligible[one]
        return gone


class Scene:
    """A broker, and a neighbour that settles whatever it is told."""

    def __init__(self, neighbour: Callable[[], Neighbour] = Neighbour) -> None:
        self.broker = Broker(HERE, 1, {THERE: True}, options=OPTIONS)
        self.broker.router.table.neighbours[THERE] = neighbour()  # type: ignore[attr-defined]
        self.steps_ms: list[float] = []
        self._said = 0
        self._heard = 0
        self._tokens = 0
        self.broker.start(0.0)
        self._step(LinkOpened(THERE, 1))
        self._step(FrameReceived(THERE, 1, Hello(OPTIONS.network, THERE, 1, 0, 0)))
        self.say(SyncEnd("advertisements"), SyncEnd("subscriptions"))
        self._step(ClientConnected(1, "c", 1))

    def say(self, *messages: Message) -> None:
        """The neighbour sends messages, in frames as links make them, and settles what follows."""
        self._answer(self._frames(messages))

    def ask(self, inputs: Iterable[Input]) -> None:
        """A client asks for something; what comes in one read is one step."""
        waiting = iter(inputs)
        while read := tuple(islice(waiting, FILTERS_A_PACKET)):
            self._answer(self._step(*read))

    def _answer(self, tokens: list[int]) -> None:
        while tokens:
            tokens = self._frames([Settled(token) for token in tokens])

    def _frames(self, messages: Sequence[Message]) -> list[int]:
        tokens = []
        for start in range(0, len(messages), FRAME_MESSAGES_MAX):
            part = list(messages[start : start + FRAME_MESSAGES_MAX])
            frame = Data(self._said + 1, self._heard, part)
            self._said += len(part)
            tokens += self._step(FrameReceived(THERE, 1, frame))
        return tokens

    def _step(self, *inputs: Input) -> list[int]:
        """The tokens of what the neighbour is told."""
        began = time.process_time()
        effects = self.broker.handle(inputs, 0.0)
        self.steps_ms.append(1000 * (time.process_time() - began))
        tokens = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.frame, Data):
                self._heard += len(effect.frame.messages)
                for message in effect.frame.messages:
                    if isinstance(message, Subscribe | Unsubscribe | Advertise | Unadvertise):
                        tokens.append(message.token)
        return tokens

    # What clients here and behind the neighbour do -------------------------------------------

    def advertise(self, numbers: Iterable[int]) -> None:
        self.say(*(Advertise(f"p/{n}", "p", 1, filter_of(n), self._token()) for n in numbers))

    def unadvertise(self, numbers: Iterable[int]) -> None:
        self.say(*(Unadvertise(f"p/{n}", self._token()) for n in numbers))

    def subscribe(self, numbers: Iterable[int]) -> None:
        self.ask(ClientSubscribed(1, name_of(n), filter_of(n), 1) for n in numbers)

    def unsubscribe(self, numbers: Iterable[int]) -> None:
        self.ask(ClientUnsubscribed(1, name_of(n)) for n in numbers)

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens


def name_of(number: int) -> str:
    return f"plant/{number % 97}/sensor/{number}"


def filter_of(number: int) -> Filter:
    return topic_filter(name_of(number))


def leave(scene: Scene, size: int) -> Callable[[], None]:
    scene.subscribe(range(size))
    scene.advertise(range(size))
    return lambda: scene.unadvertise(range(size))


def subscribe(scene: Scene, size: int) -> Callable[[], None]:
    scene.advertise(range(size))
    return lambda: scene.subscribe(range(size))


def advertise(scene: Scene, size: int) -> Callable[[], None]:
    scene.subscribe(range(size))
    return lambda: scene.advertise(range(size))


def churn(scene: Scene, size: int) -> Callable[[], None]:
    scene.subscribe(range(size))
    scene.advertise(range(size))

    def turn() -> None:
        for number in range(size):
            scene.unsubscribe([number])
            scene.unadvertise([number])
            scene.advertise([size + number])
            scene.subscribe([size + number])

    return turn


def unsubscribe(scene: Scene, size: int) -> Callable[[], None]:
    """The front door's part is in it: what the client spelled, packet by packet."""
    scene.advertise(range(size))
    requests = Requests(1)
    packets = [
        tuple(map(name_of, range(start, min(start + FILTERS_A_PACKET, size))))
        for start in range(0, size, FILTERS_A_PACKET)
    ]
    for names in packets:
        asked = [TopicRequest(name, 1) for name in names]
        scene.ask(input for _, input in requests.subscribe({}, asked, Answer()) if input)

    def take_back() -> None:
        for names in packets:
            began = time.process_time()
            steps = list(requests.unsubscribe({}, names, Answer()))
            scene.steps_ms.append(1000 * (time.process_time() - began))
            scene.ask(input for _, input in steps if input is not None)

    return take_back


Case = Callable[[Scene, int], Callable[[], None]]

LEAVING: Final = {"leave-200": 200, "leave-2k": 2_000, "leave-10k": 10_000}
GROWING: Final[dict[str, tuple[Case, int]]] = {
    "subscribe-10k": (subscribe, 10_000),
    "advertise-10k": (advertise, 10_000),
    "churn-10k": (churn, 10_000),
    "unsubscribe-20k": (unsubscribe, 20_000),
}
CASES: Final = (*LEAVING, *GROWING)


def timed(
    case: Case, size: int, neighbour: Callable[[], Neighbour] = Neighbour
) -> tuple[float, float]:
    """Milliseconds of a case in all, and of its longest step; each the least of some rounds."""
    totals, longest = [], []
    for _ in range(ROUNDS):
        scene = Scene(neighbour)
        play = case(scene, size)
        scene.steps_ms.clear()
        quieten_collector()
        play()
        totals.append(sum(scene.steps_ms))
        longest.append(max(scene.steps_ms))
    return min(totals), min(longest)


def run(cases: Sequence[str] | None = None, *, progress: Progress = silent) -> list[Record]:
    """The figures of `gravitate bench routing`."""
    records: list[Record] = []
    collector = gc.get_threshold()
    for name in chosen(BENCH, CASES, cases):
        progress(name)
        baseline = None
        if name in LEAVING:
            total, longest = timed(leave, LEAVING[name])
            if name == "leave-200":
                progress(f"{name}: its baseline")
                baseline, _ = timed(leave, LEAVING[name], ScannedNeighbour)
        else:
            case, size = GROWING[name]
            total, longest = timed(case, size)
            tenth, _ = timed(case, size // 10)
            growth = measured(BENCH, f"{name}-growth", total / tenth, "times", less_is_better=True)
        records.append(measured(BENCH, name, total, "ms", baseline, less_is_better=True))
        records.append(measured(BENCH, f"{name}-longest", longest, "ms"))
        if name in GROWING:
            records.append(growth)
    gc.unfreeze()
    gc.set_threshold(*collector)
    return records
