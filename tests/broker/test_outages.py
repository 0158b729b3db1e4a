"""While brokers are away, those who are there are served; what is behind comes when it is back."""

from __future__ import annotations

import msgspec
import pytest

from gravitate.broker.interface.effects import HoldReading, SubscriptionSettled
from gravitate.broker.interface.inputs import ClientConnected, ClientUnsubscribed
from tests.support.wired import QUIET, Wired, at, told

LINE = [("a", "b"), ("b", "c")]
SOON_S = 1.0


@pytest.fixture
def cut() -> Wired:
    """a - b - c; publishers p at b and q at c have published, and the link between is cut."""
    wired = Wired(LINE, msgspec.structs.replace(QUIET, link_grace_s=600.0))
    wired.connect("b", "p")
    wired.connect("c", "q")
    wired.publish("b", "p", {"x": 0})
    wired.publish("c", "q", {"x": 0})
    wired.pass_time(5.0)
    wired.lose("b", "c")
    wired.run()
    return wired


def heard(wired: Wired, broker: str, client: str) -> list[tuple[str, int]]:
    return wired.delivered(broker, client)


def is_settled(wired: Wired, broker: str) -> bool:
    return any(told(wired.effects[broker], SubscriptionSettled))


def test_a_subscriber_hears_those_it_can_reach_and_later_the_others(cut: Wired) -> None:
    cut.connect("a", "s")
    cut.subscribe("a", "s", "x > 0")
    cut.pass_time(SOON_S)
    cut.publish("b", "p", {"x": 1})
    assert heard(cut, "a", "s") == [("p", 2)]
    assert not is_settled(cut, "a")
    assert cut.brokers["a"].router.unsettled() == {"b": 1}
    cut.publish("c", "q", {"x": 1})
    cut.publish("b", "p", {"x": 2})
    cut.heal("b", "c")
    assert is_settled(cut, "a")
    assert cut.brokers["a"].router.unsettled() == {}
    cut.publish("c", "q", {"x": 2})
    assert [it for it in heard(cut, "a", "s") if it[0] == "p"] == [("p", 2), ("p", 3)]
    assert [it for it in heard(cut, "a", "s") if it[0] == "q"][-1] == ("q", 3)


def test_what_comes_from_behind_a_cut_has_no_holes(cut: Wired) -> None:
    """t at b wants one of q's events, s at a all of them: what waited for t is not for s, which
    would not get what nobody waited for."""
    cut.connect("b", "t")
    cut.subscribe("b", "t", "x = 1")
    cut.heal("b", "c")
    cut.lose("b", "c")
    cut.run()
    cut.pass_time(SOON_S)
    cut.connect("a", "s")
    cut.subscribe("a", "s", "x > 0")
    cut.publish("c", "q", {"x": 1})
    cut.publish("c", "q", {"x": 2})
    cut.heal("b", "c")
    cut.publish("c", "q", {"x": 3})
    assert heard(cut, "b", "t") == [("q", 2)]
    assert heard(cut, "a", "s") == [("q", 4)]


def test_a_broker_that_restarts_while_another_is_away_serves_its_clients(cut: Wired) -> None:
    cut.pass_time(SOON_S)
    del cut.brokers["a"]
    cut.lose("a", "b")
    cut.run()
    cut.boot("a", 2)
    cut.heal("a", "b")
    cut.connect("a", "s")
    cut.subscribe("a", "s", "x > 0")
    cut.publish("b", "p", {"x": 1})
    assert heard(cut, "a", "s") == [("p", 2)]
    assert not is_settled(cut, "a")
    cut.heal("b", "c")
    cut.publish("c", "q", {"x": 1})
    assert heard(cut, "a", "s") == [("p", 2), ("q", 2)]
    assert is_settled(cut, "a")


def test_what_a_restarted_broker_takes_back_may_have_covered_what_it_has_not_heard_of() -> None:
    """wide at d stood for narrow at c where p publishes, and ends before b hears of narrow."""
    wired = Wired([("x", "a"), ("a", "b"), ("b", "c"), ("b", "d")])
    for broker, client in (("x", "p"), ("d", "wide"), ("c", "narrow")):
        wired.connect(broker, client)
    wired.publish("x", "p", {"x": 0})
    wired.subscribe("d", "wide", "x > 0")
    wired.subscribe("c", "narrow", "x > 1")
    del wired.brokers["b"]
    for peer in "acd":
        wired.lose("b", peer)
    wired.run()
    wired.boot("b", 2)
    wired.heal("a", "b")
    wired.heal("b", "d")
    wired.tell("d", ClientUnsubscribed(at("wide"), "x > 0"))
    wired.publish("x", "p", {"x": 2})
    wired.heal("b", "c")
    assert heard(wired, "c", "narrow") == [("p", 2)]
    assert wired.table("x") == {"narrow#1@c/1": "a"}


def test_a_first_publication_does_not_wait_for_who_cannot_be_reached(cut: Wired) -> None:
    cut.heal("b", "c")
    for broker in "ac":
        cut.connect(broker, f"s-{broker}")
        cut.subscribe(broker, f"s-{broker}", "x > 0")
    cut.lose("b", "c")
    cut.run()
    cut.pass_time(SOON_S)
    cut.connect("b", "new")
    cut.publish("b", "new", {"x": 1, "topic": "another"})
    assert heard(cut, "a", "s-a") == [("new", 1)]
    cut.heal("b", "c")
    assert heard(cut, "c", "s-c") == [("new", 1)]


# Back-pressure concerns those alone whose events go there ------------------------------------


@pytest.fixture
def full() -> Wired:
    """a - b - c - d; what waits for d is too much, and `far` at a publishes more of it; `near` at c
    and `other` at a publish what nobody at d wants."""
    options = msgspec.structs.replace(QUIET, link_queue_events_max=10, acknowledge_every=1)
    wired = Wired([("a", "b"), ("b", "c"), ("c", "d")], options)
    for broker, client in (("a", "far"), ("a", "other"), ("c", "near"), ("b", "s"), ("d", "t")):
        wired.connect(broker, client)
    wired.subscribe("d", "t", "x > 0")
    wired.subscribe("b", "s", "x < 0")
    wired.publish("a", "far", {"x": 1})
    for broker, client in (("a", "other"), ("c", "near")):
        wired.publish(broker, client, {"x": -1})
    wired.lose("c", "d")
    wired.run()
    wired.publish("a", "far", *[{"x": 1}] * 11)
    return wired


def holds(wired: Wired, broker: str, client: str) -> list[bool]:
    """What the reading of a client was told."""
    return [
        effect.word.hold
        for effect in told(wired.effects[broker], HoldReading)
        if effect.connection == at(client) and isinstance(effect.word, HoldReading)
    ]


def test_publishers_over_a_congested_link_are_held_and_no_others(full: Wired) -> None:
    assert holds(full, "a", "far") == [True]
    assert full.brokers["a"].congestion.held() == {("c", "d"): ["far"]}
    for _ in range(4):
        full.publish("a", "other", *[{"x": -1}] * 5)
        full.publish("c", "near", *[{"x": -1}] * 5)
    assert holds(full, "a", "other") == holds(full, "c", "near") == []
    assert len(heard(full, "b", "s")) == 42


def test_a_publisher_is_let_go_when_the_link_drains(full: Wired) -> None:
    full.heal("c", "d")
    assert holds(full, "a", "far") == [True, False]
    assert len(heard(full, "d", "t")) == 12


def test_a_publisher_that_goes_on_is_told_again(full: Wired) -> None:
    """As it would be if the word had been lost, or it had moved meanwhile."""
    full.pass_time(SOON_S)
    full.disconnect("a", "far")
    full.tell("b", ClientConnected(at("far"), "far", 2, 65535, False))
    full.publish("b", "far", {"x": 1})
    assert holds(full, "b", "far") == [True]
    assert full.brokers["a"].congestion.held() == {}


def test_nobody_is_held_by_the_word_of_a_neighbour_that_cannot_be_heard(full: Wired) -> None:
    full.lose("a", "b")
    full.run()
    full.pass_time(SOON_S)
    assert holds(full, "a", "far") == [True, False]
    full.heal("a", "b")
    full.publish("a", "far", {"x": 1})
    assert holds(full, "a", "far") == [True, False, True]
