"""Filters are found by what they fix: too many perhaps, never too few."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.strategies import filters

from gravitate.matching.candidates import Candidates
from gravitate.model.covering import covers, intersects, is_empty
from gravitate.model.filters import EVERYTHING, Filter
from gravitate.model.language import parse, wanted_filter
from gravitate.model.topics import topic_filter


def filled(members: list[Filter]) -> Candidates:
    candidates = Candidates()
    for member in dict.fromkeys(members):
        candidates.add(member)
    return candidates


@given(st.lists(filters, max_size=40), st.lists(filters, max_size=10))
def test_whatever_intersects_or_covers_is_named(members: list[Filter], asked: list[Filter]) -> None:
    candidates = filled(members)
    for filter in asked:
        named = candidates.may_intersect(filter)
        assert named.keys() <= set(members)
        for member in members:
            if intersects(member, filter):
                assert member in named
            if covers(member, filter) and not is_empty(filter):
                assert member in named


def crowd(rng: random.Random, size: int) -> list[Filter]:
    """Filters that share topics and differ in values, so that they are divided by several."""
    topics = ["a/b", "a/+", "a/#", "#", "a/b/c/d/e/f/g/h/i/1", "a/b/c/d/e/f/g/h/i/2"]
    conditions = [
        lambda: f"x = {rng.randrange(20)}",
        lambda: f"x = '{rng.randrange(20)}' AND y = '{rng.choice('abcdefgh')}'",
        lambda: f"x IN ({rng.randrange(20)}, {rng.randrange(20)}) AND z > {rng.randrange(9)}",
        lambda: f"y = '{rng.choice('abcdefgh')}' AND z = {rng.random() < 0.5}",
        lambda: f"x > {rng.randrange(20)}",
        lambda: f"x IS NULL OR x = {rng.randrange(20)}",
    ]
    return [wanted_filter(rng.choice(topics), rng.choice(conditions)()) for _ in range(size)]


@pytest.mark.parametrize("seed", range(5))
def test_a_crowd_that_comes_and_goes_is_named_and_leaves_nothing(seed: int) -> None:
    rng = random.Random(seed)
    candidates, members = Candidates(), dict[Filter, None]()
    asked = crowd(rng, 20)
    for filter in crowd(rng, 400):
        if filter in members or (members and rng.random() < 0.3):
            filter = rng.choice(list(members))
            candidates.discard(filter)
            del members[filter]
        else:
            candidates.add(filter)
            members[filter] = None
    for filter in asked:
        named = candidates.may_intersect(filter)
        assert {member for member in members if intersects(member, filter)} <= named.keys()
        assert named.keys() <= members.keys()
    for filter in members:
        candidates.discard(filter)
    assert not candidates
    assert not candidates.may_intersect(EVERYTHING)


@pytest.mark.parametrize(
    ("template", "named_max"),
    [
        ("topic = 't/{}'", 1),
        ("topic MATCHES 't/{}/#'", 1),
        ("topic MATCHES 't/+/{}'", 1),
        ("topic = 'a/b/c/d/e/f/g/h/i/{}'", 1),
        ("topic = 'quotes' AND symbol = 's{}'", 1),
        ("symbol = 's{}' AND volume > 5", 1),
        ("topic LIKE 't/{}/%'", 1),
        ("symbol = {}", 1),
    ],
)
def test_of_many_that_fix_different_things_only_the_same_is_named(
    template: str, named_max: int
) -> None:
    members = [parse(template.format(number)) for number in range(1000)]
    candidates = filled(members)
    for member in members[:50]:
        assert member in candidates.may_intersect(member)
        assert len(candidates.may_intersect(member)) <= named_max


def test_a_topic_of_very_many_levels_is_filed_like_any_other() -> None:
    deep = [topic_filter("/".join(["a"] * 20_000 + [str(number)])) for number in range(40)]
    candidates = filled(deep)
    assert len(candidates.may_intersect(deep[7])) == 1
    assert len(candidates.may_intersect(topic_filter("a/#"))) == 40


def test_a_topic_level_named_like_a_wildcard_in_a_condition_is_found() -> None:
    odd = [parse("topic = 'a/#/b'"), parse("topic = 'a/+'"), parse("topic = '#'")]
    candidates = filled(odd)
    for filter in odd:
        assert filter in candidates.may_intersect(filter)
        candidates.discard(filter)
    assert not candidates
