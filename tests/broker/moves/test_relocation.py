"""A publisher goes to another broker: step by step, and whatever fails on the way."""

from __future__ import annotations

import pytest

from gravitate.broker.interface.effects import (
    MOVED,
    TAKEN_OVER,
    Attached,
    CloseSession,
    HoldReading,
    Redirect,
    Stay,
    SubscriptionSettled,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientAdvertised,
    ClientConnected,
    ClientDisconnected,
    ClientPaused,
    ClientPublished,
    ClientUnadvertised,
    Input,
    MoveRequested,
)
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.moves.relocation import SOURCE, State
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher
from tests.support.wired import Wired, at, told

PATIENCE_S = {state: wait.patience_s or 0.0 for state, wait in SOURCE.waits.items()}
CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e")]
"""a - b - c - d, and e beside b."""


class Ends(Mechanism):
    """Remembers how moves ended."""

    name = "ends"

    def __init__(self) -> None:
        self.outcomes: list[MoveOutcome] = []

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        self.outcomes.append(outcome)


class Scene:
    """A publisher `pub` at a that has published once; subscribers at a, d and e."""

    def __init__(self) -> None:
        self.ends = Ends()
        self.wired = Wired(CHAIN, mechanisms={"a": [self.ends]})
        self.attachment = 0
        self.counter = 0
        self.connect("a")
        for broker in "ade":
            self.wired.connect(broker, f"sub-{broker}")
            self.wired.subscribe(broker, f"sub-{broker}", "x > 0")
        self.publish("a")

    def connect(self, broker: str) -> None:
        self.attachment += 1
        self.wired.tell(
            broker, ClientConnected(at("pub"), "pub", 1, 65535, True, self.attachment, follows=True)
        )

    def publish(self, broker: str) -> None:
        self.counter += 1
        bodies = PlainBodies((Event({"topic": "t", "x": 1}),))
        self.wired.tell(broker, ClientPublished(at("pub"), bodies, 1, self.counter))

    def request(self, target: str, *path: str) -> None:
        move = RelocatePublisher("m1", "pub", "a", target, Rationale("closer"), path)
        self.wired.tell("a", MoveRequested(move))

    def pause(self) -> None:
        self.wired.tell("a", ClientPaused(at("pub")))

    def served(self) -> None:
        """Everybody has had everything, once and in order."""
        for broker in "ade":
            wanted = [("pub", number) for number in range(1, self.counter + 1)]
            assert self.wired.delivered(broker, f"sub-{broker}") == wanted, broker

    def locks(self) -> list[str]:
        return [m for b in self.wired.brokers.values() for m in b._parts.paths.lock.held(0.0)]

    def last(self, broker: str, kind: type) -> object:
        found = told(self.wired.effects[broker], kind)
        return found[-1] if found else None

    def toward(self) -> dict[str, str | None]:
        """Where each broker believes the publisher to be."""
        return {
            name: entry.last_hop
            for name, broker in self.wired.brokers.items()
            if not broker.stopped
            for entry in broker.router.table.advertisements.values()
        }


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_publisher_arrives_where_it_is_sent(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    assert scene.last("a", Redirect) == Tell(at("pub"), Redirect("d"))
    assert scene.locks() == ["m1"] * 4
    scene.pause()
    assert scene.last("a", CloseSession) == Tell(at("pub"), CloseSession(MOVED, "d"))
    scene.connect("d")
    assert scene.last("d", Attached) == Tell(at("pub"), Attached())
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    assert scene.toward() == {"a": "b", "b": "c", "c": "d", "d": None, "e": "b"}
    assert scene.locks() == []
    scene.publish("d")
    scene.served()


def test_a_way_that_is_not_given_is_sought(scene: Scene) -> None:
    scene.request("d")
    assert scene.locks() == ["m1"] * 4
    scene.pause()
    scene.connect("d")
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    scene.publish("d")
    scene.served()


@pytest.mark.parametrize("target", ["a", "z"])
def test_to_where_there_is_no_way_nobody_is_sent(scene: Scene, target: str) -> None:
    scene.request(target)
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    assert scene.locks() == []


def test_tables_are_those_of_a_publisher_that_was_there_from_the_start(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.connect("d")
    fresh = Wired(CHAIN)
    fresh.tell("d", ClientConnected(at("pub"), "pub", 1, 65535, True, 1))
    for broker in "ade":
        fresh.connect(broker, f"sub-{broker}")
        fresh.subscribe(broker, f"sub-{broker}", "x > 0")
    bodies = PlainBodies((Event({"topic": "t", "x": 1}),))
    fresh.tell("d", ClientPublished(at("pub"), bodies, 1, 1))
    for broker in "abcde":
        assert scene.wired.table(broker) == fresh.table(broker), broker


def test_what_was_advertised_where_it_was_still_counts_where_it_is(scene: Scene) -> None:
    def publish(broker: str, topic: str) -> None:
        scene.counter += 1
        bodies = PlainBodies((Event({"topic": topic, "x": 1}),))
        scene.wired.tell(broker, ClientPublished(at("pub"), bodies, 1, scene.counter))

    topics_max = BrokerOptions().advertise_topics_max
    for number in range(topics_max):
        publish("a", f"a/{number}")
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.connect("d")
    for number in range(topics_max + 1):
        publish("d", f"e/{number}")
    publish("d", "a/0")
    scene.served()
    assert set(scene.wired.brokers["d"].router.table.advertisements) == {"pub#1/topic:/#"}


def test_what_it_sends_before_it_has_arrived_waits_and_is_not_accepted(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.wired.lose("b", "c")
    scene.connect("d")
    scene.publish("d")
    assert scene.last("d", Attached) is None
    assert scene.wired.accepted("d", "pub") == 0
    scene.wired.heal("b", "c")
    assert scene.last("d", Attached) == Tell(at("pub"), Attached())
    assert scene.wired.accepted("d", "pub") == 1
    scene.served()


def test_one_that_sends_many_at_once_before_it_has_arrived_is_not_read_from(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.wired.lose("b", "c")
    scene.connect("d")
    count = scene.wired.options.hold_events_max
    for sent, hold in ((count, None), (1, Tell(at("pub"), HoldReading(True)))):
        bodies = PlainBodies(tuple(Event({"topic": "t", "x": 1}) for _ in range(sent)))
        scene.wired.tell("d", ClientPublished(at("pub"), bodies, 1, scene.counter + 1))
        scene.counter += sent
        assert scene.last("d", HoldReading) == hold
    scene.wired.heal("b", "c")
    assert scene.last("d", HoldReading) == Tell(at("pub"), HoldReading(False))
    scene.served()


def test_a_publisher_that_comes_back_is_served_where_it_was(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.wired.lose("b", "c")
    scene.connect("d")
    scene.publish("d")
    scene.wired.tell("d", ClientDisconnected(at("pub")))
    scene.connect("a")
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.counter -= 1
    scene.publish("a")
    scene.wired.heal("b", "c")
    assert scene.toward() == {"a": None, "b": "a", "c": "b", "d": "c", "e": "b"}
    scene.publish("a")
    scene.served()


@pytest.mark.parametrize(
    "path", [("a",), ("a", "d"), ("b", "c", "d"), ("a", "b", "c"), ("a", "b", "a", "d")]
)
def test_a_way_that_is_none_is_refused(scene: Scene, path: tuple[str, ...]) -> None:
    scene.request("d", *path)
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    assert scene.locks() == []


def test_a_way_that_ends_on_the_way_is_refused_and_nothing_stays_locked(scene: Scene) -> None:
    scene.request("x", "a", "b", "c", "x")
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    assert scene.locks() == []
    scene.publish("a")
    scene.served()


def test_a_broker_that_is_locked_refuses(scene: Scene) -> None:
    assert scene.wired.brokers["c"]._parts.paths.lock.request("other", True, 60.0, scene.wired.now)
    scene.request("d", "a", "b", "c", "d")
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    assert scene.locks() == ["other"]


def test_a_client_that_does_not_pause_is_told_to_stay(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.wired.pass_time(PATIENCE_S[State.PAUSING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.last("a", Stay) == Tell(at("pub"), Stay())
    scene.publish("a")
    scene.pause()
    assert scene.last("a", Stay) == Tell(at("pub"), Stay())
    scene.served()
    assert scene.locks() == []


def test_a_publisher_that_vanishes_on_its_way_leaves_nothing_behind(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    assert set(scene.toward()) == set("abcde")
    scene.wired.pass_time(PATIENCE_S[State.LEAVING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.toward() == {}
    assert not list(scene.wired.brokers["a"].publishers.departing)


def test_a_source_that_was_restarted_confirms_what_it_does_not_remember(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.wired.lose("a", "b")
    scene.connect("d")
    scene.publish("d")
    assert scene.last("d", Attached) is None
    scene.wired.boot("a", 2)
    scene.wired.heal("a", "b")
    assert scene.last("d", Attached) == Tell(at("pub"), Attached())
    for broker in "de":
        assert scene.wired.delivered(broker, f"sub-{broker}") == [("pub", 1), ("pub", 2)]


def test_a_publisher_that_connects_elsewhere_by_itself_is_taken_over(scene: Scene) -> None:
    scene.connect("d")
    assert scene.last("a", CloseSession) == Tell(at("pub"), CloseSession(TAKEN_OVER))
    assert "pub" not in scene.wired.brokers["a"].clients.sessions
    scene.publish("d")
    scene.served()


def test_who_subscribes_while_a_publisher_moves_misses_nothing(scene: Scene) -> None:
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.wired.lose("b", "c")
    scene.connect("d")
    scene.wired.connect("c", "late")
    scene.wired.subscribe("c", "late", "x > 0")
    scene.wired.heal("b", "c")
    scene.publish("d")
    assert scene.wired.delivered("c", "late") == [("pub", 2)]
    scene.served()


def test_who_has_had_events_of_a_publisher_gets_those_it_publishes_after_it_has_given_up(
    scene: Scene,
) -> None:
    """That the target has let it go is known before the publisher is heard of where it was."""
    wired = scene.wired
    wired.connect("e", "other")
    wired.publish("e", "other", {"x": -1})
    wired.lose("b", "e")
    wired.connect("c", "late")
    wired.subscribe("c", "late", "x > 0")  # not settled behind b as long as e is away
    scene.request("d", "a", "b", "c", "d")
    scene.pause()
    scene.connect("d")
    scene.publish("d")
    assert wired.delivered("c", "late") == [("pub", 2)]
    wired.tell("d", ClientDisconnected(at("pub")))
    assert wired.brokers["c"].router.known_of(("pub", 1)) == {}
    scene.connect("a")
    scene.publish("a")
    wired.pass_time(wired.options.hold_s_max)
    assert not any(told(wired.effects["c"], SubscriptionSettled))
    assert wired.delivered("c", "late") == [("pub", 2), ("pub", 3)]
    wired.heal("b", "e")
    assert any(told(wired.effects["c"], SubscriptionSettled))
    scene.publish("a")
    assert wired.delivered("c", "late") == [("pub", 2), ("pub", 3), ("pub", 4)]
    scene.served()


def test_what_ends_while_it_is_told_the_other_way_ends_everywhere() -> None:
    """A publisher goes from a to c, and ends there what c has not heard yet that it had at a."""
    wired = Wired([("a", "b"), ("b", "c"), ("c", "d")])
    filter = parse("x > 0")

    def begin(broker: str, attachment: int, *more: Input) -> None:
        connected = ClientConnected(at("pub"), "pub", 1, 65535, True, attachment, follows=True)
        inputs = (connected, ClientAdvertised(at("pub"), "own", filter), *more)
        wired.handle(broker, *inputs)

    begin("a", 1)
    while not wired.brokers["b"].router.table.advertisements:
        wired.step()
    begin("c", 2, ClientUnadvertised(at("pub"), "own"))
    wired.run()
    assert {name: b.router.table.advertisements for name, b in wired.brokers.items()} == {
        name: {} for name in "abcd"
    }


def test_two_that_say_they_are_one_and_the_same_do_not_make_brokers_quarrel() -> None:
    """Neither attachment is greater: each broker would tell the other, for ever."""
    wired = Wired(CHAIN)
    for broker in "ad":
        wired.tell(broker, ClientConnected(at("twin"), "twin", 1, counts=True, attachment=3))
    # Told to both before either has heard of the other.
    advertised = ClientAdvertised(at("twin"), "n", parse("x > 1"))
    for broker in "ad":
        wired.queue.append((broker, advertised))
    wired.run()
    wired.disconnect("a", "twin")
    wired.disconnect("d", "twin")
    assert [len(broker.router.table.advertisements) for broker in wired.brokers.values()] == [0] * 5
