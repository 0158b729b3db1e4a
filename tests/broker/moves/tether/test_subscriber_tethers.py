"""A client that stays connected is served as a subscriber elsewhere: step by step, and whatever
fails on the way."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest

from gravitate.broker.interface.effects import (
    CloseSession,
    Deliver,
    Send,
    SubscriptionSettled,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientDisconnected,
    ClientSubscribed,
    ClientUnsubscribed,
    MoveRequested,
    StopRequested,
)
from gravitate.broker.interface.timers import LinkDown, LinkIdle
from gravitate.broker.links.demand import DOWN_S_MAX, LINGER_S
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import Data, PrepareMove
from gravitate.broker.messages.guests import GuestCut
from gravitate.broker.messages.tether import TetherWants
from gravitate.broker.moves.reassignment import State as MoveState
from gravitate.broker.moves.tether.origin import ARRIVE_S_MAX, State
from gravitate.broker.moves.tether.served import LOST_S_MAX
from gravitate.broker.moves.tether.subscriber import SubscriberTether
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch
from gravitate.model.language import parse
from gravitate.model.moves import Move, MoveOutcome, Rationale, ReassignSubscriber
from tests.broker.moves.test_reassignment import PATIENCE_S
from tests.broker.moves.test_relocation import CHAIN
from tests.support.wired import QUIET, Wired, at, told, words

M = TypeVar("M")


class Watch(Mechanism):
    """Remembers how moves ended, who delivered and what went over tethers."""

    name = "watch"

    def __init__(self) -> None:
        self.outcomes: list[MoveOutcome] = []
        self.delivered: list[tuple[str, int]] = []
        self.handed_over: list[tuple[str, str]] = []

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        self.outcomes.append(outcome)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        self.delivered += [(broker, batch.hops_at(broker))] * len(batch)

    def on_handed_over(self, broker: str, peer: str, batch: Batch, now: float) -> None:
        self.handed_over += [(broker, peer)] * len(batch)


class Scene:
    """A stock client `sub` at a that subscribes; publishers at a, d and e."""

    def __init__(self, options: BrokerOptions = QUIET) -> None:
        self.watch = Watch()
        watching: dict[str, list[Mechanism]] = {broker: [self.watch] for broker in "abcde"}
        self.wired = Wired(CHAIN, options, watching)
        self.published = 0
        self.moves = 0
        self.wired.connect("a", "sub")
        self.wired.subscribe("a", "sub", "x > 0")
        for broker in "ade":
            self.wired.connect(broker, f"pub-{broker}")
        self.publish()

    def publish(self) -> None:
        """Each publisher publishes once."""
        self.published += 1
        for broker in "ade":
            self.wired.publish(broker, f"pub-{broker}", {"x": self.published})

    def request(self, path: str) -> None:
        self.moves += 1
        id, why = f"m{self.moves}", Rationale("closer")
        move = ReassignSubscriber(id, "sub", path[0], path[-1], why, tuple(path))
        self.wired.tell(path[0], MoveRequested(move))

    def move(self, path: str) -> None:
        self.request(path)
        self.wired.pass_time(1.0)
        assert self.watch.outcomes[-1:] == [MoveOutcome.DONE]
        assert self.place() == (path[-1], State.ATTACHED)

    def tether(self) -> SubscriberTether:
        (tether,) = self.wired.brokers["a"].subscriber_tethers
        return tether

    def place(self) -> tuple[str, State]:
        return self.tether().place, self.tether().state

    def served(self) -> None:
        """The client has had everything, once and in each publisher's order, and was told nothing
        else."""
        had = self.wired.delivered("a", "sub")
        for publisher in ("pub-a", "pub-d", "pub-e"):
            counters = [counter for id, counter in had if id == publisher]
            assert counters == list(range(1, self.published + 1)), publisher
        assert told(self.wired.effects["a"], CloseSession) == []

    def local(self) -> list[str]:
        """Brokers with a subscription of their own, one entry each."""
        return [
            name
            for name, broker in self.wired.brokers.items()
            if not broker.stopped
            for entry in broker.router.table.subscriptions.values()
            if entry.last_hop is None
        ]

    def links(self) -> list[tuple[str, str]]:
        return [
            (name, link.peer)
            for name, broker in self.wired.brokers.items()
            for link in broker.links
            if link.tethers
        ]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_stock_client_is_served_elsewhere_and_notices_nothing(scene: Scene) -> None:
    scene.move("abcd")
    assert scene.local() == ["d"]
    scene.publish()
    scene.served()


def test_what_is_handed_over_counts_as_delivered_where_it_was_matched(scene: Scene) -> None:
    scene.move("abcd")
    scene.watch.delivered.clear()
    scene.publish()
    # From a three hops, from d none, from e three; the way back over the tether is no hop.
    assert sorted(scene.watch.delivered) == [("d", 0), ("d", 3), ("d", 3)]
    assert scene.watch.handed_over == [("d", "a")] * 3


def test_it_goes_on_from_place_to_place_and_home(scene: Scene) -> None:
    for path in ("abcd", "dcbe", "eba", "abc", "cb", "ba"):
        scene.publish()
        scene.move(path)
        scene.publish()
        assert scene.local() == [path[-1]]
    scene.served()
    scene.wired.pass_time(LINGER_S + 1)
    assert scene.links() == []


def test_a_tether_goes_with_its_client(scene: Scene) -> None:
    scene.move("abcd")
    assert set(scene.links()) == {("a", "d"), ("d", "a")}
    scene.wired.tell("a", ClientDisconnected(at("sub")))
    assert scene.local() == []
    assert list(scene.wired.brokers["d"].tethered_subscribers) == []
    scene.wired.pass_time(LINGER_S + 1)
    assert scene.links() == []


def test_what_the_client_subscribes_to_later_is_served_where_it_is(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.tell("a", ClientSubscribed(at("sub"), "more", parse("x < 0"), 1))
    settled = told(scene.wired.effects["a"], SubscriptionSettled)
    assert settled[-1] == Tell(at("sub"), SubscriptionSettled("more"))
    assert scene.local() == ["d", "d"]
    scene.wired.tell("a", ClientUnsubscribed(at("sub"), "more"))
    assert scene.local() == ["d"]
    scene.publish()
    scene.served()


def sent(scene: Scene, broker: str, kind: type[M]) -> list[M]:
    """The messages of a kind that a broker has sent."""
    return [
        message
        for effect in scene.wired.effects[broker]
        if isinstance(effect, Send) and isinstance(effect.frame, Data)
        for message in effect.frame.messages
        if isinstance(message, kind)
    ]


def settled(scene: Scene) -> list[str]:
    """The subscriptions that the client was told to have settled."""
    return [one.name for one in words(scene.wired.effects["a"], SubscriptionSettled)]


def test_what_is_subscribed_to_once_more_is_confirmed_and_not_routed_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.move("abcd")
    router = scene.wired.brokers["d"].router
    subscribe, routed = router.subscribe, list[str]()

    def watched(id: str, *about: Any) -> None:
        routed.append(id)
        subscribe(id, *about)

    monkeypatch.setattr(router, "subscribe", watched)
    known = len(settled(scene))
    scene.wired.subscribe("a", "sub", "x > 0")
    assert settled(scene)[known:] == ["x > 0"]
    assert routed == []
    scene.wired.subscribe("a", "sub", "x < 0")
    assert settled(scene)[known:] == ["x > 0", "x < 0"]
    assert len(routed) == 1


def test_what_is_subscribed_to_once_more_before_it_has_settled_settles(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("b", "c")
    known = len(settled(scene))
    for _ in range(2):
        scene.wired.subscribe("a", "sub", "y > 0")
    assert settled(scene)[known:] == []
    scene.wired.heal("b", "c")
    assert settled(scene)[known:] == ["y > 0"]
    scene.publish()
    scene.served()


def test_what_is_subscribed_to_together_is_told_at_once(scene: Scene) -> None:
    scene.move("abcd")
    known, said = len(settled(scene)), len(sent(scene, "a", TetherWants))
    conditions = [f"y > {i}" for i in range(4)]
    scene.wired.tell("a", *(ClientSubscribed(at("sub"), c, parse(c), 1) for c in conditions))
    assert settled(scene)[known:] == conditions
    assert len(sent(scene, "a", TetherWants)) == said + 1
    scene.wired.tell(
        "a",
        *(ClientUnsubscribed(at("sub"), c) for c in conditions),
        ClientDisconnected(at("sub")),
    )
    assert len(sent(scene, "a", TetherWants)) == said + 1, "there is nobody to be served"
    assert scene.local() == []


def test_quality_is_what_client_and_publisher_agree_on(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.tell("a", ClientSubscribed(at("sub"), "x > 0", parse("x > 0"), 0))
    scene.publish()
    scene.wired.tell("a", ClientSubscribed(at("sub"), "x > 0", parse("x > 0"), 1))
    scene.publish()
    deliveries = [e for e in scene.wired.effects["a"] if isinstance(e, Deliver)]
    assert [e.qos for e in deliveries] == [1] * 3 + [0] * 3 + [1] * 3
    scene.served()


def test_a_tether_that_is_cut_for_a_moment_loses_nothing(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.publish()
    scene.wired.cut.discard(frozenset("ad"))
    scene.wired.pass_time(DOWN_S_MAX / 2)
    scene.publish()
    assert scene.place() == ("d", State.ATTACHED)
    scene.served()


def test_a_tether_that_stays_cut_takes_the_subscriber_home(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.publish()
    scene.wired.pass_time(DOWN_S_MAX + 1)
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    scene.served()
    assert scene.local() == ["a"]


def test_timers_that_are_a_little_early_do_not_keep_a_link_that_is_lost(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.wired.run()
    scene.publish()
    for broker, peer in ("ad", "da"):
        scene.wired.fire_early(broker, LinkDown(peer))
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    scene.served()


def test_a_timer_that_is_a_little_early_does_not_keep_a_link_that_nobody_uses() -> None:
    wired = Wired(CHAIN)
    links = wired.brokers["d"].tether_links
    prepare = PrepareMove("m", tuple("abcd"), 5.0, "a")
    wired.brokers["c"].dispatch.send_control("d", prepare)
    wired.tell("c")
    wired.fire_early("d", LinkIdle("a"))
    assert not links.exists("a")


def test_much_that_is_left_to_deliver_comes_home_in_parts() -> None:
    scene = Scene(msgspec.structs.replace(QUIET, frame_events_max=2))
    scene.move("abcd")
    scene.wired.lose("a", "d")
    for _ in range(3):
        scene.publish()
    scene.wired.pass_time(DOWN_S_MAX + 1)
    cuts = sent(scene, "d", GuestCut)
    assert [(cut.part, len(cut.batches), cut.more) for cut in cuts] == [
        (0, 2, True), (1, 2, True), (2, 2, True), (3, 2, True), (4, 1, False),
    ]  # fmt: skip
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    scene.served()
    assert scene.local() == ["a"]


def test_a_recall_is_repeated_until_the_way_is_free(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.publish()
    scene.wired.lose("b", "c")
    scene.wired.pass_time(DOWN_S_MAX + 1)
    assert scene.place() == ("a", State.RECALLING)
    for broker in "ae":
        scene.wired.publish(broker, f"pub-{broker}", {"x": 3})
    scene.wired.publish("d", "pub-d", {"x": 3})
    scene.published += 1
    scene.wired.heal("b", "c")
    assert scene.place() == ("a", State.ATTACHED)
    scene.served()
    assert scene.local() == ["a"]


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_only_the_lost_place_knew_of_is_not_served_from_what_waits_for_it(
    scene: Scene, goes_on: bool
) -> None:
    wired = scene.wired
    wired.subscribe("a", "sub", "y > 0")
    scene.move("abcd")
    wired.lose("c", "d")
    wired.pass_time(1)
    wired.tell("a", ClientSubscribed(at("sub"), "y > 0", parse("z > 0"), 1))
    if goes_on:
        wired.publish("d", "pub-d", {"x": 2})
    wired.publish("e", "pub-e", {"y": 1, "z": 1}, {"z": 1})
    wired.lose("a", "d")
    wired.pass_time(DOWN_S_MAX + 1)
    assert scene.place() == ("a", State.ATTACHED)
    wired.publish("e", "pub-e", {"x": 1})
    # What waits for d was matched by what c had heard of: the third is not there.
    had = [counter for publisher, counter in wired.delivered("a", "sub") if publisher == "pub-e"]
    assert had == [1, 4]


def test_a_place_that_has_forgotten_does_not_hold_up_its_subscribers(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.wired.lose("c", "d")
    scene.wired.boot("d", 2)
    scene.wired.heal("c", "d")
    scene.wired.heal("a", "d")
    assert scene.place() == ("a", State.ATTACHED)
    before = len(scene.wired.delivered("a", "sub"))
    scene.wired.publish("e", "pub-e", {"x": 9})
    assert len(scene.wired.delivered("a", "sub")) == before + 1


def test_a_place_that_stops_gives_its_subscribers_back_first(scene: Scene) -> None:
    scene.move("abcd")
    scene.publish()
    scene.wired.tell("d", StopRequested())
    scene.wired.pass_time(1.0)
    assert scene.place() == ("a", State.ATTACHED)
    assert scene.wired.brokers["d"].stopped
    for broker in "ae":
        scene.wired.publish(broker, f"pub-{broker}", {"x": 3})
    assert [c for id, c in scene.wired.delivered("a", "sub") if id == "pub-e"] == [1, 2, 3]


def test_a_place_that_stops_hears_first_that_who_has_left_has_arrived(scene: Scene) -> None:
    scene.move("abcd")
    wired, source = scene.wired, scene.wired.brokers["d"]
    move = ReassignSubscriber("m9", "sub", "d", "e", Rationale("closer"), tuple("dcbe"))
    wired.handle("d", MoveRequested(move))
    while not any(run.state is MoveState.LEAVING for run in source.engine.under_way()):
        wired.step()
    wired.tell("d", StopRequested())
    assert source.stopped
    assert scene.watch.outcomes[-1:] == [MoveOutcome.DONE]
    assert scene.place() == ("e", State.ATTACHED)
    assert scene.local() == ["e"]


def test_an_origin_that_vanishes_is_not_waited_for_for_ever(scene: Scene) -> None:
    scene.move("abcd")
    scene.wired.lose("a", "d")
    scene.wired.lose("a", "b")
    scene.wired.run()
    del scene.wired.brokers["a"]
    scene.wired.pass_time(DOWN_S_MAX + LOST_S_MAX + 1)
    assert scene.local() == []
    assert list(scene.wired.brokers["d"].tethered_subscribers) == []


def test_a_target_that_can_not_be_reached_leaves_the_subscriber_where_it_is(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.publish()
    scene.wired.pass_time(PATIENCE_S[MoveState.CUTTING] + 1)
    assert scene.watch.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    scene.served()
    assert scene.local() == ["a"]


def test_a_link_that_breaks_while_it_is_attached_sends_it_back(scene: Scene) -> None:
    wired = scene.wired
    move = ReassignSubscriber("m9", "sub", "a", "d", Rationale("closer"), tuple("abcd"))
    wired.queue.append(("a", MoveRequested(move)))
    while not [*wired.brokers["a"].subscriber_tethers] or scene.tether().state is not (
        State.ATTACHING
    ):
        if not wired.queue:
            wired.pass_time(0.1)
        else:
            wired.step()
    wired.lose("a", "d")
    wired.run()
    scene.publish()
    wired.pass_time(ARRIVE_S_MAX + DOWN_S_MAX)
    assert scene.watch.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    scene.served()
    assert scene.local() == ["a"]


def test_a_change_that_is_made_meanwhile_rolls_the_move_back(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.tell("a", ClientSubscribed(at("sub"), "more", parse("x < 0"), 1))
    assert scene.watch.outcomes == [MoveOutcome.ROLLED_BACK]
    scene.publish()
    scene.served()
    assert scene.local() == ["a", "a"]
