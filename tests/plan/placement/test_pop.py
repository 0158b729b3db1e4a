"""POP's request walks to the broker closest to most subscribers, by what each broker knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.overlay.shapes import balanced_tree, random_tree
from gravitate.overlay.tree import neighbours, reach
from gravitate.plan.flow.flow import rooted
from gravitate.plan.placement.placement import closest_brokers, network_of, profiles_of
from gravitate.plan.placement.pop import Hop, PopParameters, next_hop

Links = Sequence[tuple[int, int]]


def walk(links: Links, subscribers: Mapping[int, int], start: int) -> list[int]:
    """The way of a request, each broker knowing only what is downstream of it."""
    count = len(links) + 1
    near = neighbours(map(str, range(count)), [(str(one), str(other)) for one, other in links])

    def downstream(broker: str, towards: str) -> int:
        rest = {b: tuple(o for o in near[b] if {b, o} != {broker, towards}) for b in near}
        return sum(subscribers.get(int(found), 0) for found in reach(rest, towards))

    way = [str(start)]
    sender, behind = None, 0.0
    while True:
        here = way[-1]
        table = {other: downstream(here, other) for other in near[here] if other != sender}
        hop = next_hop(table, subscribers.get(int(here), 0), sender, behind)
        if hop is None:
            return [int(broker) for broker in way]
        assert hop.neighbour not in way
        way.append(hop.neighbour)
        sender, behind = here, hop.behind


def closest(links: Links, subscribers: Mapping[int, int], start: int) -> int:
    network = network_of(rooted(len(links) + 1, list(links)))
    ones = [1] * len(subscribers)
    profiles = profiles_of(
        [start], [0] * len(ones), list(subscribers), ones, ones, list(subscribers.values())
    )
    return int(closest_brokers(network, profiles)[0])


# Figure 1 of the paper: the publisher is at B1; B2 and B3, B4, and B5 to B8 lie around it.
PAPER_LINKS = [(1, 2), (2, 3), (1, 4), (1, 5), (5, 6), (6, 7), (6, 8)]
PAPER_SUBSCRIBERS = {1: 1, 2: 2, 3: 4, 4: 3, 6: 4, 7: 5, 8: 6}


def test_the_example_of_the_paper() -> None:
    at_b1 = next_hop({"B2": 6, "B4": 3, "B5": 15}, local=1)
    assert at_b1 == Hop("B5", behind=10)
    at_b5 = next_hop({"B6": 15}, local=0, sender="B1", behind=10)
    assert at_b5 == Hop("B6", behind=10)
    assert next_hop({"B7": 5, "B8": 6}, local=4, sender="B5", behind=10) is None


def test_the_walk_of_the_example_of_the_paper() -> None:
    links = [(0, 1), *PAPER_LINKS]
    assert walk(links, PAPER_SUBSCRIBERS, start=1) == [1, 5, 6]
    assert closest(links, PAPER_SUBSCRIBERS, start=1) == 6


def test_the_three_outcomes_of_a_selection() -> None:
    assert next_hop({"a": 9, "b": 4}, local=4) == Hop("a", behind=8)
    assert next_hop({"a": 5, "b": 4}, local=1, sender="c", behind=2) is None
    assert next_hop({"a": 1, "b": 1}, local=3) is None


def test_half_of_all_is_not_enough_but_a_lone_subscriber_is() -> None:
    assert next_hop({"a": 5}, local=5) is None
    assert next_hop({"a": 1}, local=0) == Hop("a", behind=0)
    assert next_hop({"a": 0.0}, local=0.0) is None
    assert next_hop({}, local=3) is None


def test_averages_are_added_without_an_error_that_could_decide() -> None:
    assert next_hop({"a": 1.0, **{f"b{i}": 0.1 for i in range(10)}}, local=0.0) is None


def test_a_request_never_goes_back_whatever_the_averages_say() -> None:
    assert next_hop({"back": 100, "on": 2}, local=1, sender="back", behind=50) is None
    assert next_hop({"back": 100, "on": 2}, local=1, sender="back", behind=0) == Hop("on", 1)


class Case:
    def __init__(self, draw: st.DrawFn) -> None:
        count = draw(st.integers(1, 12))
        self.links = [(draw(st.integers(0, index - 1)), index) for index in range(1, count)]
        wanted = st.dictionaries(st.integers(0, count - 1), st.integers(0, 6))
        self.subscribers = draw(wanted)
        self.start = draw(st.integers(0, count - 1))


cases = st.composite(Case)()


@given(cases)
def test_all_publishers_at_once_end_where_their_requests_would(case: Case) -> None:
    way = walk(case.links, case.subscribers, case.start)
    assert closest(case.links, case.subscribers, case.start) == way[-1]


@given(cases)
def test_the_request_ends_where_the_fewest_hops_are_made(case: Case) -> None:
    names = [str(broker) for broker in range(len(case.links) + 1)]
    near = neighbours(names, [(str(one), str(other)) for one, other in case.links])

    def hops(start: int) -> int:
        far = reach(near, str(start))
        return sum(count * far[str(broker)] for broker, count in case.subscribers.items())

    end = walk(case.links, case.subscribers, case.start)[-1]
    assert hops(end) == min(hops(broker) for broker in range(len(names)))


def test_a_publisher_among_its_subscribers_stays() -> None:
    links = balanced_tree(15)
    everywhere = dict.fromkeys(range(15), 1)
    assert closest(links, everywhere, start=0) == 0
    assert closest(links, {5: 3}, start=5) == 5
    assert closest(links, {}, start=7) == 7


def test_one_golden_seed() -> None:
    rng = np.random.default_rng(4)
    links = random_tree(200, seed=4)
    network = network_of(rooted(200, links))
    publisher = np.repeat(np.arange(8), 6)
    broker = rng.integers(0, 200, 48)
    subscribers = rng.integers(1, 9, 48)
    profiles = profiles_of(
        rng.integers(0, 200, 8), publisher, broker, publisher, subscribers, subscribers
    )
    assert closest_brokers(network, profiles).tolist() == [0, 0, 8, 1, 0, 0, 0, 8]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"traced_max": 0}, "traced_max 0"),
        ({"traces_min": 0}, "traces_min 0"),
        ({"window_s": 0.0}, "window 0.0 s"),
        ({"newest_weight": 1.5}, "weight 1.5"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        PopParameters(**change)


def test_the_defaults_are_those_of_the_paper() -> None:
    assert PopParameters() == PopParameters(
        traced_max=50, window_s=60.0, newest_weight=0.25, traces_min=100
    )
