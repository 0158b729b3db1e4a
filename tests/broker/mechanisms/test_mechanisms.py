"""A mechanism observes, sends, sets timers and proposes."""

from __future__ import annotations

from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.model.events import Batch
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher
from tests.support.wired import Wired


class Gossip(Mechanism):
    """Counts deliveries, tells its neighbours every second, proposes a move after three."""

    name = "gossip"

    def __init__(self) -> None:
        self.delivered = 0
        self.heard: dict[str, int] = {}
        self.outcomes: list[MoveOutcome] = []

    def attach(self, post: Post, now: float) -> None:
        self.post = post
        post.set_timer("tell", now + 1)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        self.delivered += len(batch)
        if self.delivered == 3:
            why = Rationale("three deliveries")
            self.post.propose(RelocatePublisher("m1", batch.publisher, "a", broker, why))

    def on_timer(self, key: str, now: float) -> None:
        assert key == "tell"
        for peer in self.post.neighbours():
            self.post.send(peer, str(self.delivered).encode())
        self.post.set_timer("tell", now + 1)

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        self.heard[peer] = int(body)

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        self.outcomes.append(outcome)


def network() -> tuple[Wired, dict[str, Gossip]]:
    mechanisms = {name: Gossip() for name in "abc"}
    wired = Wired([("a", "b"), ("b", "c")], mechanisms={n: [m] for n, m in mechanisms.items()})
    return wired, mechanisms


def test_it_sees_deliveries_and_tells_its_neighbours() -> None:
    wired, mechanisms = network()
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    wired.publish("a", "pub", {"x": 1}, {"x": 2})
    wired.pass_time(2)
    assert mechanisms["c"].delivered == 2
    assert mechanisms["b"].heard == {"a": 0, "c": 2}


def test_a_move_that_nothing_carries_out_is_refused() -> None:
    wired, mechanisms = network()
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    wired.publish("a", "pub", {"x": 1}, {"x": 2}, {"x": 3})
    assert mechanisms["c"].outcomes == [MoveOutcome.REFUSED]
