"""How far any two brokers of a network are apart."""

from __future__ import annotations

import pytest

from gravitate.config.distances import distance_ms, distances_ms, ways_ms
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.errors import InputError

LINKS = (LinkSpec(("a", "b"), 3.0), LinkSpec(("b", "c"), 4.0))
PLAIN = Network("plain", tuple(map(BrokerSpec, "abc")), LINKS)
PLACED = Network(
    "placed",
    (
        BrokerSpec("a", coordinates=(0.0, 0.0)),
        BrokerSpec("b", coordinates=(9.0, 9.0)),
        BrokerSpec("c", coordinates=(3.0, 4.0)),
    ),
    LINKS,
)


def test_neighbours_are_as_far_apart_as_their_link_says() -> None:
    assert distance_ms(PLAIN, "b", "a") == 3.0
    assert distance_ms(PLACED, "a", "b") == 3.0


def test_others_are_as_far_apart_as_their_coordinates() -> None:
    assert distance_ms(PLACED, "a", "c") == 5.0


def test_without_coordinates_the_way_between_them_counts() -> None:
    assert distance_ms(PLAIN, "a", "c") == 7.0
    assert distance_ms(PLAIN, "a", "a") == 0.0


def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="'x'"):
        distance_ms(PLAIN, "a", "x")


def test_ways_follow_the_links_and_take_the_shortest() -> None:
    assert ways_ms(PLACED, "a") == {"a": 0.0, "b": 3.0, "c": 7.0}
    ring = Network("ring", tuple(map(BrokerSpec, "abcd")), (*LINKS, LinkSpec(("c", "a"), 1.0)))
    assert ways_ms(ring, "b") == {"b": 0.0, "a": 3.0, "c": 4.0}
    assert ways_ms(ring, "c") == {"c": 0.0, "a": 1.0, "b": 4.0}


@pytest.mark.parametrize("network", [PLAIN, PLACED])
def test_all_distances_of_a_broker_are_those_of_each_pair(network: Network) -> None:
    for one in "abc":
        assert distances_ms(network, one) == {o: distance_ms(network, one, o) for o in "abc"}


def test_a_broker_without_a_way_has_no_distance() -> None:
    apart = Network("apart", tuple(map(BrokerSpec, "abcd")), LINKS)
    assert distances_ms(apart, "d") == {"d": 0.0}
    with pytest.raises(InputError, match="no way leads from 'a' to 'd'"):
        distance_ms(apart, "a", "d")
