"""Candidate rectangles are few, and there is a good one for everybody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.plan.assignment.boxes.test_volume import boxes_of
from tests.support.problems import drawn

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes.rectangles import (
    RectangleParameters,
    candidate_rectangles,
    interval_family,
    shrunk_products,
    super_interests,
)
from gravitate.plan.assignment.problem.problem import Floats


@given(boxes_of(1, 12, 1))
def test_every_interval_lies_within_one_at_most_four_times_as_long(boxes: Floats) -> None:
    intervals = boxes[:, :, 0]
    family = interval_family(intervals)
    lengths = intervals[:, 1] - intervals[:, 0]
    widest = intervals.max() - intervals.min()
    shortest = max(lengths.min(), widest / 2.0**11)
    assert len(family) == len(np.unique(family, axis=0))
    for low, high in intervals:
        around = family[(family[:, 0] <= low) & (family[:, 1] >= high)]
        assert (around[:, 1] - around[:, 0]).min() <= 4 * max(high - low, shortest)
    # Shrunk: both ends are those of given intervals.
    assert set(family[:, 0]) <= set(intervals[:, 0])
    assert set(family[:, 1]) <= set(intervals[:, 1])


@given(boxes_of(2, 8, 1), boxes_of(1, 4, 1), boxes_of(1, 4, 1))
def test_products_shrink_to_the_interests_within(
    interests: Floats, across: Floats, upward: Floats
) -> None:
    families = [across[:, :, 0], upward[:, :, 0]]
    expected = set()
    for x in families[0]:
        for y in families[1]:
            low, high = np.array([x[0], y[0]]), np.array([x[1], y[1]])
            own = interests[((interests[:, 0] >= low) & (interests[:, 1] <= high)).all(axis=1)]
            if len(own):
                expected.add((*own[:, 0].min(axis=0), *own[:, 1].max(axis=0)))
    found = shrunk_products(families, interests)
    assert [tuple(box) for box in found.reshape(-1, 4).tolist()] == sorted(expected)


def test_super_interests_are_around_the_interests_of_their_cluster() -> None:
    locations = np.array([[0.0], [0.1], [100.0], [100.1]])
    interests = np.array([[[0.0], [1.0]], [[2.0], [3.0]], [[0.0], [1.0]], [[2.0], [2.5]]])
    for weight, expected in (
        (9.0, [[[0.0], [2.5]], [[0.0], [3.0]]]),
        (0.0, [[[0.0], [1.0]], [[2.0], [3.0]]]),
    ):
        found = super_interests(locations, interests, 2, np.random.default_rng(1), weight)
        assert sorted(found.tolist()) == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_every_interest_has_a_rectangle_and_all_are_different(seed: int) -> None:
    problem = drawn(seed, subscribers=600, brokers=10)
    found = candidate_rectangles(
        problem.locations, problem.interests, 10, np.random.default_rng(seed)
    )
    low, high = problem.interests[:, 0], problem.interests[:, 1]
    is_held = (found[:, None, 0] <= low).all(axis=2) & (found[:, None, 1] >= high).all(axis=2)
    assert is_held.any(axis=0).all()
    assert len(np.unique(found.reshape(len(found), -1), axis=0)) == len(found)
    # One of them holds everything, so that the LP always has a solution.
    assert is_held.all(axis=1).any()


def test_interests_without_extent_have_families_too() -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1000.0, 1000.0]])
    family = interval_family(points, RectangleParameters(families_max=4))
    assert [0.0, 1000.0] in family.tolist()
    assert [1000.0, 1000.0] in family.tolist()
    assert interval_family(points[1:3]).tolist() == [[1.0, 1.0]]


def test_nobody_wants_nothing_and_halves_are_refused() -> None:
    random = np.random.default_rng(0)
    assert len(candidate_rectangles(np.empty((0, 5)), np.empty((0, 2, 2)), 3, random)) == 0
    with pytest.raises(InputError, match="1 interests for 2 locations"):
        candidate_rectangles(np.empty((2, 5)), np.empty((1, 2, 2)), 3, random)
