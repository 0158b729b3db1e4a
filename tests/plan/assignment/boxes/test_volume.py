"""Volumes of unions are those that counting cells gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.volumes import added_volume, holds, union_volume

from gravitate.plan.assignment.boxes import volume_kernels

SIDE = 6


@st.composite
def boxes_of(
    draw: st.DrawFn, dimensions: int, count_max: int, count_min: int = 0
) -> NDArray[np.float64]:
    edge = st.integers(0, SIDE)
    corner = st.lists(edge, min_size=dimensions, max_size=dimensions)
    pairs = draw(st.lists(st.tuples(corner, corner), min_size=count_min, max_size=count_max))
    corners = np.array(pairs, dtype=np.float64).reshape(len(pairs), 2, dimensions)
    return np.sort(corners, axis=1)


def cells(boxes: NDArray[np.float64], dimensions: int) -> set[tuple[int, ...]]:
    """The unit cells that are covered, by their lower corners."""
    found: set[tuple[int, ...]] = set()
    for low, high in boxes.astype(int):
        found.update(itertools.product(*(range(a, b) for a, b in zip(low, high, strict=True))))
    return found


spaces = st.integers(1, 4).flatmap(
    lambda d: st.tuples(st.just(d), boxes_of(d, 7), boxes_of(d, 1, 1))
)


@given(spaces)
def test_the_volume_of_a_union_is_the_number_of_cells(
    space: tuple[int, NDArray[np.float64], NDArray[np.float64]],
) -> None:
    dimensions, boxes, more = space
    covered = cells(boxes, dimensions)
    assert union_volume(boxes) == len(covered)
    assert added_volume(boxes, more[0]) == len(cells(more, dimensions) - covered)


@given(boxes_of(2, 40, 4))
def test_both_sweeps_of_the_plane_agree(boxes: NDArray[np.float64]) -> None:
    expected = len(cells(boxes, 2))
    assert volume_kernels._area_of_few(boxes) == expected
    assert volume_kernels._area_of_many(boxes) == expected


@given(spaces)
def test_a_union_holds_a_box_when_it_has_all_of_its_points(
    space: tuple[int, NDArray[np.float64], NDArray[np.float64]],
) -> None:
    dimensions, boxes, more = space
    # Points at whole and half numbers tell unions of boxes with whole corners apart.
    axes = [np.arange(2 * a, 2 * b + 1) / 2 for a, b in more[0].T]
    points = np.array(list(itertools.product(*axes))).reshape(-1, dimensions)
    inside = np.zeros(len(points), dtype=np.bool_)
    for low, high in boxes:
        inside |= ((low <= points) & (points <= high)).all(axis=1)
    assert holds(boxes, more[0]) == inside.all()


def test_many_random_boxes_cover_what_random_points_say() -> None:
    random = np.random.default_rng(7)
    low = random.random((5_000, 2))
    boxes = np.stack([low, low + random.random((5_000, 2)) * 0.01], axis=1)
    points = random.random((20_000, 2))
    inside = np.zeros(len(points), dtype=np.bool_)
    for one, other in boxes:
        inside |= ((one <= points) & (points <= other)).all(axis=1)
    within = np.minimum(boxes, 1.0)
    assert union_volume(within) == pytest.approx(inside.mean(), abs=0.02)


def test_a_box_apart_adds_exactly_its_volume() -> None:
    boxes = [[[0.0, 0.0], [0.1, 0.7]], [[0.05, 0.0], [0.3, 0.3]]]
    assert added_volume(boxes, [[5.1, 0.0], [5.4, 0.7]]) == (5.4 - 5.1) * 0.7
