"""Publishers end up where they serve their audience best, and stay there."""

from __future__ import annotations

import msgspec
import pytest

from gravitate.config.script import CutLink, RestartBroker, Subscription
from tests.support.scenes import GRAPE_DELAY, GRAPE_LOAD, POP, Mechanisms, played, script

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("c", "f")]
"""a - b - c - d - e, and f beside c."""

ALL = pytest.mark.parametrize(
    "mechanisms", [GRAPE_DELAY, GRAPE_LOAD, POP], ids=["grape-delay", "grape-load", "pop"]
)


@ALL
def test_a_publisher_goes_to_its_only_audience(mechanisms: Mechanisms) -> None:
    _, watch = played(script(CHAIN, mechanisms, [("e", "x > 0")]))
    assert watch.done() == [("a", "e")]
    assert watch.published_at[-1] == "e"


@ALL
def test_a_move_costs_the_links_along_which_it_was_agreed(mechanisms: Mechanisms) -> None:
    _, watch = played(script(CHAIN, mechanisms, [("e", "x > 0")]))
    assert [(move.path, move.why.cost) for move, _ in watch.moves] == [(tuple("abcde"), 4.0)]


@ALL
def test_a_publisher_among_its_audience_stays(mechanisms: Mechanisms) -> None:
    _, watch = played(script(CHAIN, mechanisms, [("a", "x > 0"), ("a", "x > 0"), ("e", "x > 0")]))
    assert watch.moves == []
    assert sum(watch.sent.values()) > 0


@ALL
def test_without_an_audience_nobody_moves(mechanisms: Mechanisms) -> None:
    _, watch = played(script(CHAIN, mechanisms, [("e", "x > 5")]))
    assert watch.moves == []


def test_load_is_lowest_at_the_subscriber_of_everything() -> None:
    """Many want a little at one end, one wants everything at the other."""
    few = [("a", "x = 0")] * 12
    scene = script(
        CHAIN,
        GRAPE_LOAD,
        [*few, ("e", "x >= 0")],
        value=lambda number: float(number % 10),
        publisher_at="c",
    )
    _, watch = played(scene)
    assert watch.done() == [("c", "e")]


def test_delay_is_lowest_where_most_deliveries_are() -> None:
    few = [("a", "x = 0")] * 12
    scene = script(
        CHAIN,
        GRAPE_DELAY,
        [*few, ("e", "x >= 0")],
        value=lambda number: float(number % 10),
        publisher_at="c",
    )
    _, watch = played(scene)
    assert watch.done() == [("c", "a")]


@ALL
def test_between_two_equally_good_brokers_there_is_at_most_one_move(
    mechanisms: Mechanisms,
) -> None:
    scene = script(
        CHAIN, mechanisms, [("e", "x > 0"), ("f", "x > 0")], publications=400, every_s=0.5
    )
    _, watch = played(scene)
    assert len(watch.done()) <= 1
    assert sum(watch.sent.values()) > 0


@ALL
@pytest.mark.parametrize("period", [10, 15, 40])
def test_traffic_that_alternates_makes_at_most_one_move(
    mechanisms: Mechanisms, period: int
) -> None:
    """The audience is now at one end, now at the other, in step with sessions or not."""
    scene = script(
        CHAIN,
        mechanisms,
        [("a", "x = 0"), ("e", "x = 1")],
        publications=300,
        value=lambda number: float(number // period % 2),
        publisher_at="c",
    )
    _, watch = played(scene)
    assert len(watch.done()) <= 1
    assert sum(watch.sent.values()) > 0


@ALL
def test_links_and_brokers_that_fail_hold_up_nobody(mechanisms: Mechanisms) -> None:
    faults = (
        CutLink(at_s=6.55, for_s=1.0, between=("c", "d")),
        RestartBroker(at_s=9.0, for_s=0.5, broker="c"),
        CutLink(at_s=10.05, for_s=3.0, between=("b", "c")),
    )
    scene = script(CHAIN, mechanisms, [("e", "x > 0")], publications=300, faults=faults)
    _, watch = played(scene)
    assert watch.published_at[-1] == "e"


@ALL
def test_a_publisher_that_subscribes_moves_as_well(mechanisms: Mechanisms) -> None:
    scene = script(CHAIN, mechanisms, [("e", "x > 0"), ("e", "x > 0")])
    publisher = msgspec.structs.replace(
        scene.clients[0], subscriptions=(Subscription("#", "x > 5"),)
    )
    scene = msgspec.structs.replace(scene, clients=(publisher, *scene.clients[1:]))
    _, watch = played(scene)
    assert watch.published_at[-1] == "e"
