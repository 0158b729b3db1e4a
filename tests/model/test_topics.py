"""Topic names and topic filters."""

from __future__ import annotations

import itertools

import pytest

from gravitate.errors import FilterError
from gravitate.model.filters import Filter, Op, Predicate
from gravitate.model.semantics import matches
from gravitate.model.topics import (
    prefix_intersects_topic,
    prefix_within_topic,
    topic_covers,
    topic_filter,
    topic_intersects,
    topic_matcher,
    topic_pattern,
)


def spelt(levels: tuple[str, ...], depth: int) -> list[str]:
    return [
        "/".join(parts)
        for size in range(1, depth + 1)
        for parts in itertools.product(levels, repeat=size)
    ]


TOPICS = spelt(("", "a", "b", "$a", "other"), 4)
"""The empty text is no topic, but an attribute may hold it: `/#` matches it as its parent."""
PATTERNS = [
    *(pattern for pattern in spelt(("", "a", "+", "$a"), 3) if pattern),
    *(pattern + "/#" for pattern in spelt(("", "a", "+", "$a"), 2)),
    "#",
]


def topic_matches(pattern: str, topic: str) -> bool:
    """The definition, level by level."""
    levels, parts = pattern.split("/"), topic.split("/")
    if levels[0] in ("+", "#") and topic.startswith("$"):
        return False
    for index, level in enumerate(levels):
        if level == "#":
            return True
        if index == len(parts) or level not in ("+", parts[index]):
            return False
    return len(levels) == len(parts)


MATCHED = {p: frozenset(t for t in TOPICS if topic_matches(p, t)) for p in PATTERNS}


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/B", False),
        ("a/+", "a/b", True),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("+/+", "/a", True),
        ("+", "/a", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$SYS/+", "$SYS/x", True),
        ("a/+/$x", "a/b/$x", True),
        ("a/+/#", "a/b", True),
        ("a/+/#", "a", False),
    ],
)
def test_matching(pattern: str, topic: str, expected: bool) -> None:
    assert topic_matches(pattern, topic) is expected
    assert topic_matcher(pattern)(topic) is expected
    assert matches(topic_filter(pattern), {"topic": topic}) is expected


def test_the_fast_matcher_answers_as_the_plain_one() -> None:
    for pattern in PATTERNS:
        fast = topic_matcher(pattern)
        assert {t for t in TOPICS if fast(t)} == MATCHED[pattern], pattern


def test_covering_is_inclusion() -> None:
    for wide, narrow in itertools.product(PATTERNS, repeat=2):
        assert topic_covers(wide, narrow) == (MATCHED[narrow] <= MATCHED[wide]), (wide, narrow)


def test_intersection_is_a_topic_that_matches_both() -> None:
    for p, q in itertools.product(PATTERNS, repeat=2):
        assert topic_intersects(p, q) == bool(MATCHED[p] & MATCHED[q]), (p, q)


def test_prefixes_against_topic_filters() -> None:
    texts = [*TOPICS, *(t + "x" for t in TOPICS)]
    for prefix in ("", "a", "a/", "a/a", "a/a/", "$a", "$a/", "/", "b"):
        started = {text for text in texts if text.startswith(prefix)}
        for pattern in PATTERNS:
            matched = {text for text in started if topic_matches(pattern, text)}
            assert prefix_within_topic(prefix, pattern) == (matched == started), (prefix, pattern)
            assert prefix_intersects_topic(prefix, pattern) == bool(matched), (prefix, pattern)


def test_a_plain_topic_filter_is_equality_and_a_wildcard_a_match() -> None:
    assert topic_filter("a/b") == Filter(((Predicate("topic", Op.EQ, "a/b"),),))
    assert topic_filter("a/+") == Filter(((Predicate("topic", Op.TOPIC, "a/+"),),))
    assert topic_filter("#") == Filter(((Predicate("topic", Op.TOPIC, "#"),),))


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "empty"),
        ("a\0b", 2, "NUL"),
        ("a/b+", 4, "alone"),
        ("+a/b", 1, "alone"),
        ("a/#/b", 3, "last"),
        ("a/b#", 4, "alone"),
        ("##", 1, "alone"),
        ("a/\ud800", 3, "Unicode"),
        ("a" * 70000, 0, "65535"),
        ("+/" * 3000, 0, "4096"),
    ],
)
def test_bad_topic_filters_are_refused_with_their_column(
    text: str, column: int, words: str
) -> None:
    with pytest.raises(FilterError, match=words) as raised:
        topic_pattern(text)
    assert raised.value.column == column


@pytest.mark.parametrize("text", ["a", "/", "a//b", "$SYS/x", "a b", "é", "a" * 65535])
def test_topics_are_topic_filters(text: str) -> None:
    assert topic_pattern(text) == text
