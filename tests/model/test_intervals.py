"""Sets of doubles, and intervals of texts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gravitate.model.intervals import (
    ALL_NUMBERS,
    NO_NUMBERS,
    Numbers,
    above,
    below,
    interval,
    numbers_meet,
    numbers_overlap,
    numbers_within,
    points,
)
from gravitate.model.texts import after_prefix, common_prefix

NEXT = math.nextafter(5.0, 6.0)
CANDIDATES = [-math.inf, -1.0, 0.0, math.nextafter(5.0, 4.0), 5.0, NEXT, 7.0, math.inf]

candidates = st.sampled_from(CANDIDATES)
number_sets = st.one_of(
    st.frozensets(candidates, max_size=3).map(points),
    st.builds(interval, candidates, candidates, st.frozensets(candidates, max_size=2)),
    candidates.map(above),
    candidates.map(below),
    st.sampled_from((ALL_NUMBERS, NO_NUMBERS)),
)


def test_an_open_end_is_the_double_next_to_it() -> None:
    assert 5.0 not in above(5.0)
    assert NEXT in above(5.0)
    assert not above(math.inf)
    assert not below(-math.inf)
    assert interval(5.0, 5.0).points == frozenset((5.0,))
    assert interval(5.0, NEXT, frozenset((5.0,))).points == frozenset((NEXT,))
    assert not interval(math.inf, math.inf, frozenset((math.inf,)))
    assert not interval(2.0, 1.0)


@given(number_sets, number_sets, candidates)
def test_the_meet_holds_what_both_hold(a: Numbers, b: Numbers, number: float) -> None:
    assert (number in numbers_meet(a, b)) == (number in a and number in b)
    if number in a and number in b:
        assert numbers_overlap(a, b)


@given(number_sets, number_sets, candidates)
def test_a_part_holds_nothing_more(a: Numbers, b: Numbers, number: float) -> None:
    assert numbers_within(a, a)
    assert numbers_within(numbers_meet(a, b), a)
    if numbers_within(a, b) and number in a:
        assert number in b


short = st.text("a~\U0010ffff", max_size=4)


@given(short, short)
def test_the_texts_with_a_prefix_end_where_said(prefix: str, text: str) -> None:
    end = after_prefix(prefix)
    inside = text >= prefix and (end is None or text < end)
    assert inside == text.startswith(prefix)


@given(short, short, short)
def test_all_texts_of_an_interval_share_the_common_prefix(low: str, high: str, text: str) -> None:
    if low <= text < high:
        assert text.startswith(common_prefix(low, high))


def test_common_prefixes() -> None:
    assert common_prefix("ab", "ac") == "ab"
    assert common_prefix("abc", "abd") == "abc"
    assert common_prefix("ab", "b") == "a"
    assert common_prefix("ab", "ad") == "a"
    assert common_prefix("ab", None) == ""
