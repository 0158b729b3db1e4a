"""Topics in a row: a topic filter ending in # is an interval with nothing else in it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.model.language import parse
from gravitate.model.semantics import matches
from gravitate.model.topic_order import TopicOrder, topics_named
from gravitate.model.topics import topic_filter

levels = st.sampled_from(["a", "b", "a-1", "$x", "", "b b"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
stems = st.lists(levels, min_size=1, max_size=3).map("/".join).filter(bool)
patterns = st.lists(st.one_of(levels, st.just("+")), min_size=1, max_size=3).map("/".join)


@given(st.lists(topics), stems)
def test_everything_below_a_topic_is_an_interval(seen: list[str], stem: str) -> None:
    order = TopicOrder(seen)
    wanted = topic_filter(f"{stem}/#")
    passing = [rank for rank, topic in enumerate(order.topics) if matches(wanted, {"topic": topic})]
    extent = order.extent(wanted.conjunctions[0])
    if passing:
        assert extent == (passing[0], passing[-1])
        assert passing == list(range(passing[0], passing[-1] + 1))
    else:
        assert extent is None


@given(
    st.lists(topics),
    st.one_of(
        patterns.filter(bool).map(topic_filter),
        patterns.map(lambda it: topic_filter(f"{it}/#")),
        st.lists(topics, min_size=1, max_size=3).map(
            lambda them: parse("topic in ({})".format(", ".join(f"'{it}'" for it in them)))
        ),
        stems.map(lambda stem: parse(f"topic like '{stem}%' and topic <> '{stem}'")),
    ),
)
def test_any_other_condition_gets_the_smallest_interval_around_what_passes(
    seen: list[str], wanted: object
) -> None:
    order = TopicOrder(seen)
    for conjunction in wanted.conjunctions:  # type: ignore[attr-defined]
        passing = [
            rank
            for rank, topic in enumerate(order.topics)
            if matches(type(wanted)((conjunction,)), {"topic": topic})  # type: ignore[call-arg, arg-type]
        ]
        expected = (passing[0], passing[-1]) if passing else None
        assert order.extent(conjunction) == expected


@pytest.mark.parametrize("condition", ["volume > 5", "topic is null", "topic <> 'a' or x = 1"])
def test_a_condition_that_needs_no_topic_has_no_bounds(condition: str) -> None:
    wanted = parse(condition)
    extents = [TopicOrder(["a", "b"]).extent(one) for one in wanted.conjunctions]
    assert (-math.inf, math.inf) in extents


def test_topics_that_a_filter_names_are_those_without_wildcards() -> None:
    wanted = parse("topic = 'a/b' or topic in ('c', 'd') or topic like 'e%' or x = 'f'")
    assert sorted(topics_named(wanted)) == ["a/b", "c", "d"]
    assert list(topics_named(topic_filter("a/+"))) == []


def test_topics_come_right_before_what_is_below_them() -> None:
    order = TopicOrder(["a/b-2", "a/b/c", "a/b", "a", "a/b"])
    assert order.topics == ("a", "a/b", "a/b/c", "a/b-2")
    assert [order.rank("a/b/c"), order.rank("z")] == [2, None]
