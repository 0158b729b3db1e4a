"""A client that stays connected is attached as a publisher elsewhere: step by step, and whatever
fails on the way."""

from __future__ import annotations

import pytest

from gravitate.broker.interface.effects import (
    STOPPING,
    TAKEN_OVER,
    Accept,
    AdvertisementSettled,
    CloseLink,
    CloseSession,
    HoldReading,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientAdvertised,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
    ClientUnadvertised,
    MoveRequested,
    StopRequested,
)
from gravitate.broker.links.demand import DOWN_S_MAX, LINGER_S
from gravitate.broker.links.table import LinkTable
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import Publications, Subscribe
from gravitate.broker.messages.tether import (
    HandedOver,
    Publishing,
    TetherAttach,
    TetherClosed,
    TetherDetach,
)
from gravitate.broker.moves.relocation import State as MoveState
from gravitate.broker.moves.tether.origin import ARRIVE_S_MAX, State
from gravitate.broker.moves.tether.publisher import PublisherTether
from gravitate.broker.observers import Matched
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher
from tests.broker.moves.test_relocation import PATIENCE_S
from tests.support.wired import QUIET, Wired, at, told

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e")]
"""a - b - c - d, and e beside b."""
WAY = {"d": "abcd", "c": "abc", "b": "ab", "e": "abe"}
BEFORE = {"a": None, "b": "a", "c": "b", "d": "c", "e": "b"}
AT_D = {"a": "b", "b": "c", "c": "d", "d": None, "e": "b"}


class Watch(Mechanism):
    """Remembers how moves ended, where publications entered and which hops they took."""

    name = "watch"

    def __init__(self) -> None:
        self.outcomes: list[MoveOutcome] = []
        self.entered: list[tuple[str, int]] = []
        self.hops: list[tuple[str, str | None]] = []

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        self.outcomes.append(outcome)

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        self.entered += [(broker, counter) for counter in batch.counters]

    def on_hop(self, hop: Matched, now: float) -> None:
        self.hops.append((hop.broker, hop.came_from))


class Scene:
    """A stock client `pub` at a that has published once; subscribers at a, d and e."""

    def __init__(self, options: BrokerOptions = QUIET) -> None:
        self.watch = Watch()
        self.wired = Wired(CHAIN, options, mechanisms={broker: [self.watch] for broker in "abcde"})
        self.counter = 0
        self.moves = 0
        self.wired.connect("a", "pub")
        for broker in "ade":
            self.wired.connect(broker, f"sub-{broker}")
            self.wired.subscribe(broker, f"sub-{broker}", "x > 0")
        self.publish()

    def publish(self, topic: str = "t") -> None:
        self.counter += 1
        bodies = PlainBodies((Event({"topic": topic, "x": 1}),))
        self.wired.tell("a", ClientPublished(at("pub"), bodies, 1))

    def request(self, path: str) -> None:
        self.moves += 1
        move = RelocatePublisher(
            f"m{self.moves}", "pub", path[0], path[-1], Rationale("closer"), tuple(path)
        )
        self.wired.tell(path[0], MoveRequested(move))

    def settle(self) -> None:
        """Let the timers of dialling and acknowledging pass."""
        self.wired.pass_time(1.0)

    def tether(self) -> PublisherTether:
        (tether,) = self.wired.brokers["a"].tethers
        return tether

    def place(self) -> tuple[str, State]:
        return self.tether().place, self.tether().state

    def served(self) -> None:
        """Everybody has had everything, once and in order, and all of it was accepted."""
        for broker in "ade":
            wanted = [("pub", number) for number in range(1, self.counter + 1)]
            assert self.wired.delivered(broker, f"sub-{broker}") == wanted, broker
        assert self.wired.accepted("a", "pub") == self.counter

    def toward(self) -> dict[str, str | None]:
        """Where each broker believes the publisher to be."""
        return {
            name: entry.last_hop
            for name, broker in self.wired.brokers.items()
            if not broker.stopped
            for entry in broker.router.table.advertisements.values()
        }

    def links(self) -> set[tuple[str, str]]:
        """Links that brokers have for tethers."""
        return {
            (name, link.peer)
            for name, broker in self.wired.brokers.items()
            for link in broker.links
            if link.tethers
        }

    def locks(self) -> list[str]:
        return [m for b in self.wired.brokers.values() for m in b._parts.paths.lock.held(0.0)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def moved(scene: Scene) -> Scene:
    scene.request("abcd")
    scene.settle()
    assert scene.place() == ("d", State.ATTACHED)
    return scene


# The usual course


def test_a_stock_client_stays_connected_and_publishes_elsewhere(moved: Scene) -> None:
    assert moved.watch.outcomes == [MoveOutcome.DONE]
    assert moved.toward() == AT_D
    assert moved.links() == {("a", "d"), ("d", "a")}
    assert moved.locks() == []
    moved.publish()
    assert moved.watch.entered == [("a", 1), ("d", 2)]
    moved.served()
    assert not told(moved.wired.effects["a"], CloseSession)


@pytest.mark.parametrize("target", "bcde")
def test_tables_are_those_of_a_publisher_that_was_there_from_the_start(target: str) -> None:
    scene = Scene()
    scene.request(WAY[target])
    scene.settle()
    scene.publish()
    fresh = Wired(CHAIN)
    fresh.connect(target, "pub")
    for broker in "ade":
        fresh.connect(broker, f"sub-{broker}")
        fresh.subscribe(broker, f"sub-{broker}", "x > 0")
    fresh.publish(target, "pub", {"x": 1})
    for broker in "abcde":
        assert scene.wired.table(broker) == fresh.table(broker), broker
        assert {
            id: entry.last_hop
            for id, entry in scene.wired.brokers[broker].router.table.advertisements.items()
        } == {
            id: entry.last_hop
            for id, entry in fresh.brokers[broker].router.table.advertisements.items()
        }, broker
    scene.served()


def test_the_hop_over_the_tether_is_no_hop_of_the_event(moved: Scene) -> None:
    moved.watch.hops.clear()
    moved.publish()
    assert moved.watch.hops == [("d", None), ("c", "d"), ("b", "c"), ("a", "b"), ("e", "b")]


def test_a_neighbour_is_tethered_over_the_link_there_is(scene: Scene) -> None:
    scene.request("ab")
    scene.settle()
    assert scene.place() == ("b", State.ATTACHED)
    assert scene.wired.brokers["a"].links["b"].tethers
    scene.publish()
    scene.request("ba")
    scene.settle()
    scene.wired.pass_time(LINGER_S)
    assert not scene.wired.brokers["a"].links["b"].tethers
    scene.publish()
    scene.served()


def test_a_client_that_follows_but_subscribes_is_tethered_and_keeps_its_subscription() -> None:
    wired = Wired(CHAIN)
    wired.tell("a", ClientConnected(at("pub"), "pub", 1, 65535, True, 1, follows=True))
    wired.subscribe("a", "pub", "y > 0")
    wired.tell("a", ClientPublished(at("pub"), PlainBodies((Event({"topic": "t", "y": 1}),)), 1, 1))
    move = RelocatePublisher("m", "pub", "a", "d", Rationale("closer"), tuple("abcd"))
    wired.tell("a", MoveRequested(move))
    wired.pass_time(1.0)
    wired.tell("a", ClientPublished(at("pub"), PlainBodies((Event({"topic": "t", "y": 1}),)), 1, 2))
    assert [tether.place for tether in wired.brokers["a"].tethers] == ["d"]
    assert wired.delivered("a", "pub") == [("pub", 1), ("pub", 2)]


def test_a_client_that_wants_none_of_its_own_gets_none_from_afar(moved: Scene) -> None:
    own = ClientSubscribed(at("pub"), "own", parse("x > 0"), 1, no_local=True)
    moved.wired.tell("a", own)
    moved.publish()
    assert moved.wired.delivered("a", "pub") == []
    moved.served()


def test_what_is_published_while_it_moves_waits_and_is_accepted(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    assert scene.place() == ("a", State.ATTACHED)
    scene.publish()
    assert scene.watch.entered[-1] == ("a", 2)
    scene.wired.cut.clear()
    scene.wired.lose("b", "c")
    scene.settle()
    assert scene.place() == ("d", State.ATTACHING)
    scene.publish()
    assert scene.wired.accepted("a", "pub") == 3
    assert len(scene.watch.entered) == 2
    scene.wired.heal("b", "c")
    assert scene.watch.entered[-1] == ("d", 3)
    scene.served()


def test_a_client_too_much_of_which_waits_is_not_read_from() -> None:
    scene = Scene(BrokerOptions(heartbeat_s=0, link_grace_s=0, stop_s_max=0, hold_events_max=2))
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.lose("b", "c")
    scene.wired.cut.discard(frozenset("ad"))
    scene.settle()
    for _ in range(3):
        scene.publish()
    assert scene.wired.effects["a"][-1] == Accept(at("pub"), 1)
    assert Tell(at("pub"), HoldReading(True)) in scene.wired.effects["a"]
    scene.wired.heal("b", "c")
    assert Tell(at("pub"), HoldReading(False)) in scene.wired.effects["a"]
    scene.served()


def test_it_is_moved_on_from_where_it_is_attached(moved: Scene) -> None:
    moved.publish()
    moved.request("dcbe")
    moved.settle()
    assert moved.place() == ("e", State.ATTACHED)
    assert moved.watch.outcomes == [MoveOutcome.DONE] * 2
    assert moved.toward() == {"a": "b", "b": "e", "c": "b", "d": "c", "e": None}
    moved.wired.pass_time(LINGER_S + 1)
    assert moved.links() == {("a", "e"), ("e", "a")}
    moved.publish()
    moved.served()


def test_it_is_moved_home(moved: Scene) -> None:
    moved.publish()
    moved.request("dcba")
    moved.settle()
    assert moved.place() == ("a", State.ATTACHED)
    assert moved.toward() == BEFORE
    moved.wired.pass_time(LINGER_S + 1)
    assert moved.links() == set()
    moved.publish()
    moved.served()


def test_the_latest_life_of_a_publisher_is_found_until_it_has_gone(moved: Scene) -> None:
    tethered = moved.wired.brokers["d"].tethered
    remote = moved.wired.brokers["d"]._parts.remote
    (earlier,) = tethered
    later = TetherAttach(9, 1, "pub", earlier.incarnation + 1, Publishing({}))
    remote.handle("a", later)
    assert [one.id for one in tethered] == ["pub", "pub"]
    found = tethered.find("pub")
    assert found is not None
    assert found.incarnation == later.incarnation
    remote.handle("a", TetherDetach(9, 1))
    assert tethered.find("pub") is earlier
    remote.handle("a", TetherDetach(earlier.number, earlier.attachment))
    assert tethered.find("pub") is None
    assert "a" not in remote.origins()
    assert tethered.expects("a"), "it waits to hear that they have ended everywhere"
    moved.wired.tell("d")
    moved.settle()
    assert not tethered.expects("a")


def test_moving_it_is_asked_of_the_broker_it_is_attached_to(moved: Scene) -> None:
    moved.request("abe")
    assert moved.watch.outcomes[-1] is MoveOutcome.REFUSED
    assert moved.place() == ("d", State.ATTACHED)


# What the client does


def test_a_client_that_leaves_takes_its_advertisements_from_where_it_was(moved: Scene) -> None:
    moved.publish()
    moved.wired.tell("a", ClientDisconnected(at("pub")))
    moved.wired.pass_time(LINGER_S + 1)
    assert moved.toward() == {}
    assert moved.links() == set()
    assert not [*moved.wired.brokers["a"].tethers]
    moved.served()


def test_what_a_client_has_published_when_it_leaves_while_it_moves_goes_out(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.lose("b", "c")
    scene.wired.cut.discard(frozenset("ad"))
    scene.settle()
    scene.publish()
    scene.wired.tell("a", ClientDisconnected(at("pub")))
    assert len(scene.watch.entered) == 1
    scene.wired.heal("b", "c")
    scene.settle()
    assert scene.watch.entered[-1] == ("d", 2)
    assert scene.toward() == {}
    scene.served()


@pytest.mark.parametrize(("incarnation", "counter"), [(1, 2), (2, 1)])
def test_a_client_that_comes_again_is_moved_though_nobody_took_along_what_it_had_advertised(
    incarnation: int, counter: int
) -> None:
    """On the way to where it went a link was given up, and there it has ended. One that counts goes
    on with its life; another one's former life is waited for as long as ever."""
    wired = Wired(CHAIN, BrokerOptions(heartbeat_s=0, link_grace_s=2, stop_s_max=0))
    departing = wired.brokers["a"].publishers.departing
    bodies = PlainBodies((Event({"topic": "t", "x": 1}),))

    def request(path: str) -> None:
        move = RelocatePublisher(path, "pub", "a", path[-1], Rationale("closer"), tuple(path))
        wired.tell("a", MoveRequested(move))

    wired.tell("a", ClientConnected(at("pub"), "pub", 1, 65535, True, 1))
    wired.tell("a", ClientPublished(at("pub"), bodies, 1, 1))
    wired.cut.add(frozenset("ad"))
    request("abcd")
    wired.lose("b", "c")
    wired.cut.discard(frozenset("ad"))
    wired.pass_time(1.0)
    wired.tell("a", ClientDisconnected(at("pub")))
    wired.pass_time(3.0)
    assert not [*wired.brokers["a"].tethers]
    assert [one.life for one in departing] == [("pub", 1)]
    wired.tell("a", ClientConnected(at("pub"), "pub", incarnation, 65535, True, 2))
    wired.tell("a", ClientPublished(at("pub"), bodies, 1, counter))
    request("abe")
    wired.pass_time(1.0)
    (tether,) = wired.brokers["a"].tethers
    assert (tether.place, tether.state) == ("e", State.ATTACHED)
    assert [one.life for one in departing] == [("pub", 1)] * (incarnation - 1)
    wired.heal("b", "c")
    wired.pass_time(PATIENCE_S[MoveState.LEAVING])
    assert not [*departing]
    for broker in wired.brokers.values():
        assert [*broker.router.table.by_publisher] == [("pub", incarnation)]


def test_what_the_client_advertises_is_advertised_where_it_is_attached(moved: Scene) -> None:
    moved.wired.tell("a", ClientAdvertised(at("pub"), "more", parse("topic = 'u'")))
    assert Tell(at("pub"), AdvertisementSettled("more")) in moved.wired.effects["a"]
    entries = moved.wired.brokers["d"].router.table.advertisements
    assert entries["pub#1/client:more"].last_hop is None
    moved.publish("u")
    moved.wired.tell("a", ClientUnadvertised(at("pub"), "more"))
    for broker in moved.wired.brokers.values():
        assert "pub#1/client:more" not in broker.router.table.advertisements
    moved.served()


def test_a_topic_the_client_has_not_advertised_is_advertised_there(moved: Scene) -> None:
    moved.publish("another")
    assert (
        moved.wired.brokers["d"].router.table.advertisements["pub#1/topic:another"].last_hop is None
    )
    moved.request("dcba")
    moved.settle()
    assert (
        moved.wired.brokers["a"].router.table.advertisements["pub#1/topic:another"].last_hop is None
    )
    moved.publish("another")
    moved.served()


def test_a_client_that_comes_back_is_attached_at_home_behind_what_it_published() -> None:
    wired = Wired(CHAIN)
    wired.tell("a", ClientConnected(at("pub"), "pub", 1, 65535, True, 1))
    for broker in "ade":
        wired.connect(broker, f"sub-{broker}")
        wired.subscribe(broker, f"sub-{broker}", "x > 0")

    def publish(counter: int) -> None:
        bodies = PlainBodies((Event({"topic": "t", "x": 1}),))
        wired.tell("a", ClientPublished(at("pub"), bodies, 1, counter))

    publish(1)
    move = RelocatePublisher("m", "pub", "a", "d", Rationale("closer"), tuple("abcd"))
    wired.tell("a", MoveRequested(move))
    wired.pass_time(1.0)
    wired.lose("a", "d")
    publish(2)
    wired.tell("a", ClientConnected(at("pub"), "pub", 1, 65535, True, 2))
    publish(2)
    publish(3)
    wired.heal("a", "d")
    (tether,) = wired.brokers["a"].tethers
    assert (tether.place, tether.state) == ("a", State.ATTACHED)
    for broker in "ade":
        assert wired.delivered(broker, f"sub-{broker}") == [("pub", n) for n in (1, 2, 3)]


def test_a_client_that_connects_elsewhere_by_itself_ends_its_former_session() -> None:
    wired = Wired(CHAIN)
    wired.tell("a", ClientConnected(at("pub"), "pub", 1, 65535, True, 1))
    bodies = PlainBodies((Event({"topic": "t", "x": 1}),))
    wired.tell("a", ClientPublished(at("pub"), bodies, 1, 1))
    move = RelocatePublisher("m", "pub", "a", "d", Rationale("closer"), tuple("abcd"))
    wired.tell("a", MoveRequested(move))
    wired.pass_time(1.0)
    wired.tell("e", ClientConnected(at("pub"), "pub", 1, 65535, True, 2))
    assert Tell(at("pub"), CloseSession(TAKEN_OVER)) in wired.effects["a"]
    assert not [*wired.brokers["a"].tethers]
    assert list(wired.brokers["d"].tethered) == []


# What goes wrong


def test_a_target_that_cannot_be_reached_leaves_it_where_it_is(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.pass_time(PATIENCE_S[MoveState.PAUSING] + 1)
    assert scene.watch.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.place() == ("a", State.ATTACHED)
    scene.wired.pass_time(LINGER_S + 1)
    assert scene.links() == set()
    assert scene.locks() == []
    scene.publish()
    scene.served()


def test_a_path_that_is_locked_refuses_and_no_link_is_made(scene: Scene) -> None:
    assert scene.wired.brokers["c"]._parts.paths.lock.request("other", True, 60.0, scene.wired.now)
    scene.request("abcd")
    assert scene.watch.outcomes == [MoveOutcome.REFUSED]
    assert scene.links() == set()
    scene.publish()
    scene.served()


def test_one_that_does_not_arrive_goes_back(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.lose("b", "c")
    scene.wired.cut.discard(frozenset("ad"))
    scene.settle()
    assert scene.place() == ("d", State.ATTACHING)
    scene.publish()
    scene.wired.pass_time(ARRIVE_S_MAX)
    assert scene.watch.outcomes == [MoveOutcome.ROLLED_BACK]
    assert scene.place()[0] == "a"
    scene.wired.heal("b", "c")
    scene.settle()
    assert scene.toward() == BEFORE
    scene.publish()
    scene.served()


def test_a_tether_that_breaks_for_a_moment_goes_on(moved: Scene) -> None:
    moved.wired.lose("a", "d")
    moved.publish()
    moved.wired.pass_time(1.0)
    moved.wired.heal("a", "d")
    assert moved.place() == ("d", State.ATTACHED)
    assert moved.watch.entered[-1] == ("d", 2)
    moved.served()


def test_a_tether_that_breaks_for_good_takes_the_publisher_home(moved: Scene) -> None:
    moved.publish()
    moved.wired.lose("a", "d")
    moved.publish()
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.place() == ("a", State.ATTACHED)
    assert moved.toward() == BEFORE
    assert moved.watch.entered[-1] == ("a", 3)
    moved.wired.heal("a", "d")
    moved.wired.pass_time(LINGER_S + DOWN_S_MAX)
    assert moved.links() == set()
    assert list(moved.wired.brokers["d"].tethered) == []
    moved.publish()
    moved.served()


def test_what_the_target_took_without_a_word_is_published_again_and_recognised(
    moved: Scene,
) -> None:
    # d has the publication, a has no acknowledgement when the line is cut.
    moved.wired.tell(
        "a", ClientPublished(at("pub"), PlainBodies((Event({"topic": "t", "x": 1}),)), 1)
    )
    moved.counter += 1
    assert len(moved.tether().sent) == 1
    moved.wired.lose("a", "d")
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.watch.entered[-2:] == [("d", 2), ("a", 2)]
    moved.served()


def test_a_target_that_restarts_has_forgotten_and_the_publisher_comes_home(moved: Scene) -> None:
    moved.wired.lose("a", "d")
    moved.wired.lose("c", "d")
    moved.publish()
    moved.wired.boot("d", 2)
    moved.wired.heal("c", "d")
    moved.wired.heal("a", "d")
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.place() == ("a", State.ATTACHED)
    assert moved.toward() == BEFORE
    for broker in "ae":
        assert moved.wired.delivered(broker, f"sub-{broker}") == [("pub", 1), ("pub", 2)]


def test_a_target_that_is_about_to_stop_publishes_until_it_takes_nothing_more(
    moved: Scene,
) -> None:
    # d has a client of its own to take home first, and cannot reach where that is attached.
    moved.wired.connect("d", "own")
    moved.wired.publish("d", "own", {"y": 1})
    move = RelocatePublisher("m", "own", "d", "e", Rationale("closer"), tuple("dcbe"))
    moved.wired.tell("d", MoveRequested(move))
    moved.settle()
    moved.wired.lose("d", "e")
    moved.wired.publish("d", "own", {"y": 1})
    moved.wired.tell("d", StopRequested())
    moved.publish()
    assert moved.watch.entered[-1] == ("d", 2)
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.wired.brokers["d"].stopped
    moved.publish()
    # What d took in must be known to have arrived, or to be lost, before anything overtakes it.
    moved.wired.lose("c", "d")
    moved.wired.boot("d", 2)
    moved.wired.heal("c", "d")
    moved.wired.pass_time(6.0)
    assert moved.place() == ("a", State.ATTACHED)
    for broker in "ae":
        wanted = [("pub", number) for number in (1, 2, 3)]
        assert moved.wired.delivered(broker, f"sub-{broker}") == wanted


def test_a_late_word_from_where_it_was_says_nothing_of_where_it_is(moved: Scene) -> None:
    moved.publish()
    (first,) = moved.tether().sent
    moved.wired.lose("a", "d")
    moved.wired.lose("a", "b")
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.place() == ("a", State.ATTACHING)
    assert isinstance(first, HandedOver)
    moved.wired.brokers["a"].tethers.taken("d", first)
    assert len(moved.tether().kept) == 1
    moved.wired.heal("a", "b")
    moved.served()


def test_a_target_that_stops_in_order_sends_it_home_at_once(moved: Scene) -> None:
    moved.publish()
    moved.wired.tell("d", StopRequested())
    moved.publish()
    moved.settle()
    assert moved.wired.brokers["d"].stopped
    assert moved.place() == ("a", State.ATTACHED)
    moved.wired.pass_time(6.0)
    for broker in "ae":
        wanted = [("pub", number) for number in (1, 2, 3)]
        assert moved.wired.delivered(broker, f"sub-{broker}") == wanted


def test_a_target_that_stops_before_its_word_has_spread_is_not_overtaken(moved: Scene) -> None:
    wired = moved.wired
    inbound = wired.brokers["a"].clients.sessions["pub"].inbound
    wired.brokers["a"].tethers.withdraw(inbound, "topic:t")
    wired.tell("a")
    assert moved.toward() == {}
    wired.lose("b", "c")
    moved.publish()  # advertised at d, and not heard of at a
    assert moved.toward() == {"d": None, "c": "d"}
    moved.settle()
    wired.tell("d", StopRequested())
    moved.settle()
    assert wired.brokers["d"].stopped
    moved.publish()
    assert moved.place() == ("d", State.UNHEARD)
    wired.heal("b", "c")
    assert moved.place() == ("a", State.ATTACHED)
    wired.pass_time(wired.options.hold_s_max)
    for broker in "ae":
        wanted = [("pub", number) for number in (1, 2, 3)]
        assert wired.delivered(broker, f"sub-{broker}") == wanted


def test_those_that_wait_for_a_broker_that_stops_are_kept_apart(moved: Scene) -> None:
    tethers, tether = moved.wired.brokers["a"].tethers, moved.tether()
    about = (tether.number, tether.attachment)
    moved.wired.brokers["a"]._parts.tethers.handle("d", TetherClosed(*about, STOPPING))
    assert tether.state is State.WITHDRAWN
    assert list(tethers._homeward.values()) == [tether]
    moved.publish()
    assert tether.state is State.WITHDRAWN
    # What it advertised there ends everywhere.
    moved.wired.brokers["d"]._parts.remote.handle("a", TetherDetach(*about))
    moved.wired.tell("d")
    moved.settle()
    assert moved.place() == ("a", State.ATTACHED)
    assert tethers._homeward == {}
    moved.served()


def test_an_origin_that_stops_in_order_leaves_nothing_behind(moved: Scene) -> None:
    moved.wired.lose("a", "d")
    moved.publish()
    moved.wired.tell("a", StopRequested())
    assert not moved.wired.brokers["a"].stopped
    moved.wired.heal("a", "d")
    assert moved.wired.brokers["a"].stopped
    moved.wired.pass_time(LINGER_S + 1)
    assert moved.toward() == {}
    for broker in "de":
        assert moved.wired.delivered(broker, f"sub-{broker}") == [("pub", 1), ("pub", 2)]


def test_an_origin_that_stops_with_its_tether_broken_publishes_itself(moved: Scene) -> None:
    moved.wired.lose("a", "d")
    moved.publish()
    moved.wired.tell("a", StopRequested())
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert moved.wired.brokers["a"].stopped
    assert moved.toward() == {}
    for broker in "de":
        assert moved.wired.delivered(broker, f"sub-{broker}") == [("pub", 1), ("pub", 2)]


def test_an_origin_that_restarts_has_forgotten_and_its_publishers_end(moved: Scene) -> None:
    moved.wired.lose("a", "d")
    moved.wired.lose("a", "b")
    moved.wired.boot("a", 2)
    moved.wired.heal("a", "b")
    moved.wired.pass_time(DOWN_S_MAX + 1)
    assert list(moved.wired.brokers["d"].tethered) == []
    assert moved.toward() == {}


def test_a_source_that_is_lost_while_the_publisher_moves_on_loses_nothing(moved: Scene) -> None:
    moved.publish()
    moved.wired.cut.add(frozenset("ae"))
    moved.request("dcbe")
    moved.publish()
    moved.wired.lose("a", "d")
    moved.wired.cut.discard(frozenset("ae"))
    moved.wired.pass_time(60.0)
    assert moved.toward() == BEFORE
    moved.publish()
    moved.served()


def test_who_subscribes_while_a_publisher_moves_misses_nothing(scene: Scene) -> None:
    scene.wired.cut.add(frozenset("ad"))
    scene.request("abcd")
    scene.wired.lose("b", "c")
    scene.wired.cut.discard(frozenset("ad"))
    scene.settle()
    scene.wired.connect("c", "late")
    scene.wired.subscribe("c", "late", "x > 0")
    scene.wired.heal("b", "c")
    scene.publish()
    assert scene.wired.delivered("c", "late") == [("pub", 2)]
    scene.served()


# Links


def test_a_stranger_that_was_not_expected_is_turned_away(scene: Scene) -> None:
    scene.wired.brokers["a"].peering.add("d")
    scene.settle()
    links: LinkTable = scene.wired.brokers["d"].links
    assert "a" not in links
    assert not scene.wired.brokers["a"].links.is_up("d")


def test_routing_is_no_business_of_a_tether(moved: Scene) -> None:
    subscribe = Subscribe("s", parse("x > 0"), 1)
    moved.wired.brokers["a"].links.send("d", subscribe)
    moved.publish()
    assert "s" not in moved.wired.brokers["d"].router.table.subscriptions
    assert moved.wired.brokers["d"].links.neighbours() == ["c"]


def test_what_was_not_handed_over_is_not_taken_from_a_tether(moved: Scene) -> None:
    bodies = PlainBodies((Event({"topic": "t", "x": 1}),))
    stray = Batch("stray", 1, range(1, 2), bodies, 1, moved.wired.now, True)
    moved.wired.brokers["a"].links.send("d", Publications([stray]))
    moved.publish()
    moved.settle()
    assert all("stray" not in dict(moved.wired.delivered(at, f"sub-{at}")) for at in "ade")
    refused = [e.reason for e in moved.wired.effects["d"] if isinstance(e, CloseLink)]
    assert "no-neighbour" in refused[0]


def test_a_target_that_cannot_make_the_link_refuses(scene: Scene) -> None:
    wired = scene.wired
    wired.lose("c", "d")
    wired.boot("d", 2, [scene.watch], others=("e",))
    wired.heal("c", "d")
    wired.connect("d", "sub-d")
    scene.settle()
    scene.request("abcd")
    scene.settle()
    assert scene.watch.outcomes == [MoveOutcome.REFUSED]
    assert scene.links() == set()
    assert scene.locks() == []
    assert scene.place() == ("a", State.ATTACHED)


def test_two_brokers_that_tether_to_each_other_share_a_link(moved: Scene) -> None:
    wired = moved.wired
    wired.connect("d", "other")
    wired.publish("d", "other", {"x": 1})
    move = RelocatePublisher("back", "other", "d", "a", Rationale("closer"), tuple("dcba"))
    wired.tell("d", MoveRequested(move))
    moved.settle()
    assert moved.watch.outcomes == [MoveOutcome.DONE] * 2
    assert [one.id for one in wired.brokers["a"].tethered] == ["other"]
    assert moved.links() == {("a", "d"), ("d", "a")}
    wired.publish("d", "other", {"x": 1})
    assert wired.delivered("e", "sub-e") == [("pub", 1), ("other", 1), ("other", 2)]
