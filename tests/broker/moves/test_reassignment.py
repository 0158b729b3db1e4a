"""A subscriber goes to another broker: step by step, and whatever fails on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gravitate.broker.interface.effects import (
    MOVED,
    NOT_HERE,
    Attached,
    CloseSession,
    Deliver,
    Redirect,
    Stay,
    SubscriptionSettled,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientAcknowledged,
    ClientArrived,
    ClientConnected,
    ClientDisconnected,
    ClientPaused,
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
    Continues,
    MoveRequested,
    StopRequested,
)
from gravitate.broker.interface.timers import MoveLate
from gravitate.broker.messages.guests import GuestCut
from gravitate.broker.moves.reassignment import SOURCE, State
from gravitate.broker.moves.table import On
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.moves import MoveOutcome, Rationale, ReassignSubscriber
from tests.broker.moves.test_relocation import CHAIN, Ends
from tests.support.wired import QUIET, Wired, at, told

PATIENCE_S = {state: wait.patience_s or 0.0 for state, wait in SOURCE.waits.items()}
LEASE_S = SOURCE.lease_s
ASK_AGAIN_S = 5.0


class Scene:
    """A subscriber `sub` at a that follows; publishers at a, d and e that have published once."""

    def __init__(self, options: BrokerOptions = QUIET) -> None:
        self.ends = Ends()
        self.wired = Wired(CHAIN, options, mechanisms={"a": [self.ends]})
        self.attachment = 0
        self.published = 0
        self.unacknowledged = 0
        self.connect("a")
        self.subscribe("a", "x > 0")
        for broker in "ade":
            self.wired.connect(broker, f"pub-{broker}")
        self.publish()

    def connect(self, broker: str, continues: Continues = Continues.NOTHING) -> None:
        self.attachment += 1
        self.wired.tell(
            broker,
            ClientConnected(at("sub"), "sub", 1, 65535, True, self.attachment, True, continues),
        )

    def subscribe(self, broker: str, condition: str) -> None:
        self.wired.subscribe(broker, "sub", condition)

    def publish(self) -> None:
        """Each publisher publishes once."""
        self.published += 1
        for broker in "ade":
            self.wired.publish(broker, f"pub-{broker}", {"x": self.published})

    def publish_soon(self) -> None:
        """The same, once brokers go on talking: a guest at d gets it, and so does the client before
        d can say that the guest is ready."""
        self.published += 1
        events = PlainBodies((Event({"topic": "t", "x": self.published}),))
        for broker in "dae":
            self.wired.queue.append((broker, ClientPublished(at(f"pub-{broker}"), events, 1)))

    def request(self, target: str = "d", *path: str) -> None:
        path = path or ("a", "b", "c", "d")
        move = ReassignSubscriber("m1", "sub", "a", target, Rationale("closer"), path)
        self.wired.tell("a", MoveRequested(move))

    def request_until(self, reached: Callable[[], bool]) -> None:
        """Ask for the move, and let brokers talk until something is so."""
        wired = self.wired
        move = ReassignSubscriber("m1", "sub", "a", "d", Rationale("closer"), tuple("abcd"))
        wired.queue.append(("a", MoveRequested(move)))
        while not reached():
            wired.step()

    def acknowledge(self, broker: str) -> None:
        sequences = [
            e.sequence + len(e.batch) - 1
            for e in self.wired.effects[broker]
            if isinstance(e, Deliver) and e.connection == at("sub")
        ]
        self.wired.tell(broker, ClientAcknowledged(at("sub"), sequences[-1]))

    def pause(self) -> None:
        self.wired.tell("a", ClientPaused(at("sub")))

    def leave(self) -> None:
        """The client does all that it is told to, up to its departure."""
        self.request()
        self.acknowledge("a")
        self.pause()

    def arrive(self, broker: str = "d", continues: Continues = Continues.MOVED) -> None:
        self.connect(broker, continues)
        self.subscribe(broker, "x > 0")
        self.wired.tell(broker, ClientArrived(at("sub")))

    def served(self, *brokers: str) -> None:
        """The client has had everything, once and in each publisher's order."""
        had = [item for broker in brokers for item in self.wired.delivered(broker, "sub")]
        for publisher in ("pub-a", "pub-d", "pub-e"):
            counters = [counter for id, counter in had if id == publisher]
            assert counters == list(range(1, self.published + 1)), publisher

    def last(self, broker: str, kind: type) -> object:
        found = told(self.wired.effects[broker], kind)
        return found[-1] if found else None

    def at_rest(self, *places: str) -> None:
        """Nothing is left but the subscriptions at `places`."""
        here = [
            name
            for name, broker in self.wired.brokers.items()
            if not broker.stopped
            for entry in broker.router.table.subscriptions.values()
            if entry.last_hop is None
        ]
        assert here == list(places)
        for broker in self.wired.brokers.values():
            if broker.stopped:
                continue
            assert len(broker.guests) == 0
            assert not broker._parts.paths.lock.held(self.wired.now)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_subscriber_arrives_where_it_is_sent(scene: Scene) -> None:
    scene.request()
    assert scene.last("a", Redirect) == Tell(at("sub"), Redirect("d"))
    scene.publish()
    scene.pause()
    assert scene.last("a", CloseSession) is None, "what it was given is not acknowledged yet"
    scene.acknowledge("a")
    assert scene.last("a", CloseSession) == Tell(at("sub"), CloseSession(MOVED, "d"))
    scene.publish()
    scene.connect("d", Continues.MOVED)
    assert scene.last("d", Attached) == Tell(at("sub"), Attached())
    scene.subscribe("d", "x > 0")
    assert scene.wired.delivered("d", "sub") == [], "it has not said that it has arrived"
    assert scene.ends.outcomes == []
    scene.wired.tell("d", ClientArrived(at("sub")))
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    scene.publish()
    scene.served("a", "d")
    scene.at_rest("d")


def test_tables_are_those_of_a_subscriber_that_was_there_from_the_start(scene: Scene) -> None:
    scene.leave()
    scene.arrive()
    fresh = Scene()
    fresh.wired.tell("a", ClientDisconnected(at("sub")))
    fresh.connect("d")
    fresh.subscribe("d", "x > 0")
    for broker in "abcde":
        mine, theirs = scene.wired.table(broker), fresh.wired.table(broker)
        assert list(mine.values()) == list(theirs.values()), broker


def test_a_neighbour_that_listens_to_the_same_is_not_left_without(scene: Scene) -> None:
    scene.wired.connect("b", "other")
    scene.wired.subscribe("b", "other", "x > 1")
    scene.leave()
    scene.publish()
    scene.arrive()
    scene.publish()
    had = scene.wired.delivered("b", "other")
    assert sorted(had) == [(f"pub-{p}", counter) for p in "ade" for counter in (2, 3)]
    scene.served("a", "d")


def test_what_is_under_way_to_the_source_alone_is_delivered_there(scene: Scene) -> None:
    """Events that passed before the target was known come before it says that it is ready."""
    wired = scene.wired
    wired.lose("a", "b")
    for broker in "de":
        wired.publish(broker, f"pub-{broker}", {"x": 2})
    wired.publish("a", "pub-a", {"x": 2})
    scene.published += 1
    scene.request()
    wired.heal("a", "b")
    scene.publish()
    scene.acknowledge("a")
    scene.pause()
    scene.arrive()
    scene.publish()
    scene.served("a", "d")


def test_the_source_gives_back_what_it_kept_to_a_client_that_returns(scene: Scene) -> None:
    scene.leave()
    scene.publish()
    scene.connect("d", Continues.MOVED)
    scene.wired.tell("d", ClientDisconnected(at("sub")))
    scene.publish()
    scene.arrive("a", Continues.BACK)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.last("a", Attached) == Tell(at("sub"), Attached())
    scene.publish()
    scene.served("a")
    scene.at_rest("a")


def test_a_client_that_starts_anew_is_given_nothing_of_what_was(scene: Scene) -> None:
    scene.leave()
    scene.publish()
    scene.connect("a")
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert [c for id, c in scene.wired.delivered("a", "sub") if id == "pub-e"] == [1]
    scene.at_rest()


def test_who_was_not_handed_over_is_not_taken_in(scene: Scene) -> None:
    scene.connect("e", Continues.MOVED)
    assert scene.last("e", CloseSession) == Tell(at("sub"), CloseSession(NOT_HERE))
    assert "sub" not in scene.wired.brokers["e"].clients.sessions


def test_one_that_comes_back_to_a_broker_that_has_forgotten_starts_anew(scene: Scene) -> None:
    scene.leave()
    scene.wired.brokers["a"].engine.stop()
    scene.arrive("a", Continues.BACK)
    scene.publish()
    assert ("pub-e", 2) in scene.wired.delivered("a", "sub")


def test_a_client_that_vanishes_on_its_way_leaves_nothing_behind(scene: Scene) -> None:
    scene.leave()
    scene.wired.pass_time(PATIENCE_S[State.LEAVING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.at_rest()


def test_a_word_of_its_arrival_that_was_lost_is_asked_for_again(scene: Scene) -> None:
    scene.leave()
    scene.wired.lose("b", "c")
    scene.arrive()
    scene.wired.boot("c", 2)
    for link in (("b", "c"), ("c", "d")):
        scene.wired.cut.discard(frozenset(link))
    scene.wired.pass_time(ASK_AGAIN_S - 1)
    assert scene.ends.outcomes == [], "what the target said went with the broker between"
    scene.wired.pass_time(ASK_AGAIN_S)
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    scene.publish()
    scene.served("a", "d")


@pytest.mark.parametrize("state", [State.ASKED, State.PREPARING])
def test_a_timer_that_is_a_little_early_counts_as_on_time(scene: Scene, state: State) -> None:
    wired = scene.wired
    moves = wired.brokers["a"].engine
    guests = wired.brokers["d"].guests
    if state is State.ASKED:
        scene.request_until(lambda: any(moves.under_way()))
    else:
        scene.request_until(lambda: len(guests) == 1)
        scene.publish_soon()
    wired.fire_early("a", MoveLate("m1"))
    assert scene.ends.outcomes == [MoveOutcome(SOURCE.upon(state, On.LATE)[0].to.value)]
    scene.publish()
    scene.acknowledge("a")
    scene.served("a")
    scene.at_rest("a")


def test_a_cut_for_a_guest_that_is_not_ready_does_not_count(scene: Scene) -> None:
    guests = scene.wired.brokers["d"].guests
    scene.request_until(lambda: len(guests) == 1)
    scene.publish_soon()
    guests.handle("c", GuestCut("m1", tuple("abcd"), ()))
    scene.wired.run()
    scene.acknowledge("a")
    scene.pause()
    scene.arrive()
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    scene.served("a", "d")


def test_a_client_under_way_is_not_waited_for_longer_than_said(scene: Scene) -> None:
    scene.leave()
    left_at = scene.wired.now
    until = left_at + PATIENCE_S[State.LEAVING]
    while scene.wired.timers["a", MoveLate("m1")] < until:
        scene.wired.fire_early("a", MoveLate("m1"))
    assert scene.ends.outcomes == []
    scene.wired.pass_time(until - scene.wired.now)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]


def test_a_client_that_does_not_pause_is_told_to_stay(scene: Scene) -> None:
    scene.request()
    scene.acknowledge("a")
    scene.publish()
    scene.wired.pass_time(PATIENCE_S[State.CUTTING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.last("a", Stay) == Tell(at("sub"), Stay())
    scene.served("a")
    scene.at_rest("a")


def test_a_client_that_does_not_acknowledge_stays(scene: Scene) -> None:
    scene.request()
    scene.pause()
    scene.publish()
    scene.wired.pass_time(PATIENCE_S[State.CUTTING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.served("a")
    scene.at_rest("a")


def test_a_path_that_is_cut_refuses_the_move_in_time(scene: Scene) -> None:
    scene.wired.lose("b", "c")
    scene.request()
    scene.publish()
    scene.wired.pass_time(PATIENCE_S[State.ASKED] + 1)
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    scene.wired.heal("b", "c")
    scene.served("a")
    scene.at_rest("a")


@pytest.mark.parametrize("link", [("c", "d"), ("b", "c")])
def test_a_target_that_does_not_get_ready_is_not_waited_for(
    scene: Scene, link: tuple[str, str]
) -> None:
    scene.request_until(lambda: len(scene.wired.brokers["d"].guests) == 1)
    scene.wired.lose(*link)
    scene.wired.run()
    scene.publish()
    scene.wired.pass_time(PATIENCE_S[State.PREPARING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.wired.heal(*link)
    scene.publish()
    scene.served("a")
    scene.at_rest("a")


def test_a_link_of_the_source_that_starts_anew_rolls_the_move_back(scene: Scene) -> None:
    scene.request_until(lambda: len(scene.wired.brokers["d"].guests) == 1)
    scene.wired.lose("a", "b")
    scene.wired.run()
    scene.wired.boot("b", 2)
    scene.wired.heal("a", "b")
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    for link in (("b", "c"), ("b", "e")):
        scene.wired.heal(*link)
    scene.publish()
    scene.served("a")
    scene.wired.pass_time(LEASE_S)
    scene.at_rest("a")


def test_a_target_that_has_heard_nothing_more_forgets_its_guest(scene: Scene) -> None:
    scene.leave()
    scene.wired.lose("b", "c")
    scene.arrive("a", Continues.BACK)
    scene.wired.pass_time(LEASE_S + 1)
    assert len(scene.wired.brokers["d"].guests) == 0
    scene.wired.heal("b", "c")
    scene.publish()
    scene.served("a")
    scene.at_rest("a")


@pytest.mark.parametrize("path", [("a", "d"), ("b", "c", "d"), ("a", "b", "c")])
def test_a_way_that_is_none_is_refused(scene: Scene, path: tuple[str, ...]) -> None:
    move = ReassignSubscriber("m1", "sub", "a", "d", Rationale("closer"), path)
    scene.wired.tell("a", MoveRequested(move))
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    scene.at_rest("a")


def test_who_is_not_there_or_subscribes_to_nothing_is_refused(scene: Scene) -> None:
    for who in ("nobody", "pub-a"):
        move = ReassignSubscriber(f"m-{who}", who, "a", "d", Rationale("?"), ("a", "b", "c", "d"))
        scene.wired.tell("a", MoveRequested(move))
    assert scene.ends.outcomes == [MoveOutcome.REFUSED] * 2


def test_a_broker_that_is_locked_refuses(scene: Scene) -> None:
    lock = scene.wired.brokers["c"]._parts.paths.lock
    assert lock.request("other", True, 60.0, scene.wired.now)
    scene.request()
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    lock.release("other")
    scene.at_rest("a")


def test_a_subscription_made_meanwhile_rolls_the_move_back(scene: Scene) -> None:
    scene.request()
    scene.wired.tell("a", ClientSubscribed(at("sub"), "more", parse("x < 0"), 1))
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.last("a", Stay) == Tell(at("sub"), Stay())
    scene.publish()
    scene.served("a")
    scene.at_rest("a", "a")


def test_a_subscription_ended_meanwhile_rolls_the_move_back(scene: Scene) -> None:
    scene.request()
    scene.wired.tell("a", ClientUnsubscribed(at("sub"), "x > 0"))
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.at_rest()


def test_a_client_that_publishes_meanwhile_stays(scene: Scene) -> None:
    scene.request()
    scene.wired.tell("a", ClientPublished(at("sub"), PlainBodies((Event({"topic": "t"}),)), 0, 1))
    scene.acknowledge("a")
    scene.pause()
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.publish()
    scene.served("a")


def test_a_subscription_ended_on_the_way_is_not_kept_where_it_arrives(scene: Scene) -> None:
    scene.subscribe("a", "x < -1")
    scene.leave()
    scene.arrive()
    assert scene.ends.outcomes == [MoveOutcome.DONE]
    scene.at_rest("d")


def test_a_subscription_made_on_the_way_is_honoured_where_it_arrives(scene: Scene) -> None:
    scene.leave()
    scene.connect("d", Continues.MOVED)
    scene.subscribe("d", "x > 0")
    scene.subscribe("d", "x < 0")
    scene.wired.tell("d", ClientArrived(at("sub")))
    assert scene.last("d", SubscriptionSettled) == Tell(at("sub"), SubscriptionSettled("x < 0"))
    scene.wired.publish("e", "pub-e", {"x": -1.0})
    assert scene.wired.delivered("d", "sub")[-1] == ("pub-e", 2)
    scene.at_rest("d", "d")


def test_a_client_that_disconnects_before_it_leaves_is_gone(scene: Scene) -> None:
    scene.request()
    scene.wired.tell("a", ClientDisconnected(at("sub")))
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.at_rest()


def test_a_target_that_stops_is_not_gone_to(scene: Scene) -> None:
    scene.request_until(lambda: len(scene.wired.brokers["d"].guests) == 1)
    scene.wired.tell("d", StopRequested())
    scene.wired.pass_time(PATIENCE_S[State.PREPARING] + 1)
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    for broker in "ae":
        scene.wired.publish(broker, f"pub-{broker}", {"x": 2})
    assert [c for id, c in scene.wired.delivered("a", "sub") if id == "pub-e"] == [1, 2]
    scene.at_rest("a")


def test_a_guest_that_gets_too_much_is_given_up() -> None:
    scene = Scene(
        BrokerOptions(heartbeat_s=0, link_grace_s=0, stop_s_max=0, session_queue_events_max=4)
    )
    scene.request()
    scene.acknowledge("a")
    scene.pause()
    for _ in range(2):
        scene.publish()
    assert scene.ends.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.at_rest()


def test_a_second_move_of_the_same_subscriber_is_refused(scene: Scene) -> None:
    scene.request()
    move = ReassignSubscriber("m2", "sub", "a", "e", Rationale("closer"), ("a", "b", "e"))
    scene.wired.tell("a", MoveRequested(move))
    assert scene.ends.outcomes == [MoveOutcome.REFUSED]
    scene.acknowledge("a")
    scene.pause()
    scene.arrive()
    assert scene.ends.outcomes == [MoveOutcome.REFUSED, MoveOutcome.DONE]


def test_it_can_go_back_and_forth(scene: Scene) -> None:
    places = ["a", "d"]
    for number in range(6):
        source, target = places[number % 2], places[1 - number % 2]
        path = ("a", "b", "c", "d") if source == "a" else ("d", "c", "b", "a")
        move = ReassignSubscriber(f"m{number}", "sub", source, target, Rationale("?"), path)
        scene.wired.tell(source, MoveRequested(move))
        scene.publish()
        scene.acknowledge(source)
        scene.wired.tell(source, ClientPaused(at("sub")))
        scene.publish()
        scene.arrive(target)
        scene.publish()
        scene.acknowledge(target)
        scene.at_rest(target)
    had = scene.wired.delivered("a", "sub"), scene.wired.delivered("d", "sub")
    for publisher in ("pub-a", "pub-d", "pub-e"):
        counters = sorted(c for part in had for id, c in part if id == publisher)
        assert counters == list(range(1, scene.published + 1))
