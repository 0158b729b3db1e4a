"""Filters for a given assignment hold what they must, and are small."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.assignment.boxes.test_volume import boxes_of
from tests.support.problems import drawn, problems
from tests.support.volumes import union_volume

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes.clustering import enclosing_boxes, k_means
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import Floats, Problem
from gravitate.plan.assignment.problem.solution import measures, violations
from gravitate.plan.assignment.search.adjusting import (
    AdjustParameters,
    adjusted,
    grown,
    outermost,
    small_filter,
    tightened,
)


def is_within(box: Floats, outer: Floats) -> bool:
    return bool((box[0] >= outer[0]).all() and (box[1] <= outer[1]).all())


@given(problems(), st.integers(0, 2), st.booleans())
def test_adjusted_filters_are_valid(problem: Problem, seed: int, is_grown: bool) -> None:
    first = gr_star(problem, seed)
    found = adjusted(problem, first.leaf, first.filters, seed, AdjustParameters(2, is_grown))
    assert (found.leaf == first.leaf).all()
    before, after = violations(problem, first), violations(problem, found)
    assert [v.kind for v in before] == [v.kind for v in after]


def test_adjusting_leaves_does_not_cost_more_than_the_filters_there_were() -> None:
    problem = drawn(8)
    first = gr_star(problem)
    found = adjusted(problem, first.leaf, first.filters)
    assert (found.filters.volumes() <= first.filters.volumes() * (1 + 1e-12)).all()
    assert measures(problem, found).bandwidth < measures(problem, first).bandwidth


@given(boxes_of(2, 6, 1), st.integers(1, 3))
def test_a_small_filter_is_between_the_best_and_one_box(boxes: Floats, complexity: int) -> None:
    found = small_filter(boxes, complexity, np.random.default_rng(0))
    assert 1 <= len(found) <= complexity
    assert all(any(is_within(box, outer) for outer in found) for box in boxes)
    best = min(
        union_volume(
            [
                enclosing_boxes(boxes[list(own)], np.zeros(len(own), np.int32), 1)[0]
                for number in range(complexity)
                if (own := [b for b, group in enumerate(groups) if group == number])
            ]
        )
        for groups in itertools.product(range(complexity), repeat=len(boxes))
    )
    around = enclosing_boxes(boxes, np.zeros(len(boxes), np.int32), 1)
    assert best <= union_volume(found) <= union_volume(around)
    assert union_volume(grown(boxes, complexity)) <= union_volume(around)


def test_clusters_that_are_apart_are_found() -> None:
    random = np.random.default_rng(3)
    middle = np.repeat([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]], 20, axis=0)
    middle += random.random((60, 2))
    boxes = np.stack([middle, middle + 1.0], axis=1)
    found = small_filter(boxes, 3, random, parameters=AdjustParameters(3, is_grown=False))
    assert len(found) == 3
    assert union_volume(found) < 3 * 4.0


@given(boxes_of(2, 8, 1))
def test_what_lies_within_another_is_left_out(boxes: Floats) -> None:
    found = outermost(boxes)
    assert union_volume(found) == union_volume(boxes)
    for one, other in itertools.permutations(range(len(found)), 2):
        assert not is_within(found[one], found[other])


def test_a_filter_is_tightened_to_what_goes_to_its_boxes() -> None:
    filter = np.array([[[0.0], [10.0]], [[5.0], [20.0]]])
    boxes = np.array([[[1.0], [2.0]], [[6.0], [7.0]], [[12.0], [13.0]]])
    tight = tightened(filter, boxes)
    assert tight is not None
    assert tight.tolist() == [[[1.0], [7.0]], [[12.0], [13.0]]]
    assert tightened(filter, np.array([[[8.0], [12.0]], [[9.0], [21.0]]])) is None


@given(boxes_of(1, 9, 1), st.integers(1, 4))
def test_every_point_is_in_a_group_whose_mean_is_nearest(boxes: Floats, groups: int) -> None:
    points = boxes.reshape(len(boxes), -1)
    group = k_means(points, groups, np.random.default_rng(1))
    used = int(group.max()) + 1
    assert set(group.tolist()) == set(range(used))
    assert used <= min(groups, len(np.unique(points, axis=0)))
    means = np.array([points[group == number].mean(axis=0) for number in range(used)])
    square = ((points[:, None] - means) ** 2).sum(axis=2)
    assert (square[np.arange(len(points)), group] <= square.min(axis=1) + 1e-9).all()


def test_no_groups_are_refused_and_no_points_are_fine() -> None:
    with pytest.raises(InputError, match="0 groups are not accepted"):
        k_means(np.zeros((1, 1)), 0, np.random.default_rng(0))
    assert len(k_means(np.zeros((0, 1)), 2, np.random.default_rng(0))) == 0
