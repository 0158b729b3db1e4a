"""The event space: boxes hold what filters let pass, and measures are shares of the events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.volumes import union_volume

from gravitate.model.filters import Filter
from gravitate.model.language import parse
from gravitate.model.semantics import matches
from gravitate.model.topic_order import TopicOrder
from gravitate.plan.assignment.problem.event_space import Density, EventSpace

TOPICS = ("a", "a/b", "a/c", "d")
CONDITIONS = (
    "topic = 'a'",
    "topic in ('a', 'd') and x > 2",
    "x <= 3 or y = 1",
    "x between 1 and 4",
    "topic = 'd' and y >= 2 or topic = 'a/b' and x = 0",
    "y = '2'",
    "x > 5 and x < 1",
)
SPACE = EventSpace(TopicOrder(TOPICS), ("x", "y"))
numbers = st.integers(-1, 6)
events = st.builds(
    lambda topic, x, y: {
        name: value for name, value in (("topic", topic), ("x", x), ("y", y)) if value is not None
    },
    st.sampled_from((*TOPICS, None)),
    st.one_of(st.none(), numbers, numbers.map(str)),
    st.one_of(st.none(), numbers),
)
filters = st.sampled_from(CONDITIONS).map(parse)


@given(st.lists(filters, min_size=1, max_size=2), events)
def test_what_passes_lies_in_the_box_of_a_subscriber(
    wanted: list[Filter], event: dict[str, object]
) -> None:
    if any(matches(one, event) for one in wanted):  # type: ignore[arg-type]
        box = SPACE.box(wanted)
        assert box is not None
        (point,) = SPACE.coordinates([event.get("topic")], [event]).T  # type: ignore[list-item]
        for low, at, high in zip(box.lows, point, box.highs, strict=True):
            assert low <= at <= high or (math.isnan(at) and (low, high) == (-math.inf, math.inf))


def test_a_client_with_several_subscriptions_has_the_box_around_all() -> None:
    box = SPACE.box([parse("topic = 'a' and x between 1 and 2"), parse("topic = 'a/c' and x = 5")])
    assert box is not None
    assert (box.lows[:2], box.highs[:2]) == ((0, 1), (2, 5))
    assert SPACE.box([parse("topic = 'nobody'")]) is None
    assert SPACE.names == ("topic", "x", "y")


def test_without_a_topic_axis_topics_bound_nothing() -> None:
    space = EventSpace(None, ("x",))
    box = space.box([parse("topic = 'nobody' and x < 3")])
    assert box is not None
    assert (box.lows, box.highs) == ((-math.inf,), (math.nextafter(3, 0),))
    assert len(space) == 1


values = st.lists(st.one_of(st.integers(0, 9).map(float), st.just(math.nan)), min_size=1)
bounds = st.one_of(st.integers(-1, 10).map(float))


@given(values, st.lists(st.tuples(bounds, bounds), min_size=1, max_size=4))
def test_on_one_axis_the_measure_of_a_union_is_the_share_of_the_events_in_it(
    events: list[float], pairs: list[tuple[float, float]]
) -> None:
    ranges = [(min(pair), max(pair)) for pair in pairs]
    density = Density.of(events, ranges)
    begins, ends = density.interval(*np.transpose(ranges))
    boxes = np.stack([begins, ends], axis=1)[:, :, None]
    within = sum(any(low <= at <= high for low, high in ranges) for at in events)
    assert union_volume(boxes) == pytest.approx(within / len(events))


@given(values)
def test_an_open_side_ends_where_the_events_do(events: list[float]) -> None:
    density = Density.of(events, [4.0])
    lows, highs = [-math.inf, -math.inf, 4.0], [math.inf, 4.0, math.inf]
    begins, ends = density.interval(lows, highs)
    shares = (ends - begins) * len(events)
    # Who sets no bound gets events without the attribute too.
    assert shares == pytest.approx(
        [len(events), sum(at <= 4 for at in events), sum(at >= 4 for at in events)]
    )


@given(values, values)
def test_densities_of_parts_add_up(one: list[float], other: list[float]) -> None:
    marks = [2.0, 7.0]
    joined = Density.of(one, marks) + Density.of(other, marks)
    whole = Density.of(one + other, marks)
    assert joined.bins.tolist() == whole.bins.tolist()
    assert (joined.missing, joined.events) == (whole.missing, whole.events)


def test_evenly_spread_events_are_left_as_they_are() -> None:
    rng = np.random.default_rng(5)
    lows = np.linspace(0.0, 0.6, 13)
    highs = lows + 0.4
    density = Density.of(rng.random(200_000), np.concatenate([lows, highs]))
    begins, ends = density.interval(lows, highs)
    assert np.abs(begins - lows).max() < 0.005
    assert np.abs(ends - highs).max() < 0.005


def test_independent_axes_measure_boxes_by_their_share_of_events() -> None:
    rng = np.random.default_rng(6)
    points = np.stack([rng.exponential(size=100_000), rng.normal(size=100_000)])
    low, high = np.array([0.2, -0.5]), np.array([1.5, 1.0])
    sides = []
    for axis in range(2):
        density = Density.of(points[axis], [low[axis], high[axis]])
        begins, ends = density.interval([low[axis]], [high[axis]])
        sides.append(float(ends[0] - begins[0]))
    inside = ((points >= low[:, None]) & (points <= high[:, None])).all(axis=0).mean()
    assert math.prod(sides) == pytest.approx(inside, rel=0.02)
