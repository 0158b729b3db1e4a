"""Damping of one publisher: agreement of selections, and pauses."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.adapt.damping import NO_PAST, Damping, DampingParameters, Past, common_start
from gravitate.errors import InputError

DEFAULTS = DampingParameters(confirmations=2, pause_s=60.0)
STAY = ("a",)


def fresh() -> Damping:
    return Damping(DEFAULTS, NO_PAST, 0.0)


def test_two_selections_in_a_row_must_agree() -> None:
    damping = fresh()
    assert damping.selected(("a", "b", "c"), 0.0) == ()
    assert damping.selected(("a", "b", "c"), 1.0) == ("a", "b", "c")


def test_a_selection_to_stay_begins_anew() -> None:
    damping = fresh()
    damping.selected(("a", "b"), 0.0)
    assert damping.selected(STAY, 1.0) == ()
    assert damping.selected(("a", "b"), 2.0) == ()


def test_different_targets_lead_to_where_their_paths_part() -> None:
    damping = fresh()
    damping.selected(("a", "b", "c", "d"), 0.0)
    assert damping.selected(("a", "b", "e"), 1.0) == ("a", "b")


def test_opposite_targets_lead_nowhere() -> None:
    damping = fresh()
    for turn in range(10):
        assert damping.selected(("a", "b") if turn % 2 else ("a", "c"), float(turn)) == ()


def test_who_has_just_come_is_left_alone() -> None:
    damping = Damping(DEFAULTS, Past(("b",), 60.0), 100.0)
    assert damping.is_resting(159.0)
    damping.selected(("a", "c"), 110.0)
    assert damping.selected(("a", "c"), 120.0) == ()
    assert not damping.is_resting(160.0)
    assert damping.selected(("a", "c"), 160.0) == ("a", "c")


def test_after_a_failed_move_there_is_a_pause_and_agreement_is_needed_again() -> None:
    damping = fresh()
    damping.selected(("a", "b"), 0.0)
    damping.selected(("a", "b"), 0.0)
    damping.failed(10.0)
    assert damping.is_resting(69.0)
    assert damping.selected(("a", "b"), 80.0) == ()
    assert damping.selected(("a", "b"), 90.0) == ("a", "b")


def test_each_return_doubles_the_pause() -> None:
    past = NO_PAST
    pauses = []
    brokers = ["a", "b"] * 4
    for source, target in pairwise(brokers):
        past = Damping(DEFAULTS, past, 0.0).left(source, target)
        pauses.append(past.pause_s)
    assert pauses == [60.0, 120.0, 120.0, 240.0, 240.0, 480.0, 480.0]


def test_the_past_has_a_bound() -> None:
    past = NO_PAST
    for turn in range(1000):
        past = Damping(DEFAULTS, past, 0.0).left(f"b{turn % 2}", f"b{1 - turn % 2}")
    assert len(past.visited) <= 16
    assert past.pause_s <= 60.0 * 2**10


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_what_paths_have_in_common(one: list[str], other: list[str]) -> None:
    start = common_start(tuple(one), tuple(other))
    length = len(start)
    assert tuple(one[:length]) == start == tuple(other[:length])
    assert length == min(len(one), len(other)) or one[length] != other[length]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"confirmations": 0}, "0 confirmations"),
        ({"pause_s": -1.0}, "pause of -1.0 s"),
        ({"pause_s": float("nan")}, "pause of nan s"),
    ],
)
def test_nonsense_is_refused(given: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        DampingParameters(**given)  # type: ignore[arg-type]
