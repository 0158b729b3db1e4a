"""Covering and intersection: golden pairs, and the laws that routing tables rest on."""

from __future__ import annotations

from itertools import chain, starmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.pools import pool_of_filters, pool_of_values
from tests.support.strategies import (
    conjunctions,
    events,
    filters,
    raw_filters,
    single_attribute_filters,
)

from gravitate.model.canonical import any_of, checked, conjoin
from gravitate.model.covering import covers, intersects, is_empty
from gravitate.model.events import Attributes
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Predicate
from gravitate.model.language import parse, render
from gravitate.model.regions import conjunction_within, conjunctions_overlap, filter_regions
from gravitate.model.semantics import compile_filter, matches

COVERING = [
    ("x > 5", "x > 6"),
    ("x > 5", "x = '10'"),
    ("x > 5", "x IN (6, '7', '8.5')"),
    ("x > 5", "x BETWEEN 6 AND 7"),
    ("x >= 5", "x > 5"),
    ("x = 10", "x = '1e1'"),
    ("x IN (1, 2, 'a')", "x IN (2, 'a')"),
    ("x IN (1, 'a')", "x = '1.0'"),
    ("x <> 5", "x > 5"),
    ("x <> 5", "x = 'abc'"),
    ("x <> 5", "x LIKE 'abc%'"),
    ("x <> 'abc'", "x > 5"),
    ("x <> 'abc'", "x LIKE 'b%'"),
    ("x NOT IN (1, 2)", "x NOT IN (1, 2, 3)"),
    ("x IS NOT NULL", "x <> 5"),
    ("x IS NOT NULL", "x = TRUE"),
    ("x = TRUE", "x = 'true'"),
    ("x <> TRUE", "x = FALSE"),
    ("x LIKE 'a%'", "x LIKE 'ab%'"),
    ("x LIKE 'a%'", "x LIKE 'a%b'"),
    ("x LIKE 'a%'", "x BETWEEN 'ab' AND 'ac'"),
    ("x LIKE '%b%'", "x LIKE '%ab'"),
    ("x LIKE '%b%'", "x LIKE 'abc%'"),
    ("x LIKE '%b'", "x = 'ab'"),
    ("x LIKE '_%'", "x LIKE 'a%'"),
    ("x >= 'a'", "x LIKE 'b%'"),
    ("x < 'b'", "x <= 'a'"),
    ("x NOT LIKE 'a%'", "x > 5"),
    ("x NOT LIKE 'ab%'", "x NOT LIKE 'a%'"),
    ("x NOT LIKE 'ab%'", "x LIKE 'b%'"),
    ("topic MATCHES '#'", "topic MATCHES 'a/+'"),
    ("topic MATCHES 'a/#'", "topic MATCHES 'a/+/c'"),
    ("topic MATCHES 'a/#'", "topic = 'a'"),
    ("topic MATCHES 'a/#'", "topic LIKE 'a/b%'"),
    ("topic MATCHES 'a/+/#'", "topic MATCHES 'a/b/#'"),
    ("topic LIKE 'a/%'", "topic MATCHES 'a/+'"),
    ("topic NOT MATCHES 'a/b/#'", "topic NOT MATCHES 'a/#'"),
    ("x IS NULL", "x IS NULL AND y = 1"),
    ("TRUE", "x = 1"),
    ("x = 1", "FALSE"),
    ("x = 1", "x > 5 AND x < 3"),
    ("x > 1 OR y > 1", "x > 2 AND z = 1 OR y > 5"),
]
NOT_COVERING = [
    ("x > 6", "x > 5"),
    ("x = '10'", "x = 10"),
    ("x > 5", "x > '5'"),
    ("x > 5", "x <> 5"),
    ("x <> 5", "x <> '5'"),
    ("x IS NOT NULL", "y = 1"),
    ("x = 1 AND y = 1", "x = 1"),
    ("x IS NULL", "y = 1"),
    ("x = TRUE", "x = 1"),
    ("x <= 1e999", "x NOT LIKE '%' AND x NOT IN (TRUE, FALSE)"),
    ("topic MATCHES '#'", "topic IS NOT NULL"),
    ("topic MATCHES '#'", "topic MATCHES '$SYS/#'"),
    ("topic MATCHES 'a/+'", "topic MATCHES 'a/#'"),
    ("topic MATCHES 'a/#'", "topic LIKE 'a%'"),
    ("x LIKE 'a%'", "x >= 'a'"),
    ("x > 1", "x > 2 OR y > 2"),
]
INTERSECTING = [
    ("x > 5", "x < 6"),
    ("x > 5", "y < 3"),
    ("x > 5", "x = '10'"),
    ("x > 5", "x LIKE '1%'"),
    ("x > '5'", "x < 5"),
    ("x <> 5", "x = '5' OR x = 6"),
    ("x LIKE '%a'", "x LIKE 'b%'"),
    ("topic MATCHES 'a/+'", "topic MATCHES '+/b'"),
    ("topic MATCHES 'a/#'", "topic LIKE '%/c'"),
    ("x IS NULL", "y = 1"),
    ("x = 1 AND y IS NULL", "x = 1 AND z = 5"),
    ("x = 10", "x IN ('1e1')"),
]
DISJOINT = [
    ("x > 5", "x < 5"),
    ("x >= 5", "x < 5"),
    ("x > 5", "x = 'abc'"),
    ("x > 5", "x = '3'"),
    ("x > 5", "x = TRUE"),
    ("x > 5", "x LIKE 'a%'"),
    ("x = 5", "x <> 5"),
    ("x = '10'", "x = '10.0'"),
    ("x = 'a'", "x = 'b' AND y = 1"),
    ("x IN (1, 2)", "x IN (3, 'a')"),
    ("x IS NULL", "x <> 5"),
    ("x IS NULL", "x IS NOT NULL"),
    ("x LIKE 'a%'", "x LIKE 'b%'"),
    ("x LIKE '%a'", "x LIKE '%b'"),
    ("x LIKE 'ab%'", "x NOT LIKE 'a%'"),
    ("x > 'b'", "x LIKE 'a%'"),
    ("topic MATCHES 'a/+'", "topic MATCHES 'a/b/+'"),
    ("topic MATCHES 'a/#'", "topic MATCHES '+/b' AND topic LIKE 'c%'"),
    ("topic MATCHES '#'", "topic = '$SYS/x'"),
    ("topic MATCHES 'a/b/#'", "topic NOT MATCHES 'a/#'"),
    ("TRUE", "FALSE"),
    ("TRUE", "x > 5 AND x < 3"),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERING)
def test_covering_pairs(wide: str, narrow: str) -> None:
    assert covers(parse(wide), parse(narrow))
    assert is_empty(parse(narrow)) or intersects(parse(wide), parse(narrow))


@pytest.mark.parametrize(("wide", "narrow"), NOT_COVERING)
def test_pairs_that_do_not_cover(wide: str, narrow: str) -> None:
    assert not covers(parse(wide), parse(narrow))


@pytest.mark.parametrize(("f", "g"), INTERSECTING)
def test_intersecting_pairs(f: str, g: str) -> None:
    assert intersects(parse(f), parse(g))
    assert intersects(parse(g), parse(f))


@pytest.mark.parametrize(("f", "g"), DISJOINT)
def test_disjoint_pairs(f: str, g: str) -> None:
    assert not intersects(parse(f), parse(g))
    assert not intersects(parse(g), parse(f))


def equivalent(f: Filter, g: Filter) -> bool:
    return covers(f, g) and covers(g, f)


def test_equivalent_filters_cover_each_other() -> None:
    assert equivalent(parse("x >= 'a' AND x <= 'a'"), parse("x = 'a'"))
    assert equivalent(parse("topic MATCHES '#'"), parse("topic MATCHES '+/#'"))
    assert not equivalent(parse("x > 1"), parse("x > 2"))


def test_everything_covers_and_nothing_is_covered() -> None:
    assert covers(EVERYTHING, NOTHING)
    assert not covers(NOTHING, EVERYTHING)
    assert covers(NOTHING, parse("x < ''"))
    assert is_empty(NOTHING)
    assert not is_empty(EVERYTHING)


@pytest.mark.parametrize("seed", range(6))
def test_all_laws_hold_in_a_pool_compared_all_with_all(seed: int) -> None:
    pool, values = pool_of_filters(seed, 200), pool_of_values(seed)
    tests = [compile_filter(f) for f in pool]
    matched = np.array([[t({} if v is None else {"x": v}) for v in values] for t in tests])
    covering = np.array([[covers(wide, narrow) for narrow in pool] for wide in pool])
    meeting = np.array([[intersects(f, g) for g in pool] for f in pool])

    def named(pairs: np.ndarray) -> list[tuple[str, ...]]:
        return [tuple(render(pool[i]) for i in pair) for pair in np.argwhere(pairs)[:3]]

    counts = matched.astype(np.int32)
    exceeds = (1 - counts) @ counts.T > 0
    assert covering.diagonal().all()
    assert not named(covering & exceeds), "covers without covering"
    assert not named(~meeting & (counts @ counts.T > 0)), "said to be disjoint, both match"
    assert not named(meeting != meeting.T), "intersection is symmetric"
    steps = covering.astype(np.int32)
    assert not named((steps @ steps > 0) & ~covering), "covering is transitive"


@given(raw_filters, raw_filters, events)
def test_covering_and_intersection_are_sound(f: Filter, g: Filter, event: Attributes) -> None:
    if covers(f, g):
        assert matches(f, event) or not matches(g, event)
    if matches(f, event) and matches(g, event):
        assert intersects(f, g)


@settings(max_examples=200)
@given(single_attribute_filters, single_attribute_filters, single_attribute_filters)
def test_covering_is_transitive(f: Filter, g: Filter, h: Filter) -> None:
    for wide, middle, narrow in (
        (f, g, h),
        (any_of(f.conjunctions + g.conjunctions), f, conjoin(f, h)),
        (g, conjoin(f, g), conjoin(conjoin(f, g), h)),
    ):
        if covers(wide, middle) and covers(middle, narrow):
            assert covers(wide, narrow)


@given(filters, filters)
def test_a_filter_covers_its_conjunctions_and_is_covered_by_its_disjunctions(
    f: Filter, g: Filter
) -> None:
    assert covers(f, f)
    assert covers(f, conjoin(f, g))
    assert covers(any_of(f.conjunctions + g.conjunctions), f)


@given(raw_filters)
def test_a_filter_as_written_and_its_canonical_form_cover_each_other(f: Filter) -> None:
    assert equivalent(f, checked(f))


@given(filters, filters)
def test_what_is_covered_intersects_unless_it_is_empty(f: Filter, g: Filter) -> None:
    if covers(f, g) and not is_empty(g):
        assert intersects(f, g)


@given(st.lists(conjunctions, max_size=12), st.lists(conjunctions, max_size=12))
def test_many_alternatives_are_compared_as_pair_by_pair(
    f: list[list[Predicate]], g: list[list[Predicate]]
) -> None:
    wide, narrow = (Filter(tuple(map(tuple, found))) for found in (f, g))
    wides, narrows = filter_regions(wide), filter_regions(narrow)
    pairs = [[(part, whole) for whole in wides] for part in narrows]
    assert covers(wide, narrow) == all(any(starmap(conjunction_within, row)) for row in pairs)
    overlapping = any(starmap(conjunctions_overlap, chain.from_iterable(pairs)))
    assert intersects(wide, narrow) == intersects(narrow, wide) == overlapping
