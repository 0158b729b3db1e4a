"""What brokers promise, each in the smallest world in which it was once broken."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gravitate.broker.core import Broker
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.model.events import Event
from gravitate.model.filters import Filter
from gravitate.model.language import parse
from gravitate.overlay.topology import Neighbourhood
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.oracle import ScanOracle
from gravitate.simulate.checkers.tables import check_tables
from gravitate.simulate.checkers.violations import Violations
from gravitate.simulate.clients import Client
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.run import broker_factory, settle
from gravitate.simulate.world import World

ALL = parse("topic IS NOT NULL")


class Line:
    """Brokers `a`, `b`, `c`, ... in a line, 10 ms apart, and their clients."""

    def __init__(self, brokers: str = "abc", service: ServiceModel | None = None) -> None:
        network = Network(
            name="line",
            brokers=tuple(BrokerSpec(name) for name in brokers),
            links=tuple(LinkSpec(pair, 10.0) for pair in pairwise(brokers)),
        )
        self.violations = Violations()
        self.checker = DeliveryChecker(self.violations, ScanOracle())
        self.world = World(
            network, broker_factory(network), service=service, observers=(self.checker,)
        )
        self.world.start()
        settle(self.world)

    def client(self, name: str, broker: str, **options: object) -> Client:
        client = Client(self.world, name, broker, **options)  # type: ignore[arg-type]
        client.connect()
        return client

    def subscriber(self, name: str, broker: str, filter: Filter = ALL) -> Client:
        client = self.client(name, broker)
        client.subscribe("s", filter, qos=1)
        return client

    def run_for(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def broker(self, name: str) -> Broker:
        broker = self.world.hosts[name].broker
        assert isinstance(broker, Broker)
        return broker

    def rest(self) -> None:
        """Come to rest, and find everything in its place."""
        settle(self.world)
        self.checker.check_quiet(self.world.now)
        assert not self.violations, self.violations.sentences
        assert check_tables(self.world) == []


def event(number: int = 1, topic: str = "t") -> Event:
    return Event({"topic": topic, "x": number})


def test_brokers_that_differ_about_the_tree_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    line.rest()
    told = {"a": ("b",), "b": ("a", "c"), "c": ()}
    monkeypatch.setattr(Broker, "neighbours", lambda self: Neighbourhood(0, told[self.broker_id]))
    (found,) = check_tables(line.world)
    assert "('b', 'c')" in found


def test_what_was_published_before_its_advertisement_ended_still_arrives() -> None:
    line = Line()
    subscriber = line.subscriber("s", "c")
    line.rest()
    publisher = line.client("p", "a")
    publisher.advertise("t", parse("topic = 't'"))
    publisher.publish([event()], qos=1)
    publisher.unadvertise("t")
    line.rest()
    assert subscriber.received == 1


def test_what_was_published_under_an_advertisement_that_changed_still_arrives() -> None:
    line = Line()
    subscriber = line.subscriber("s", "c")
    line.rest()
    publisher = line.client("p", "a")
    publisher.advertise("t", parse("topic = 't'"))
    publisher.publish([event()], qos=1)
    publisher.advertise("t", parse("topic = 'u'"))
    line.rest()
    assert subscriber.received == 1


@pytest.mark.parametrize("service", [None, ServiceModel(batch_s=0.02)])
def test_a_publisher_that_left_while_the_next_broker_was_down_is_still_heard(
    service: ServiceModel | None,
) -> None:
    line = Line("abcd", service)
    subscriber = line.subscriber("s", "d")
    line.rest()
    line.world.hosts["b"].stop()
    line.run_for(0.5)
    publisher = line.client("p", "a")
    publisher.publish([event()], qos=1)
    line.run_for(0.5)
    publisher.disconnect()
    line.run_for(0.1)
    line.world.hosts["b"].start()
    line.rest()
    assert subscriber.received == 1


def test_a_subscription_that_is_on_its_way_gets_no_scattered_events() -> None:
    """Every second event comes to d for somebody else there. The newcomer may have none of them
    before its subscription is known at the publisher's broker, or it would miss the others."""
    line = Line("abcd")
    line.subscriber("even", "d", parse("x IN (2, 4, 6, 8, 10, 12, 14)"))
    publisher = line.client("p", "a")
    publisher.advertise("t", ALL)
    line.rest()
    line.world.delay("a", "b", 0.1)
    newcomer = line.subscriber("new", "d")
    for number in range(1, 15):
        publisher.publish([event(number)], qos=1)
        line.run_for(0.03)
    line.rest()
    assert newcomer.received > 0


def test_a_session_that_ended_is_told_nothing_more() -> None:
    line = Line()
    publisher = line.client("p", "a")
    publisher.advertise("t", ALL)
    line.rest()
    line.world.cut("b", "c")
    line.run_for(0.1)
    first = line.subscriber("s", "c")
    line.run_for(0.1)
    first.connect()
    line.run_for(0.1)
    line.world.heal("b", "c")
    line.rest()
    assert first.connection is not None
    assert first.connection.settled == {"s"}


def test_a_covered_subscription_settles_no_sooner_than_what_covers_it() -> None:
    """After a restart both wait for the neighbour's advertisements; one stands for the other."""
    line = Line("abcd")
    publisher = line.client("p", "a")
    publisher.advertise("t", ALL)
    line.rest()
    line.world.hosts["d"].stop()
    line.run_for(0.5)
    line.world.hosts["d"].start()
    subscriber = line.subscriber("s", "d", parse("x > 0"))
    subscriber.subscribe("narrow", parse("x > 5"), qos=1)
    while subscriber.connection is None or "narrow" not in subscriber.connection.settled:
        line.run_for(0.005)
    publisher.publish([event(7)], qos=1)
    line.rest()
    assert subscriber.received == 1


def test_equal_filters_written_differently_leave_the_smaller_id_told() -> None:
    line = Line("ab")
    publisher = line.client("p", "a")
    publisher.advertise("t", ALL)
    line.subscriber("z", "b", parse("x >= 3 AND x <= 3"))
    line.rest()
    line.subscriber("y", "b", parse("x = 3"))
    line.rest()
    told = [entry.id for entry in line.broker("a").router.table.subscriptions.values()]
    assert [id.split("#")[0] for id in told] == ["y"]


def test_a_client_that_counts_is_not_heard_twice_when_its_broker_restarts() -> None:
    line = Line()
    subscriber = line.subscriber("s", "c")
    publisher = line.client("p", "a", latency_s=0.05)
    publisher.advertise("t", ALL)
    line.rest()
    for number in range(1, 30):
        publisher.publish([event(number)], qos=1)
        if number in (10, 20):
            publisher.connect()
        if number == 15:
            line.world.hosts["a"].stop()
        line.run_for(0.01)
        line.world.hosts["a"].start()
    line.rest()
    assert subscriber.received == 29
    assert not publisher.unfinished()
