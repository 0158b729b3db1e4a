"""A world delivers inputs when and where they are due, and loses what a fault takes."""

from __future__ import annotations

from functools import partial

import pytest

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.timers import MechanismTimer
from gravitate.broker.messages.frames import Ping
from gravitate.simulate.clients import Client
from gravitate.simulate.hosts import REFUSED
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.world import World
from tests.support.wired import at

from .toys import ToyBroker, pair

TICK, TOCK = MechanismTimer("toy", "tick"), MechanismTimer("toy", "tock")
GO = i.TimerFired(MechanismTimer("toy", "go"), 0.0)


def toys(world: World) -> tuple[ToyBroker, ToyBroker]:
    a, b = world.hosts["a"].broker, world.hosts["b"].broker
    assert isinstance(a, ToyBroker)
    assert isinstance(b, ToyBroker)
    return a, b


def started(**options: object) -> World:
    """A pair whose link is open."""
    network = pair(
        float(options.get("latency_ms", 10.0)),  # type: ignore[arg-type]
        float(options.get("bandwidth", 0.0)),  # type: ignore[arg-type]
    )
    service = options.get("service")
    assert service is None or isinstance(service, ServiceModel)
    world = World(network, ToyBroker, service=service)
    world.start()
    world.run(1.0)
    return world


def say(world: World, *numbers: float) -> None:
    """`a` sends one ping for each number, now."""
    a, _ = toys(world)
    connection = next(iter(world.hosts["a"].pipes))
    a.reply = lambda item: (
        [e.Send(connection, Ping(number)) for number in numbers]
        if isinstance(item, i.TimerFired)
        else []
    )
    world.hosts["a"].take(GO)


def test_both_sides_learn_of_a_connection_after_the_latency_under_one_number() -> None:
    world = started()
    a, b = toys(world)
    assert a.times(i.LinkOpened) == b.times(i.LinkOpened) == [0.010]
    assert world.hosts["a"].pipes.keys() == world.hosts["b"].pipes.keys()


def test_frames_arrive_after_the_latency_in_order() -> None:
    world = started()
    say(world, 1.0, 2.0)
    world.run(2.0)
    assert toys(world)[1].pings() == [(pytest.approx(1.010), 1.0), (pytest.approx(1.010), 2.0)]


def test_a_delay_that_ends_does_not_let_frames_overtake() -> None:
    world = started()
    world.delay("a", "b", 0.5)
    say(world, 1.0)
    world.delay("a", "b", 0.0)
    say(world, 2.0)
    world.run(3.0)
    assert toys(world)[1].pings() == [(pytest.approx(1.510), 1.0), (pytest.approx(1.510), 2.0)]


def test_bandwidth_queues_frames_one_behind_the_other() -> None:
    world = started(bandwidth=240.0)
    say(world, 1.0, 2.0)
    world.run(3.0)
    first, second = toys(world)[1].pings()
    assert first[0] == pytest.approx(1.0 + 0.1 + 0.010)
    assert second[0] == pytest.approx(1.0 + 0.2 + 0.010)


def test_a_cut_loses_what_is_in_flight_and_each_side_notices_in_its_time() -> None:
    world = started()
    say(world, 1.0)
    world.cut("a", "b", noticed_after_s=(0.0, 0.3))
    world.run(2.0)
    a, b = toys(world)
    assert b.pings() == []
    assert a.times(i.LinkClosed) == [pytest.approx(1.0)]
    assert b.times(i.LinkClosed) == [pytest.approx(1.3)]


def test_dialling_a_cut_line_or_a_broker_that_is_down_fails() -> None:
    world = started()
    a, _ = toys(world)
    world.cut("a", "b")
    a.reply = lambda item: [e.OpenLink("b")] if isinstance(item, i.TimerFired) else []
    world.hosts["a"].take(GO)
    world.run(2.0)
    assert a.log[-1][1] == [i.DialFailed("b")]
    world.heal("a", "b")
    world.hosts["b"].stop()
    world.hosts["a"].take(GO)
    world.run(3.0)
    assert a.log[-1][1] == [i.DialFailed("b")]


def test_a_broker_that_stops_has_its_last_frames_arrive_before_the_end_is_read() -> None:
    world = started()
    say(world, 1.0)
    world.hosts["a"].stop()
    b = world.hosts["b"].broker
    world.run(2.0)
    assert isinstance(b, ToyBroker)
    assert [type(item).__name__ for _, inputs in b.log for item in inputs][-2:] == [
        "FrameReceived",
        "LinkClosed",
    ]
    assert not world.is_up("a")


def test_a_broker_that_starts_again_is_new_and_has_a_higher_incarnation() -> None:
    world = started()
    before, _ = toys(world)
    world.hosts["a"].stop()
    world.run(2.0)
    world.hosts["a"].start()
    after, b = toys(world)
    world.run(3.0)
    assert after is not before
    assert after.incarnation == before.incarnation + 1
    assert len(b.times(i.LinkOpened)) == 2


def test_a_timer_set_again_under_its_key_is_replaced() -> None:
    world = started()
    a, _ = toys(world)
    a.reply = lambda item: (
        [e.SetTimer(TICK, 1.5), e.SetTimer(TICK, 1.8), e.SetTimer(TOCK, 1.6)] if item == GO else []
    )
    world.hosts["a"].take(GO)
    world.run(3.0)
    assert a.log[1:] == [
        (1.0, [GO]),
        (1.6, [i.TimerFired(TOCK, 1.6)]),
        (1.8, [i.TimerFired(TICK, 1.8)]),
    ]


def test_a_busy_broker_takes_what_came_meanwhile_as_one_batch() -> None:
    world = started(service=ServiceModel(batch_s=0.1))
    a, _ = toys(world)
    host = world.hosts["a"]
    steps = len(a.log)
    for number in range(3):
        world.scheduler.at(1.0 + number * 0.01, lambda _: host.take(GO), None)
    world.run(3.0)
    assert [len(inputs) for _, inputs in a.log[steps:]] == [1, 2]
    assert [now for now, _ in a.log[steps:]] == [pytest.approx(1.1), pytest.approx(1.2)]


class Ear:
    """A client that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def deliver(self, effect: e.Deliver) -> None:
        self.heard.append(effect)

    def accept(self, count: int) -> None:
        self.heard.append(count)

    def tell(self, word: e.Word) -> None:
        self.heard.append(word.reason if isinstance(word, e.CloseSession) else word)


def test_a_session_at_a_broker_that_is_down_is_refused() -> None:
    world = started()
    world.hosts["b"].stop()
    ear = Ear()
    world.attach(ear, i.ClientConnected(at("c"), "c", 1), "b", 0.02)
    world.run(2.0)
    assert ear.heard == [REFUSED]


def test_effects_go_to_the_connection_they_name() -> None:
    world = started(service=ServiceModel(batch_s=0.01))
    a, _ = toys(world)
    old, new = Ear(), Ear()
    world.attach(old, i.ClientConnected(1, "c", 1), "a", 0.0)
    world.run(1.5)
    a.reply = lambda item: (
        [e.Accept(1, 1), e.Tell(1, e.CloseSession(e.TAKEN_OVER)), e.Accept(2, 2), e.Accept(1, 3)]
        if isinstance(item, i.ClientConnected)
        else []
    )
    world.attach(new, i.ClientConnected(2, "c", 2), "a", 0.0)
    world.run(2.0)
    assert (old.heard, new.heard) == ([1, e.TAKEN_OVER], [2])


def test_what_a_held_client_sends_waits_until_it_is_read_again() -> None:
    world = started()
    a, _ = toys(world)
    ear = Ear()
    attachment = world.attach(ear, i.ClientConnected(at("c"), "c", 1), "a", 0.0)
    world.run(1.1)
    a.reply = lambda item: (
        [e.Tell(at("c"), e.HoldReading(item == GO))] if isinstance(item, i.TimerFired) else []
    )
    world.hosts["a"].take(GO)
    attachment.submit(i.ClientAcknowledged(at("c"), 1))
    world.run(1.5)
    assert a.times(i.ClientAcknowledged) == []
    world.hosts["a"].take(i.TimerFired(TICK, 0.0))
    world.run(2.0)
    assert a.times(i.ClientAcknowledged) == [1.5]


def test_what_a_client_sent_before_its_session_ended_under_it_is_lost() -> None:
    world = started()
    ear = Ear()
    attachment = world.attach(ear, i.ClientConnected(at("c"), "c", 1), "a", 0.0)
    world.run(1.1)
    world.hosts["a"].stop()
    world.hosts["a"].start()
    attachment.submit(i.ClientAcknowledged(at("c"), 1))
    world.run(2.0)
    assert ear.heard == [e.STOPPING]
    assert toys(world)[0].times(i.ClientAcknowledged) == []


def asks(world: World, *brokers: str) -> list[tuple[float, dict[str, float]]]:
    """What the client `c` of `b` has measured by three seconds later, and when `b` heard of it."""
    b = world.hosts["b"].broker
    assert isinstance(b, ToyBroker)
    (connection,) = world.hosts["b"].attachments
    b.reply = lambda item: (
        [e.Tell(connection, e.PingBrokers(brokers, 1))] if isinstance(item, i.TimerFired) else []
    )
    world.hosts["b"].take(GO)
    world.run(world.now + 3.0)
    return [
        (now, item.round_trips_s)
        for now, inputs in b.log
        for item in inputs
        if isinstance(item, i.BrokersPinged)
    ]


def test_a_client_measures_from_where_it_first_connected() -> None:
    world = started(latency_ms=30.0)
    client = Client(world, "c", "b")
    client.connect()
    world.run(2.0)
    assert asks(world, "b", "a") == [(pytest.approx(2.06), {"b": 0.0, "a": 0.06})]


def test_also_when_it_has_gone_elsewhere() -> None:
    world = started(latency_ms=30.0)
    client = Client(world, "c", "a")
    client.connect()
    world.run(1.5)
    client.disconnect()
    client.connect("b")
    world.run(2.0)
    assert asks(world, "a", "b") == [(pytest.approx(2.06), {"a": 0.0, "b": 0.06})]


def test_a_broker_that_is_down_does_not_answer_it() -> None:
    world = started(latency_ms=30.0)
    client = Client(world, "c", "b")
    client.connect()
    world.run(2.0)
    world.hosts["a"].stop()
    world.run(2.5)
    assert asks(world, "a", "b") == [(2.5, {"b": 0.0})]


@pytest.mark.parametrize("leaves", [True, False])
def test_one_that_has_left_or_paused_meanwhile_does_not_answer(leaves: bool) -> None:
    world = started(latency_ms=30.0)
    client = Client(world, "c", "b", follows=True)
    client.connect()
    world.run(2.0)
    assert client.connection is not None
    client.connection.tell(e.Attached())
    pauses = partial(client.connection.tell, e.Redirect("a"))
    world.scheduler.after(0.01, lambda _: client.disconnect() if leaves else pauses(), None)
    assert asks(world, "a", "b") == []
