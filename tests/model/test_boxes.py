"""Bounding boxes of filters."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from tests.support.strategies import NAMES, events, raw_filters

from gravitate.model.boxes import Box, conjunction_box
from gravitate.model.events import Attributes
from gravitate.model.filters import Filter
from gravitate.model.language import parse
from gravitate.model.regions import filter_regions
from gravitate.model.semantics import matches, value_number

INF = math.inf


def bounding_box(filter: Filter, dimensions: Sequence[str]) -> Box | None:
    boxes = [conjunction_box(one, dimensions) for one in filter_regions(filter)]
    return functools.reduce(Box.joined, boxes) if boxes else None


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("x BETWEEN 1 AND 2", 1, 2),
        ("x > 1", math.nextafter(1, 2), INF),
        ("x = 5", 5, 5),
        ("x = '10'", 10, 10),
        ("x IN (1, '7', 'a')", 1, 7),
        ("x = 'a'", -INF, INF),
        ("x LIKE 'a%'", -INF, INF),
        ("x > '5'", -INF, INF),
        ("x = TRUE", -INF, INF),
        ("x IS NULL", -INF, INF),
        ("x <> 5", -INF, INF),
        ("x > 2 AND x LIKE '1%'", math.nextafter(2, 3), INF),
        ("y = 1", -INF, INF),
        ("TRUE", -INF, INF),
        ("x BETWEEN 1 AND 2 OR x BETWEEN 5 AND 6", 1, 6),
        ("x BETWEEN 1 AND 2 OR y = 1", -INF, INF),
        ("x BETWEEN 1 AND 2 OR x > 5 AND x < 3", 1, 2),
    ],
)
def test_extent_in_one_dimension(condition: str, low: float, high: float) -> None:
    assert bounding_box(parse(condition), ["x"]) == Box((low,), (high,))


def test_dimensions_come_in_the_order_asked_for() -> None:
    f = parse("x BETWEEN 1 AND 2 AND y BETWEEN 3 AND 4")
    assert bounding_box(f, ["y", "z", "x"]) == Box((3, -INF, 1), (4, INF, 2))
    assert bounding_box(f, []) == Box((), ())


@pytest.mark.parametrize("condition", ["FALSE", "x > 5 AND x < 3", "x = 'a' AND x > 5"])
def test_nothing_has_no_box(condition: str) -> None:
    assert bounding_box(parse(condition), ["x"]) is None


@given(raw_filters, events)
def test_the_box_holds_every_matching_event_where_it_has_a_coordinate(
    f: Filter, event: Attributes
) -> None:
    if not matches(f, event):
        return
    box = bounding_box(f, NAMES)
    assert box is not None
    for index, name in enumerate(NAMES):
        number = value_number(event[name]) if name in event else None
        if number is not None and not math.isnan(number):
            assert box.lows[index] <= number <= box.highs[index]
