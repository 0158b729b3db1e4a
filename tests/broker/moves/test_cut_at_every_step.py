"""Links are cut at every step of a move, and come back later: nobody loses anything, or is closed.

A chain a - b - c - d - e. A subscriber and a publisher are connected to a and are served, or
attached, elsewhere; one of them is moved once more, and in the midst of it links are cut.
"""

from __future__ import annotations

import msgspec
import pytest

from gravitate.broker.interface.effects import CloseSession
from gravitate.broker.interface.inputs import MoveRequested
from gravitate.model.moves import ClientMove, Rationale, ReassignSubscriber, RelocatePublisher
from tests.support.wired import QUIET, Wired, told

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
OPTIONS = msgspec.structs.replace(QUIET, link_grace_s=600.0)
WHY = Rationale("closer")
STAY = "ce"
"""Where others publish and subscribe."""

Cuts = list[tuple[str, str]]


def move(id: str, client: str, source: str, target: str) -> ClientMove:
    chain = "abcde" if source < target else "edcba"
    path = tuple(chain[chain.index(source) : chain.index(target) + 1])
    kind = ReassignSubscriber if client == "sub" else RelocatePublisher
    return kind(id, client, source, target, WHY, path)


class Scene:
    def __init__(self, publisher_at: str, subscriber_at: str) -> None:
        self.wired = wired = Wired(CHAIN, OPTIONS)
        self.subscribers = [("a", "sub"), *((broker, f"s-{broker}") for broker in STAY)]
        self.publishers = [("a", "pub"), *((broker, f"p-{broker}") for broker in STAY)]
        self.published = 0
        for broker, client in self.subscribers:
            wired.connect(broker, client)
            wired.subscribe(broker, client, "x > 0")
        for broker, client in self.publishers:
            wired.connect(broker, client)
        self.publish()
        for client, place in (("pub", publisher_at), ("sub", subscriber_at)):
            if place != "a":
                wired.tell("a", MoveRequested(move(f"first-{client}", client, "a", place)))
                wired.pass_time(1.0)
            self.publish()

    def publish(self) -> None:
        self.published += 1
        for broker, client in self.publishers:
            self.wired.publish(broker, client, {"x": 1})

    def begin(self, client: str, source: str, target: str, steps: int) -> bool:
        """Whether the move is under way after as many steps."""
        wired = self.wired
        asked = MoveRequested(move("second", client, source, target))
        wired.handle(source, asked)
        for _ in range(steps):
            if not wired.queue:
                return False
            wired.step()
        return bool(wired.queue)

    def outage(self, cuts: Cuts, for_s: float) -> None:
        for a, b in cuts:
            self.wired.lose(a, b)
        end = self.wired.now + for_s
        while self.wired.now < end:
            self.publish()
            self.wired.pass_time(0.2)
        self.wired.cut.clear()

    def check(self) -> None:
        for _ in range(2):
            self.wired.pass_time(3.0)
            self.publish()
        self.wired.pass_time(60.0)
        for effects in self.wired.effects.values():
            assert told(effects, CloseSession) == []
        for broker, subscriber in self.subscribers:
            for _, publisher in self.publishers:
                had = [n for id, n in self.wired.delivered(broker, subscriber) if id == publisher]
                assert had == list(range(1, self.published + 1)), (subscriber, publisher)


@pytest.mark.parametrize(
    ("publisher_at", "subscriber_at", "client", "target", "cuts"),
    [
        ("b", "a", "sub", "b", [("a", "b")]),
        ("b", "b", "sub", "a", [("a", "b")]),
        ("a", "a", "sub", "c", [("a", "b"), ("a", "c")]),
        ("c", "b", "sub", "c", [("a", "b"), ("a", "c")]),
        ("d", "d", "sub", "c", [("b", "c"), ("a", "c")]),
        ("a", "d", "sub", "c", [("b", "c"), ("a", "c")]),
        ("a", "b", "pub", "c", [("a", "c"), ("b", "c")]),
        ("d", "c", "pub", "b", [("a", "b"), ("c", "d")]),
        ("d", "c", "pub", "a", [("a", "c"), ("b", "c")]),
    ],
)
@pytest.mark.parametrize("for_s", [1.6, 3.0, 8.0])
def test_nothing_is_lost(
    publisher_at: str, subscriber_at: str, client: str, target: str, cuts: Cuts, for_s: float
) -> None:
    source = subscriber_at if client == "sub" else publisher_at
    steps, is_under_way = 0, True
    while is_under_way:
        scene = Scene(publisher_at, subscriber_at)
        is_under_way = scene.begin(client, source, target, steps)
        scene.outage(cuts, for_s)
        scene.check()
        steps += 1
    assert steps > 10
