"""Tables are asked, not scanned: work grows with what is concerned, not with what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gravitate.broker.core import Broker
from gravitate.broker.interface.inputs import (
    ClientAdvertised,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
)
from gravitate.matching.candidates import Candidates
from gravitate.model import covering
from gravitate.model.events import Event, PlainBodies
from gravitate.model.fixed import Path
from gravitate.model.topics import topic_filter
from gravitate.simulate.checkers.leaks import held
from tests.support.wired import Wired, at

Compared = Callable[[], int]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """How many conjunctions have been compared since it was last asked."""
    count = 0

    def counting(name: str) -> None:
        compare = getattr(covering, name)

        def counted(*pair: object) -> bool:
            nonlocal count
            count += 1
            return bool(compare(*pair))

        monkeypatch.setattr(covering, name, counted)

    def since() -> int:
        nonlocal count
        before, count = count, 0
        return before

    counting("conjunctions_overlap")
    counting("conjunction_within")
    return since


def scene(size: int) -> Wired:
    """A publisher of `size` topics at `a`, and as many filters, one a topic, at `b`."""
    wired = Wired([("a", "b")])
    wired.tell("b", ClientConnected(at("sub"), "sub", 1), *(subscribed(n) for n in range(size)))
    wired.tell("a", ClientConnected(at("pub"), "pub", 1), *(advertised(n) for n in range(size)))
    assert len(wired.table("a")) == size
    return wired


def subscribed(number: int) -> ClientSubscribed:
    return ClientSubscribed(at("sub"), f"s{number}", topic_filter(f"t/{number}"), 1)


def advertised(number: int) -> ClientAdvertised:
    return ClientAdvertised(at("pub"), f"a{number}", topic_filter(f"t/{number}"))


def test_the_end_of_an_advertisement_looks_at_the_filters_it_concerns(compared: Compared) -> None:
    wired = scene(200)
    compared()
    wired.tell("a", ClientDisconnected(at("pub")))
    wired.pass_time(1.0)
    assert wired.table("a") == {}
    assert compared() <= 10 * 200


def test_so_do_subscribing_advertising_and_unsubscribing(compared: Compared) -> None:
    wired = scene(200)
    compared()
    wired.tell("b", subscribed(1000), subscribed(1001))
    wired.tell("a", advertised(1000), advertised(1001))
    wired.tell("b", ClientUnsubscribed(at("sub"), "s1000"), ClientUnsubscribed(at("sub"), "s7"))
    assert len(wired.table("a")) == 200
    assert compared() <= 40


def test_a_wide_filter_that_comes_and_goes_costs_what_it_covers(compared: Compared) -> None:
    wired = scene(50)
    compared()
    wired.tell("b", ClientSubscribed(at("sub"), "all", topic_filter("t/#"), 1))
    assert len(wired.table("a")) == 1
    wired.tell("b", ClientUnsubscribed(at("sub"), "all"))
    assert len(wired.table("a")) == 50
    assert compared() <= 20 * 50


@pytest.mark.parametrize("neighbours", [{}, {"never-up": True}])
def test_of_subscriptions_that_come_and_go_nothing_stays(neighbours: dict[str, bool]) -> None:
    """Neither on a lone broker, where they settle at once, nor where a neighbour never answers."""
    broker = Broker("b", 1, neighbours)
    broker.start(0.0)
    for round in range(20):
        broker.handle([ClientConnected(at("sub"), "sub", round + 1)], 0.0)
        broker.handle([subscribed(n) for n in range(5)], 0.0)
        broker.handle([ClientDisconnected(at("sub"))], 0.0)
    assert not broker.router.table.subscriptions
    assert sum("Request" in found or "settling" in found for found in held(broker)) == 0


def test_publishing_on_topics_among_many_advertised_looks_at_few(compared: Compared) -> None:
    wired = scene(200)
    compared()
    topics = [Event({"topic": f"t/{number}"}) for number in range(200)]
    wired.tell("a", ClientPublished(at("pub"), PlainBodies(topics), 1))
    assert len(wired.delivered("b", "sub")) == 200
    assert compared() <= 5 * 200


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """How many places of an index have been looked at since it was last asked."""
    count = 0
    levels = Candidates._levels

    def counted(self: Candidates, path: Path) -> Iterator[object]:
        nonlocal count
        for level in levels(self, path):
            count += 1
            yield level

    def since() -> int:
        nonlocal count
        before, count = count, 0
        return before

    monkeypatch.setattr(Candidates, "_levels", counted)
    return since


def test_a_publisher_that_leaves_looks_little_for_who_wants_everything(visited: Compared) -> None:
    wired = Wired([("a", "b")])
    wired.tell(
        "b",
        ClientConnected(at("sub"), "sub", 1),
        ClientSubscribed(at("sub"), "s", topic_filter("#"), 1),
    )
    wired.tell("a", ClientConnected(at("pub"), "pub", 1), *(advertised(n) for n in range(500)))
    visited()
    wired.disconnect("a", "pub")
    wired.pass_time(1.0)
    assert not wired.brokers["b"].router.table.advertisements
    assert visited() < 5 * 500
