"""Small networks with a mechanism on, and what happened in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gravitate.broker.observers import Observer
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.script import (
    Fault,
    Publication,
    Script,
    ScriptClient,
    Subscription,
    payload_of,
)
from gravitate.model.events import Batch, Event
from gravitate.model.moves import Move, MoveOutcome, RelocatePublisher
from gravitate.simulate.run import RunResult, run_scenario

GRAPE_DELAY = {"grape": {"session_publications": 10}}
GRAPE_LOAD = {"grape": {"session_publications": 10, "prioritised": "load"}}
POP = {"pop": {"traces_min": 10}}

Mechanisms = dict[str, dict[str, Any]]


class Watch(Observer):
    """Remembers moves, where publications were made, and what mechanisms sent."""

    def __init__(self) -> None:
        self.moves: list[tuple[RelocatePublisher, MoveOutcome]] = []
        self.published_at: list[str] = []
        self.sent: Counter[str] = Counter()
        self.sent_bytes = 0

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        self.published_at += [broker] * len(batch)

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        assert isinstance(move, RelocatePublisher)
        self.moves.append((move, outcome))

    def on_mechanism_sent(
        self, broker: str, peer: str, mechanism: str, size_bytes: int, now: float
    ) -> None:
        self.sent[mechanism] += 1
        self.sent_bytes += size_bytes

    def done(self) -> list[tuple[str, str]]:
        """(source, target) of the moves that were carried out."""
        return [
            (move.source, move.target)
            for move, outcome in self.moves
            if outcome is MoveOutcome.DONE
        ]


def script(
    links: Iterable[tuple[str, str]],
    mechanisms: Mechanisms,
    subscribers: Sequence[tuple[str, str]],
    *,
    publications: int = 100,
    value: Callable[[int], float] = lambda number: 1.0,
    every_s: float = 0.1,
    faults: tuple[Fault, ...] = (),
    publisher_at: str = "a",
) -> Script:
    """One publisher `pub` of events `x`; `subscribers` are pairs of a broker and a condition."""
    joined = [tuple(link) for link in links]
    names = sorted({name for link in joined for name in link})
    clients = [ScriptClient("pub", publisher_at, advertisements=("x >= 0",))]
    clients += [
        ScriptClient(f"sub-{number}", broker, (Subscription("#", condition),))
        for number, (broker, condition) in enumerate(subscribers)
    ]
    # The first heartbeats are over before anything is traced.
    starts_s = 6.0
    return Script(
        name="scene",
        seed=1,
        duration_s=starts_s + publications * every_s,
        network=Network(
            "scene",
            tuple(map(BrokerSpec, names)),
            tuple(LinkSpec((one, other), 10.0) for one, other in joined),
            mechanisms=mechanisms,
        ),
        clients=tuple(clients),
        publications=tuple(
            Publication(
                starts_s + every_s * number,
                "pub",
                number + 1,
                Event({"topic": "t", "x": value(number)}, payload_of("pub", number + 1)),
            )
            for number in range(publications)
        ),
        faults=faults,
    )


def played(script: Script) -> tuple[RunResult, Watch]:
    """Play it with every checker on; nothing may be lost, doubled or reordered."""
    watch = Watch()
    result = run_scenario(script, observers=[watch])
    assert result.violations == ()
    if not script.faults:
        assert result.is_sound()
    return result, watch
