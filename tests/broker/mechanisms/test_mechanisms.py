"""A mechanism observes, sends, sets timers, locks and proposes."""

from __future__ import annotations

from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher
from tests.support.wired import Wired


class Gossip(Mechanism):
    """Counts deliveries, tells its neighbours every second, proposes a move after three."""

    name = "gossip"

    def __init__(self) -> None:
        self.delivered = 0
        self.heard: dict[str, int] = {}
        self.locks: list[tuple[str, bool]] = []
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

    def on_lock(self, peer: str, move: str, granted: bool, now: float) -> None:
        self.locks.append((peer, granted))

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


def test_locks_of_neighbours_are_asked_for_and_given_back() -> None:
    wired, mechanisms = network()
    a, c = mechanisms["a"], mechanisms["c"]

    def at(name: str, action: object) -> None:
        assert callable(action)
        action()
        wired.tell(name)

    at("a", lambda: a.post.request_lock("b", "m1", True, 60))
    at("c", lambda: c.post.request_lock("b", "m2", False, 60))
    assert (a.locks, c.locks) == ([("b", True)], [("b", False)])
    at("a", lambda: a.post.release_lock("b", "m1"))
    at("c", lambda: c.post.request_lock("b", "m2", False, 60))
    at("c", lambda: c.post.request_lock("c", "m2", True, 60))
    assert c.locks[1:] == [("b", True), ("c", True)]


def test_a_lock_asked_of_a_broker_that_lost_its_state_is_refused() -> None:
    wired, mechanisms = network()
    a = mechanisms["a"]
    wired.lose("a", "b")
    a.post.request_lock("b", "m1", True, 60)
    wired.tell("a")
    assert a.locks == []
    wired.boot("b", 2, [mechanisms["b"]])
    wired.heal("a", "b")
    wired.pass_time(5)
    assert a.locks == [("b", False)]


def test_a_lock_asked_of_a_broker_that_was_given_up_is_refused() -> None:
    mechanisms = {name: Gossip() for name in "ab"}
    options = BrokerOptions(heartbeat_s=0, link_grace_s=10, stop_s_max=0)
    wired = Wired([("a", "b")], options, {name: [m] for name, m in mechanisms.items()})
    a = mechanisms["a"]
    wired.lose("a", "b")
    a.post.request_lock("b", "m1", True, 60)
    wired.pass_time(20)
    assert a.locks == [("b", False)]
    a.post.request_lock("b", "m2", True, 60)
    assert a.locks == [("b", False), ("b", False)]
