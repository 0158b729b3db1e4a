"""Ways between clients, and when they were left alone."""

from __future__ import annotations

import pytest

from gravitate.torture.ledger import Disturbance
from gravitate.torture.ways import SEEN_S, Disturbances, Ways
from tests.torture.scenes import LINE, Story


def test_a_way_has_the_brokers_and_links_between_two_homes() -> None:
    way = Ways(LINE, Story().ledger).way("p", "s", 0.0, 10.0)
    assert way.direct == {"b01", "b02", "b03", ("b01", "b02"), ("b02", "b03")}
    assert way.whole == way.served == way.direct


def test_who_was_moved_makes_a_detour_over_a_second_broker() -> None:
    story = Story(home="b01", end="b01")
    story.ledger.seen("p", "b03", 5.0)
    way = Ways(LINE, story.ledger).way("p", "s", 4.0, 6.0)
    assert way.direct == {"b01"}
    assert way.whole == {"b01", "b02", "b03", ("b01", "b02"), ("b02", "b03"), ("b01", "b03")}
    assert way.served == {"b01", "b02", ("b01", "b02"), ("b02", "b03")}


@pytest.mark.parametrize(
    ("at", "is_there"),
    [(10.0 - SEEN_S - 0.1, False), (10.0 - SEEN_S, True), (20.0 + SEEN_S + 0.1, False)],
)
def test_a_sighting_tells_where_a_client_was_for_a_while(at: float, is_there: bool) -> None:
    story = Story()
    story.ledger.seen("s", "b04", at)
    assert ("b04" in Ways(LINE, story.ledger).places("s", 10.0, 20.0)) is is_there


def disturbances(*intervals: tuple[float, float]) -> Disturbances:
    return Disturbances([Disturbance("b01", "cut", *interval) for interval in intervals])


def test_disturbances_are_joined_and_kept_within_bounds() -> None:
    assert disturbances((5.0, 8.0), (1.0, 3.0), (2.0, 4.0)).within({"b01"}, 2.5, 6.0) == [
        (2.5, 4.0),
        (5.0, 6.0),
    ]
    assert disturbances((1.0, 3.0)).within({"b02"}, 0.0, 9.0) == []


def test_the_longest_free_time_lies_before_between_or_behind() -> None:
    assert disturbances((7.0, 8.0)).longest_free_s({"b01"}, 0.0, 10.0) == 7.0
    assert disturbances((1.0, 2.0), (8.0, 9.0)).longest_free_s({"b01"}, 0.0, 10.0) == 6.0
    assert disturbances((0.0, 4.0)).longest_free_s({"b01"}, 0.0, 10.0) == 6.0
    assert disturbances((0.0, 20.0)).longest_free_s({"b01"}, 0.0, 10.0) == 0.0


def test_the_first_time_of_freedom_is_all_behind_the_beginning() -> None:
    found = disturbances((1.0, 3.0), (4.0, 6.0))
    assert found.first_free({"b01"}, 0.0, 10.0, 1.0) == 1.0
    assert found.first_free({"b01"}, 0.5, 10.0, 1.0) == 4.0
    assert found.first_free({"b01"}, 0.5, 10.0, 2.0) == 8.0
    assert found.first_free({"b01"}, 0.5, 7.0, 2.0) is None


def test_disturbances_that_began_in_a_while_are_told_apart() -> None:
    found = disturbances((1.0, 3.0), (4.0, 6.0))
    assert found.begun({"b01", "b02"}, 0.5, 3.5) == [(1.0, 3.0)]
    assert found.longest_free_s({"b02"}, 0.0, 10.0, also=[(1.0, 3.0)]) == 7.0
