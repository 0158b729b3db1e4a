"""Each checker speaks when its rule is broken, and only then."""

from __future__ import annotations

import pytest

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.observers import Matched
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.language import parse
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.held import Holding
from gravitate.simulate.checkers.loops import LoopChecker
from gravitate.simulate.checkers.oracle import MatcherOracle, Oracle, ScanOracle
from gravitate.simulate.checkers.violations import KEPT_MAX, Violations
from tests.support.wired import at


def events(*counters: int, x: int = 1, incarnation: int = 1) -> Batch:
    """Events of publisher `p`, all with the same `x`."""
    bodies = PlainBodies([Event({"topic": "t", "x": x}) for _ in counters])
    return Batch("p", incarnation, counters, bodies, qos=1)


class Scene:
    """One session `s` at broker `b`, and what brokers report about it."""

    def __init__(self, oracle: Oracle | None = None, no_local: tuple[str, ...] = ()) -> None:
        self.violations = Violations()
        self.checker = DeliveryChecker(self.violations, oracle or ScanOracle(), no_local)
        self.take(i.ClientConnected(at("s"), "s", 1))
        self.checker.on_session("b", "s", "opened", 0.0)

    def subscribe(self, condition: str = "x = 1", name: str = "n", settled: bool = True) -> None:
        self.take(i.ClientSubscribed(at("s"), name, parse(condition)))
        if settled:
            self.settle(name)

    def unsubscribe(self, name: str = "n") -> None:
        self.take(i.ClientUnsubscribed(at("s"), name))

    def settle(self, name: str = "n") -> None:
        self.tell(e.Tell(at("s"), e.SubscriptionSettled(name)))

    def take(self, *inputs: i.Input, broker: str = "b") -> None:
        self.checker.on_step(broker, inputs, (), 0.0)

    def tell(self, *effects: e.Effect, broker: str = "b") -> None:
        self.checker.on_step(broker, (), effects, 0.0)

    def publish(self, batch: Batch) -> None:
        self.checker.on_published("a", batch, 0.0)

    def deliver(self, batch: Batch, broker: str = "b") -> None:
        self.tell(e.Deliver(at("s"), batch, 1, 0), broker=broker)

    def found(self) -> dict[str, int]:
        self.checker.check_quiet(1.0)
        return dict(self.violations.counts)


@pytest.mark.parametrize("oracle", [ScanOracle, MatcherOracle])
def test_every_match_delivered_once_in_order_is_fine(oracle: type[Oracle]) -> None:
    scene = Scene(oracle())
    scene.subscribe()
    scene.publish(events(1, 2))
    scene.publish(events(3, x=2))
    scene.deliver(events(1, 2))
    assert scene.found() == {}
    assert (scene.checker.entered, scene.checker.delivered) == (3, 2)


def test_what_a_settled_subscription_never_got_is_a_loss() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1, 2))
    scene.deliver(events(1))
    assert scene.found() == {"loss": 1}
    assert "never got 2 of p#1" in scene.violations.sentences[0]


def test_before_it_settled_a_subscription_is_owed_nothing() -> None:
    scene = Scene()
    scene.subscribe(settled=False)
    scene.publish(events(1))
    scene.settle()
    assert scene.found() == {}


def test_once_delivery_has_started_a_hole_is_a_gap() -> None:
    scene = Scene()
    scene.subscribe(settled=False)
    scene.publish(events(1, 2, 3))
    scene.deliver(events(1))
    scene.deliver(events(3))
    assert scene.found() == {"gap": 1}


def test_a_late_start_is_no_gap() -> None:
    scene = Scene()
    scene.subscribe(settled=False)
    scene.publish(events(1, 2, 3))
    scene.deliver(events(3))
    assert scene.found() == {}


def test_an_event_of_before_the_subscription_may_come_and_starts_delivery() -> None:
    scene = Scene()
    scene.publish(events(1))
    scene.subscribe(settled=False)
    scene.publish(events(2))
    scene.deliver(events(1))
    assert scene.found() == {"gap": 1}


def test_an_early_delivery_that_another_subscription_called_for_starts_nothing() -> None:
    scene = Scene()
    scene.subscribe("x = 1", "other")
    scene.subscribe("x < 5", "n", settled=False)
    scene.publish(events(1))
    scene.publish(events(2, x=2))
    scene.deliver(events(1))
    assert scene.found() == {}


def test_the_same_event_twice_is_a_duplicate() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1))
    scene.deliver(events(1))
    scene.deliver(events(1))
    assert scene.found() == {"duplicate": 1}


def test_an_event_behind_a_later_one_is_out_of_order() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1, 2))
    scene.deliver(events(2))
    scene.deliver(events(1))
    assert scene.found() == {"order": 1}


def test_incarnations_of_a_publisher_are_in_order_each_for_itself() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1, incarnation=1))
    scene.publish(events(1, incarnation=2))
    scene.deliver(events(1, incarnation=2))
    scene.deliver(events(1, incarnation=1))
    assert scene.found() == {}


def test_what_no_subscription_matches_is_uncalled_for() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1, x=2))
    scene.deliver(events(1, x=2))
    assert scene.found() == {"uncalled": 1}


def test_nothing_is_owed_after_the_subscription_or_the_session_ended() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1))
    scene.unsubscribe()
    assert scene.found() == {}
    scene.subscribe()
    scene.publish(events(2))
    scene.checker.on_session("b", "s", "closed", 0.0)
    assert scene.found() == {}


def test_what_waited_for_the_window_may_come_after_the_subscription_ended() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1))
    scene.unsubscribe()
    scene.deliver(events(1))
    assert scene.found() == {}


def test_a_new_session_of_the_client_starts_anew() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1))
    scene.deliver(events(1))
    scene.checker.on_session("b", "s", "opened", 0.0)
    scene.take(
        i.ClientConnected(at("s"), "s", 2, 9, False),
        i.ClientSubscribed(at("s"), "n", parse("x = 1")),
    )
    scene.deliver(events(1))
    assert scene.found() == {}


def test_what_a_client_asked_for_in_the_step_in_which_it_left_counts() -> None:
    scene = Scene()
    scene.checker.on_session("b", "s", "closed", 0.0)
    scene.publish(events(1))
    asked = i.ClientSubscribed(at("s"), "n", parse("x = 1"))
    scene.checker.on_step("b", (asked,), (e.Deliver(at("s"), events(1), 1, 1),), 0.0)
    scene.publish(events(2))
    assert scene.found() == {}


def test_an_event_that_enters_again_owes_nothing_new() -> None:
    scene = Scene()
    scene.publish(events(1))
    scene.subscribe()
    scene.publish(events(1, 2))
    scene.deliver(events(2))
    assert scene.found() == {}
    assert scene.checker.entered_again == 1


def test_own_events_are_neither_owed_nor_called_for_without_local_ones() -> None:
    violations = Violations()
    checker = DeliveryChecker(violations, ScanOracle(), no_local=("p",))
    checker.on_step("b", (i.ClientConnected(at("p"), "p", 1),), (), 0.0)
    checker.on_session("b", "p", "opened", 0.0)
    checker.on_step("b", (i.ClientSubscribed(at("p"), "n", parse("x = 1")),), (), 0.0)
    checker.on_step("b", (), (e.Tell(at("p"), e.SubscriptionSettled("n")),), 0.0)
    checker.on_published("b", events(1), 0.0)
    checker.check_quiet(1.0)
    assert not violations


def test_what_was_published_after_the_subscription_ended_is_uncalled_for() -> None:
    scene = Scene()
    scene.subscribe()
    scene.unsubscribe()
    scene.publish(events(1))
    scene.deliver(events(1))
    assert scene.found() == {"uncalled": 1}


def moved(scene: Scene) -> None:
    """The client of `s` is sent from `b` to `c`, and arrives there."""
    scene.take(i.ClientConnected(at("s"), "s", 1, 9, True, continues=i.Continues.MOVED), broker="c")
    scene.take(i.ClientSubscribed(at("s"), "n", parse("x = 1")), broker="c")
    scene.checker.on_session("c", "s", "opened", 1.0)
    scene.checker.on_subscriber_moved("c", "s", "b", 0.5, 1.0)


def test_a_client_that_moves_is_owed_what_it_was_and_gets_it_in_order() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1, 2, 3))
    scene.deliver(events(1))
    moved(scene)
    scene.checker.on_session("b", "s", "closed", 1.0)
    scene.deliver(events(1), broker="c")
    scene.deliver(events(3), broker="c")
    assert scene.found() == {"duplicate": 1, "loss": 1}


def test_a_client_that_comes_anew_meanwhile_is_owed_nothing() -> None:
    scene = Scene()
    scene.subscribe()
    scene.publish(events(1))
    scene.checker.on_session("b", "s", "opened", 0.7)
    moved(scene)
    assert scene.found() == {}


def test_what_a_killed_broker_held_is_excused_to_those_it_held_it_for() -> None:
    for holding, missed in (
        (Holding(), {}),
        (Holding(client="s"), {}),
        (Holding(client="t"), {"loss": 1}),
        (Holding(link="x", behind=lambda broker, peer: (broker, peer) == ("b", "x")), {}),
        (Holding(link="y", behind=lambda broker, peer: (broker, peer) == ("b", "x")), {"loss": 1}),
    ):
        scene = Scene()
        scene.subscribe()
        scene.publish(events(1))
        scene.checker.excuse(("p", 1), 1, holding)
        assert scene.found() == missed
        assert scene.checker.taken == 1 - sum(missed.values())


def hop(checker: LoopChecker, broker: str, batch: Batch, came_from: str | None = None) -> None:
    checker.on_hop(Matched(broker, came_from, batch, [()] * len(batch), [()] * len(batch)), 0.0)


@pytest.fixture
def loops() -> LoopChecker:
    checker = LoopChecker(Violations())
    for broker in "abc":
        checker.started(broker)
    return checker


def test_an_event_that_is_at_every_broker_once_makes_no_loop(loops: LoopChecker) -> None:
    for broker in "abc":
        hop(loops, broker, events(1, 2))
    assert not loops.violations


def test_an_event_that_comes_to_a_broker_again_is_a_loop(loops: LoopChecker) -> None:
    for broker in "aba":
        hop(loops, broker, events(1))
    assert loops.violations.counts == {"loop": 1}


def test_a_path_that_names_the_broker_already_is_a_loop(loops: LoopChecker) -> None:
    batch = events(1)
    batch.covered = ("a", "b")
    hop(loops, "a", batch)
    assert loops.violations.counts == {"loop": 1}


def test_an_event_that_goes_back_where_it_came_from_is_a_loop(loops: LoopChecker) -> None:
    loops.on_hop(Matched("b", "a", events(1), [()], [("a",)]), 0.0)
    assert loops.violations.counts == {"loop": 1}


def test_an_event_that_entered_again_may_meet_itself(loops: LoopChecker) -> None:
    for _ in range(2):
        loops.on_published("a", events(1), 0.0)
        hop(loops, "a", events(1))
    assert not loops.violations


def test_an_event_may_come_again_to_a_broker_that_was_restarted(loops: LoopChecker) -> None:
    hop(loops, "a", events(1))
    hop(loops, "b", events(1))
    loops.started("a")
    hop(loops, "a", events(1))
    hop(loops, "b", events(1))
    assert not loops.violations


def test_violations_count_everything_and_keep_the_first_sentences() -> None:
    violations = Violations()
    for number in range(KEPT_MAX + 10):
        violations.add("loss", 1.5, f"number {number}")
    violations.add("order", 2.0, "late")
    assert violations.summary() == f"{KEPT_MAX + 10} loss, 1 order"
    assert len(violations.sentences) == KEPT_MAX
    assert violations.sentences[0] == "1.500000 s: loss: number 0"
