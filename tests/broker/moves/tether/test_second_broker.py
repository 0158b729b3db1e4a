"""A client that is served, or attached, elsewhere loses nothing with that broker but what it alone
had, and is served again soon.

A chain a - b - c - d - e. The client is connected to a; the broker that serves it is its neighbour
b or is far away at d. What is killed comes back without memory, or does not come back.
"""

from __future__ import annotations

import msgspec
import pytest

from gravitate.broker.interface.effects import CloseSession, SubscriptionSettled, Tell
from gravitate.broker.interface.inputs import (
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
    MoveRequested,
    StopRequested,
)
from gravitate.broker.moves.tether.origin import State
from gravitate.broker.sessions.backlog import Kept, Source
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.moves import Rationale, ReassignSubscriber, RelocatePublisher
from tests.support.wired import QUIET, Wired, at, told, words

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
SOON_S = 4.5
OPTIONS = msgspec.structs.replace(QUIET, link_grace_s=600.0)
BOTH = pytest.mark.parametrize("place", ["b", "d"])


def path(place: str) -> tuple[str, ...]:
    return tuple("abcde"["abcde".index("a") : "abcde".index(place) + 1])


class Scene:
    """`sub` of a is served by another broker; publishers at a, c and e."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.wired = wired = Wired(CHAIN, OPTIONS)
        wired.connect("a", "sub")
        wired.subscribe("a", "sub", "x > 0")
        for broker in "ace":
            wired.connect(broker, f"p-{broker}")
        self.published = dict.fromkeys("ace", 0)
        self.publish("ace")
        why = Rationale("closer")
        move = ReassignSubscriber("m", "sub", "a", place, why, path(place))
        wired.tell("a", MoveRequested(move))
        wired.pass_time(1.0)
        (tether,) = wired.brokers["a"].subscriber_tethers
        self.tether = tether
        assert (tether.place, tether.state) == (place, State.ATTACHED)
        self.publish("ace")

    def publish(self, brokers: str) -> None:
        for broker in brokers:
            self.published[broker] += 1
            self.wired.publish(broker, f"p-{broker}", {"x": 1})

    def had(self, broker: str) -> list[int]:
        """What the client has had of the publisher at a broker."""
        return [n for id, n in self.wired.delivered("a", "sub") if id == f"p-{broker}"]

    def check(self, brokers: str) -> None:
        for broker in brokers:
            assert self.had(broker) == list(range(1, self.published[broker] + 1)), broker
        assert told(self.wired.effects["a"], CloseSession) == []

    def kill(self) -> None:
        wired, place = self.wired, self.place
        del wired.brokers[place]
        for pair in [pair for pair in wired.connections if place in pair]:
            wired.lose(*sorted(pair))
        wired.run()

    def revive(self) -> None:
        self.wired.cut.clear()
        self.wired.boot(self.place, 2)
        self.wired.pass_time(5.0)


@BOTH
def test_a_subscriber_is_served_at_home_soon_after_its_place_is_killed(place: str) -> None:
    scene = Scene(place)
    scene.kill()
    near = "a" if place == "b" else "ac"
    scene.publish(near)
    scene.wired.pass_time(SOON_S)
    scene.check(near)
    scene.publish(near)
    scene.check(near)


@BOTH
def test_what_the_killed_place_never_had_comes_when_it_is_back(place: str) -> None:
    scene = Scene(place)
    scene.kill()
    scene.publish("ace")
    scene.wired.pass_time(SOON_S)
    scene.publish("ace")
    scene.revive()
    scene.publish("ace")
    scene.check("ace")
    assert (scene.tether.place, scene.tether.state) == ("a", State.ATTACHED)


@BOTH
def test_a_place_that_is_back_at_once_is_reminded_of_whom_it_served(place: str) -> None:
    scene = Scene(place)
    scene.kill()
    scene.publish("ace")
    scene.revive()
    scene.publish("ace")
    scene.check("ace")


@BOTH
def test_what_was_on_its_way_to_a_place_that_is_cut_off_is_not_lost(place: str) -> None:
    """It is alive all the time, and goes on serving those on its side."""
    scene = Scene(place)
    wired = scene.wired
    for peer in "abcde":
        wired.lose(place, peer)
    wired.run()
    scene.publish("ace")
    wired.pass_time(SOON_S)
    scene.publish("ace")
    scene.check("a" if place == "b" else "ac")
    wired.cut.clear()
    wired.pass_time(5.0)
    scene.publish("ace")
    scene.check("ace")
    assert (scene.tether.place, scene.tether.state) == ("a", State.ATTACHED)
    assert not list(wired.brokers[place].tethered_subscribers)


def test_what_the_place_has_handed_over_in_vain_is_with_its_neighbour_too() -> None:
    """The place has had events, and has passed them on to nobody before it is killed."""
    scene = Scene("d")
    scene.wired.lose("a", "d")
    scene.publish("ac")
    scene.wired.pass_time(1.0)
    scene.kill()
    scene.wired.pass_time(SOON_S)
    scene.check("ac")


@BOTH
def test_nobody_keeps_what_is_for_clients_of_a_broker_that_is_not_there(place: str) -> None:
    scene = Scene(place)
    wired = scene.wired
    del wired.brokers["a"]
    for pair in [pair for pair in wired.connections if "a" in pair]:
        wired.lose(*sorted(pair))
    wired.pass_time(6.0)
    for _ in range(20):
        wired.publish("e", "p-e", {"x": 1})
    wired.pass_time(1.0)
    before = "c" if place == "b" else "e"
    assert len(wired.brokers[before].links[place].tail) == 0
    wired.tell(before, StopRequested())
    wired.pass_time(1.0)
    assert wired.brokers[before].stopped


def test_where_something_comes_from_may_change_above_the_bound() -> None:
    wired = Wired(CHAIN, OPTIONS)
    options = msgspec.structs.replace(OPTIONS, session_queue_events_max=5)
    kept = Kept(options, wired.brokers["a"].links)
    event = PlainBodies([Event({"x": 1})])
    backlog = [(Batch("p", 1, range(n, n + 1), event, 1), 1) for n in range(1, 9)]
    kept.precede(backlog, Source(None, 1))
    kept.change_sources(lambda source: source._replace(version=0))
    assert [(batch.counters[0], source.version) for batch, _, source in kept.take()] == [
        (n, 0) for n in range(1, 9)
    ]


# Publishers ----------------------------------------------------------------------------------


class Attached:
    """`pub` of a is attached elsewhere; subscribers at a, c and e."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.wired = wired = Wired(CHAIN, OPTIONS)
        wired.connect("a", "pub")
        self.subscribers = "ace"
        for broker in self.subscribers:
            wired.connect(broker, f"s-{broker}")
            wired.subscribe(broker, f"s-{broker}", "x > 0")
        self.published = 0
        self.publish()
        move = RelocatePublisher("m", "pub", "a", place, Rationale("closer"), path(place))
        wired.tell("a", MoveRequested(move))
        wired.pass_time(1.0)
        (tether,) = wired.brokers["a"].tethers
        assert tether.place == place
        self.publish()

    def publish(self) -> None:
        self.published += 1
        self.wired.publish("a", "pub", {"x": 1})

    def check(self, brokers: str) -> None:
        for broker in brokers:
            had = [counter for _, counter in self.wired.delivered(broker, f"s-{broker}")]
            assert had == list(range(1, self.published + 1)), broker

    kill, revive = Scene.kill, Scene.revive


@BOTH
def test_a_publisher_is_heard_at_home_soon_after_its_place_is_killed(place: str) -> None:
    scene = Attached(place)
    scene.kill()  # type: ignore[arg-type]
    scene.publish()
    scene.wired.pass_time(SOON_S)
    near = "a" if place == "b" else "ac"
    scene.check(near)
    scene.publish()
    scene.check(near)
    scene.revive()  # type: ignore[arg-type]
    scene.publish()
    scene.check("ace")


@BOTH
def test_nothing_is_lost_of_a_publisher_whose_place_is_cut_off(place: str) -> None:
    scene = Attached(place)
    wired = scene.wired
    for peer in "abcde":
        if peer not in ("a", place) or place == "b":
            wired.lose(place, peer)
    wired.run()
    scene.publish()  # handed over, where that is still possible, and passed on to nobody
    wired.lose("a", place)
    wired.pass_time(SOON_S)
    scene.publish()
    scene.check("a" if place == "b" else "ac")
    wired.cut.clear()
    wired.pass_time(5.0)
    scene.publish()
    scene.check("ace")


@BOTH
def test_what_was_handed_over_and_passed_on_to_nobody_is_published_at_home(place: str) -> None:
    scene = Attached(place)
    for peer in "bcde":
        scene.wired.lose(place, peer)
    scene.publish()
    scene.wired.pass_time(1.0)
    scene.kill()  # type: ignore[arg-type]
    scene.wired.pass_time(SOON_S)
    scene.check("a" if place == "b" else "ac")


def test_a_publisher_that_comes_home_does_not_wait_for_a_broker_off_its_way() -> None:
    scene = Attached("b")
    scene.wired.lose("d", "e")
    scene.wired.pass_time(1.0)
    scene.kill()  # type: ignore[arg-type]
    scene.publish()
    scene.wired.pass_time(SOON_S)
    scene.check("a")


# What is kept beyond its bound, and what is not wanted any more -------------------------------


def test_a_subscriber_on_the_move_for_whom_too_much_is_kept_is_closed_and_that_is_counted() -> None:
    """Between the word of the target that it is there and that of the origin what it wants."""
    wired = Wired(CHAIN, msgspec.structs.replace(OPTIONS, session_queue_events_max=5))
    wired.connect("a", "sub")
    wired.subscribe("a", "sub", "x > 0")
    for broker in "ad":
        wired.connect(broker, f"p-{broker}")
        wired.publish(broker, f"p-{broker}", {"x": 1})
    move = ReassignSubscriber("m", "sub", "a", "d", Rationale("closer"), path("d"))
    wired.queue.append(("a", MoveRequested(move)))
    target = wired.brokers["d"]
    while not [*target.tethered_subscribers]:
        if wired.queue:
            wired.step()
        else:
            wired.pass_time(0.001)
    for broker in "ad":
        events = PlainBodies([Event({"topic": "t", "x": 1})] * 6)
        wired.queue.appendleft((broker, ClientPublished(at(f"p-{broker}"), events, 1)))
        wired.step()
    wired.run()
    wired.pass_time(SOON_S)
    closed = words(wired.effects["a"], CloseSession)
    assert [effect.reason for effect in closed] == ["overloaded"]
    assert wired.delivered("a", "sub") == [("p-a", 1), ("p-d", 1)]
    assert sum(broker.dispatch.events_overflowed for broker in wired.brokers.values()) == 12


@BOTH
def test_nothing_that_is_published_after_unsubscribing_comes(place: str) -> None:
    """In no state of the tether: served, out of reach, coming home."""
    for when in range(4):
        scene = Scene(place)
        wired = scene.wired
        if when >= 1:
            wired.lose("a", place)
            wired.run()
        if when >= 2:
            wired.lose("c", "d" if place == "d" else "b")
            wired.run()
            wired.pass_time(2.5)
        if when >= 3:
            scene.publish("a")
        before = len(wired.delivered("a", "sub"))
        wired.brokers["a"].handle([], wired.now)
        wired.queue.append(("a", ClientUnsubscribed(at("sub"), "x > 0")))
        wired.step()
        scene.publish("ace")
        wired.cut.clear()
        wired.pass_time(10.0)
        scene.publish("ace")
        later = wired.delivered("a", "sub")[before:]
        first = {"p-a": scene.published["a"] - 1, "p-c": scene.published["c"] - 1}
        assert [(id, n) for id, n in later if n >= first.get(id, 3)] == [], when


def test_a_subscription_that_is_changed_settles_as_it_is_and_not_as_it_was() -> None:
    """The word that the former one has settled is still on its way when it is changed."""
    scene = Scene("d")
    wired = scene.wired
    wired.tell("a", ClientSubscribed(at("sub"), "s", parse("y = 1"), 1))
    wired.tell("a", ClientUnsubscribed(at("sub"), "s"))
    before = len(wired.effects["a"])
    wired.lose("d", "e")
    wired.run()
    for y in (2, 3):
        wired.queue.append(("a", ClientSubscribed(at("sub"), "s", parse(f"y = {y}"), 1)))
    wired.run()
    settled = told(wired.effects["a"][before:], SubscriptionSettled)
    assert settled == []
    wired.cut.clear()
    wired.pass_time(5.0)
    settled = told(wired.effects["a"][before:], SubscriptionSettled)
    assert settled == [Tell(at("sub"), SubscriptionSettled("s"))]
