from __future__ import annotations

import pytest

from gravitate.errors import InputError
from gravitate.overlay import coordinates, shapes


def test_a_balanced_tree_of_63_with_fanout_2_is_complete() -> None:
    links = shapes.balanced_tree(63, 2)
    children = [sum(parent == broker for parent, _ in links) for broker in range(63)]
    assert children == [2] * 31 + [0] * 32


def test_a_line_and_a_star_are_what_they_say() -> None:
    assert shapes.line(4) == [(0, 1), (1, 2), (2, 3)]
    assert shapes.star(4) == [(0, 1), (0, 2), (0, 3)]


def test_a_random_tree_depends_on_its_seed_alone() -> None:
    assert shapes.random_tree(30, seed=7) == shapes.random_tree(30, seed=7)
    assert shapes.random_tree(30, seed=7) != shapes.random_tree(30, seed=8)


def test_a_bounded_random_tree_keeps_its_bound() -> None:
    links = shapes.random_tree(200, seed=1, degree_max=3)
    degrees = [0] * 200
    for one, other in links:
        degrees[one] += 1
        degrees[other] += 1
    assert len(links) == 199
    assert max(degrees) == 3


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_one_broker_is_a_network_without_links(name: str) -> None:
    assert shapes.shape(name, 1) == []


def test_what_cannot_be_made_is_refused_with_what_can() -> None:
    with pytest.raises(InputError, match="unknown shape 'moebius': write one of balanced-tree"):
        shapes.shape("moebius", 3)
    with pytest.raises(InputError, match="0 brokers"):
        shapes.star(0)
    with pytest.raises(InputError, match="fan-out 0"):
        shapes.balanced_tree(3, 0)
    with pytest.raises(InputError, match="degree 1"):
        shapes.random_tree(3, 0, degree_max=1)


def test_distance_is_latency() -> None:
    assert coordinates.latency_ms((0, 0), (3, 4)) == 5
    with pytest.raises(InputError, match="2 and 1 dimensions"):
        coordinates.latency_ms((0, 0), (1,))


def test_scattered_points_stay_inside_and_follow_the_seed() -> None:
    points = coordinates.scattered(50, 80, seed=3)
    assert points == coordinates.scattered(50, 80, seed=3)
    assert all(0 <= x <= 80 and 0 <= y <= 80 for x, y in points)


def test_a_radial_layout_puts_children_at_least_a_link_away() -> None:
    links = shapes.balanced_tree(15, 2)
    points = coordinates.radial(links, 15, 10.0)
    lengths = [coordinates.latency_ms(points[one], points[other]) for one, other in links]
    assert min(lengths) > 9.8
    assert max(lengths) < 30
