"""What a client leaves behind ends in portions, and nobody notices."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from gravitate.broker.interface.effects import SetTimer, Stopped
from gravitate.broker.interface.inputs import (
    ClientAdvertised,
    ClientConnected,
    ClientDisconnected,
    ClientSubscribed,
    ClientUnsubscribed,
    StopRequested,
    TimerFired,
)
from gravitate.broker.interface.timers import ChoresLeft
from gravitate.model.language import parse
from gravitate.simulate.checkers.leaks import held
from tests.support.wired import QUIET, Wired, at

MANY = 100
PORTION = 10


@pytest.fixture
def wired() -> Wired:
    """A client at `c` with many subscriptions, and one with many advertisements at `a`."""
    wired = Wired([("a", "b"), ("b", "c")], msgspec.structs.replace(QUIET, portion_max=PORTION))
    wired.connect("a", "pub", counts=True)
    wired.tell("a", *(ClientAdvertised(at("pub"), f"a{n}", parse(f"x = {n}")) for n in range(MANY)))
    wired.connect("c", "sub")
    wired.tell("c", *subscriptions("sub"))
    return wired


def subscriptions(client: str) -> list[ClientSubscribed]:
    return [ClientSubscribed(at(client), f"s{n}", parse(f"x = {n}"), 1) for n in range(MANY)]


def leave(wired: Wired, name: str, client: str) -> list[int]:
    """A client leaves: how many entries each step of its broker takes out of its table."""
    broker, sizes = wired.brokers[name], [len(wired.brokers[name].router.table.subscriptions)]
    effects = broker.handle([ClientDisconnected(at(client))], wired.now)
    sizes.append(len(broker.router.table.subscriptions))
    while SetTimer(ChoresLeft(), wired.now) in effects:
        effects = broker.handle([TimerFired(ChoresLeft(), wired.now)], wired.now)
        sizes.append(len(broker.router.table.subscriptions))
    return [before - after for before, after in pairwise(sizes) if before > after]


def test_subscriptions_end_so_many_a_step(wired: Wired) -> None:
    assert leave(wired, "c", "sub") == [PORTION] * (MANY // PORTION)


def test_unsubscribing_is_never_put_off(wired: Wired) -> None:
    wired.tell("c", *(ClientUnsubscribed(at("sub"), f"s{n}") for n in range(MANY)))
    assert wired.table("a") == wired.table("c") == {}


def test_nothing_is_delivered_for_what_is_still_to_end(wired: Wired) -> None:
    wired.connect("c", "other")
    wired.subscribe("c", "other", "x >= 0")
    wired.brokers["c"].handle([ClientDisconnected(at("sub"))], wired.now)
    wired.publish("a", "pub", {"x": MANY - 1})
    assert wired.delivered("c", "sub") == []
    assert wired.delivered("c", "other") == [("pub", 1)]


def test_one_that_comes_back_at_once_is_served_by_what_it_asks_for_anew(wired: Wired) -> None:
    wired.brokers["c"].handle([ClientDisconnected(at("sub"))], wired.now)
    wired.tell("c", ClientConnected(at("sub"), "sub", 1), *subscriptions("sub"))
    wired.pass_time(1.0)
    assert len(wired.table("a")) == len(wired.table("c")) == MANY
    wired.publish("a", "pub", {"x": 0}, {"x": MANY - 1})
    assert wired.delivered("c", "sub") == [("pub", 1), ("pub", 2)]


def test_a_publisher_that_comes_back_at_once_takes_what_has_not_ended_along(wired: Wired) -> None:
    wired.brokers["a"].handle([ClientDisconnected(at("pub"))], wired.now)
    wired.tell("a", ClientConnected(at("pub"), "pub", 1, counts=True, attachment=1))
    wired.tell("a", *(ClientAdvertised(at("pub"), f"a{n}", parse(f"x = {n}")) for n in range(MANY)))
    wired.pass_time(1.0)
    assert len(wired.brokers["c"].router.table.advertisements) == MANY
    wired.publish("a", "pub", {"x": MANY - 1})
    assert wired.delivered("c", "sub") == [("pub", 1)]


def test_when_all_is_done_nothing_is_left(wired: Wired) -> None:
    wired.tell("c", ClientDisconnected(at("sub")))
    wired.tell("a", ClientDisconnected(at("pub")))
    wired.pass_time(1.0)
    for broker in wired.brokers.values():
        assert list(held(broker)) == []


def test_a_broker_that_stops_finishes_its_chores_first(wired: Wired) -> None:
    wired.tell("c", StopRequested())
    wired.pass_time(1.0)
    assert Stopped() in wired.effects["c"]
    assert wired.table("a") == {}
