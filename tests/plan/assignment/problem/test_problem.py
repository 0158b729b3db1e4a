"""A problem knows who can be served where, and refuses what makes no sense."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    all_leaves,
    candidate_lists,
    latencies_ms,
    network_of,
    problem_of,
    reach_of,
)

UNIT = [[0.0, 0.0], [1.0, 1.0]]


def test_latency_is_the_way_through_the_tree_and_the_last_hop() -> None:
    network = network_of([0, 0], [[3, 0], [3, 4], [6, 0], [0, 10]], [PUBLISHER, 0, 0, PUBLISHER])
    assert network.leaves.tolist() == [1, 2, 3]
    assert network.tree_ms.tolist() == [3, 7, 6, 10]
    problem = problem_of(network, [[3, 5], [6, 0]], [UNIT, UNIT], delay_max=0.5)
    assert latencies_ms(problem, np.array([0, 1], dtype=np.int32)).tolist() == [8, 6]
    assert problem.reach.shortest_ms.tolist() == [8, 6]
    # Through leaf 1: 6 + sqrt(9 + 25) = 11.83 <= 12; through leaf 2: 10 + sqrt(9 + 25) = 15.83.
    # The second is 7 + 5 = 12 from leaf 0, and may have 9.
    assert candidate_lists(problem.reach.candidates, 3) == [[0, 1], [1]]


def test_bounds_may_differ_between_subscribers() -> None:
    network = network_of([0.0], [[1.0], [-1.0]])
    problem = problem_of(network, [[1.0], [1.0]], [UNIT, UNIT], delay_max=[1.9, 2.0])
    assert candidate_lists(problem.reach.candidates, 2) == [[0], [0, 1]]


def test_candidates_of_many_leaves_take_several_words() -> None:
    points = np.arange(1.0, 131.0)[:, None]
    problem = problem_of(network_of([0.0], points), [[1.0], [130.0]], [UNIT, UNIT], delay_max=0)
    assert problem.reach.candidates.shape == (2, 3)
    # Whatever lies between the publisher and the subscriber is on a shortest way.
    assert candidate_lists(problem.reach.candidates, 130) == [[0], list(range(130))]
    assert candidate_lists(all_leaves(problem), 130) == [list(range(130))] * 2


coordinates = st.integers(-20, 20).map(float)


@given(
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6),
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6),
    st.data(),
)
def test_candidates_are_the_leaves_within_the_bound(
    points: list[tuple[float, float]], locations: list[tuple[float, float]], data: st.DataObject
) -> None:
    parent = [data.draw(st.integers(-1, broker - 1)) for broker in range(len(points))]
    delay_max = data.draw(st.sampled_from((0.0, 0.13, 0.57, 2.03)))
    network = network_of([0.0, 0.0], points, parent)
    reach = reach_of(network, locations, delay_max)

    def way_ms(broker: int) -> float:
        above = parent[broker]
        if above == PUBLISHER:
            return math.hypot(*points[broker])
        return way_ms(above) + math.dist(points[broker], points[above])

    assert network.leaves.tolist() == [b for b in range(len(points)) if b not in parent]
    found = candidate_lists(reach.candidates, len(network.leaves))
    for location, shortest_ms, own in zip(locations, reach.shortest_ms, found, strict=True):
        latency_ms = [way_ms(leaf) + math.dist(points[leaf], location) for leaf in network.leaves]
        assert shortest_ms == pytest.approx(min(latency_ms))
        assert own
        for leaf, ms in enumerate(latency_ms):
            over = ms - (1 + delay_max) * min(latency_ms)
            if abs(over) > 1e-9:
                assert (leaf in own) == (over < 0)


def test_capacities_count_whole_subscribers() -> None:
    network = network_of([0.0], [[1.0], [2.0]], capacity=[0.7, 0.3])
    problem = problem_of(network, [[0.0]] * 10, [UNIT] * 10)
    assert problem.leaf_capacities(1.0).tolist() == [7, 3]
    assert problem.leaf_capacities(1.2).tolist() == [8, 3]


def test_what_is_no_tree_is_refused() -> None:
    points = [[0.0], [1.0], [2.0]]
    with pytest.raises(InputError, match="no brokers are given"):
        network_of([0.0], np.empty((0, 1)))
    with pytest.raises(InputError, match="parent 3 of broker 1 is not accepted: write 0 to 2"):
        network_of([0.0], points, [-1, 3, 0])
    with pytest.raises(InputError, match="broker 1 is not below the publisher"):
        network_of([0.0], points, [-1, 2, 1])
    with pytest.raises(InputError, match=r"parents of shape \(2,\)"):
        network_of([0.0], points, [-1, 0])
    with pytest.raises(InputError, match=r"parent 0\.5 is not accepted"):
        network_of([0.0], points, [-1, 0.5, 0])
    with pytest.raises(InputError, match="points of 1 dimensions are not accepted"):
        network_of([0.0, 0.0], points)
    with pytest.raises(InputError, match=r"nan at \[1, 0\] of points"):
        network_of([0.0], [[0.0], [np.nan]])


def test_what_brokers_cannot_hold_is_refused() -> None:
    points = [[0.0], [1.0], [2.0]]
    with pytest.raises(InputError, match="complexity 0 of broker 2 is not accepted"):
        network_of([0.0], points, complexity=[1, 1, 0])
    with pytest.raises(InputError, match=r"complexities of shape \(2,\)"):
        network_of([0.0], points, complexity=[1, 1])
    with pytest.raises(InputError, match="2 capacities: write one for each of 3 leaves"):
        network_of([0.0], points, capacity=[0.5, 0.5])
    with pytest.raises(InputError, match=r"capacity -0\.5 of leaf 1"):
        network_of([0.0], points, capacity=[1.0, -0.5, 0.5])
    with pytest.raises(InputError, match=r"capacities add up to 1\.5"):
        network_of([0.0], points, capacity=[0.5, 0.5, 0.5])


def test_what_no_subscriber_can_want_is_refused() -> None:
    network = network_of([0.0], [[0.0]])
    with pytest.raises(InputError, match="interest of subscriber 1 from 2 to 1 on axis 0"):
        problem_of(network, [[0.0], [0.0]], [UNIT, [[2.0, 0.0], [1.0, 1.0]]])
    with pytest.raises(InputError, match="1 interests for 2 locations"):
        problem_of(network, [[0.0], [0.0]], [UNIT])
    with pytest.raises(InputError, match=r"interests of shape \(1, 1, 2\)"):
        problem_of(network, [[0.0]], [[[0.0, 1.0]]])
    with pytest.raises(InputError, match=r"inf at \[0, 1, 1\] of interests"):
        problem_of(network, [[0.0]], [[[0.0, 0.0], [1.0, np.inf]]])
    with pytest.raises(InputError, match="locations of 2 dimensions"):
        problem_of(network, [[0.0, 0.0]], [UNIT])
    with pytest.raises(InputError, match="delay_max -1 of subscriber 0"):
        problem_of(network, [[0.0]], [UNIT], delay_max=-1)
    with pytest.raises(InputError, match=r"delay_max of shape \(2,\)"):
        problem_of(network, [[0.0]], [UNIT], delay_max=[0.1, 0.2])
    with pytest.raises(InputError, match=r"beta = 2 and beta_max = 1\.5"):
        problem_of(network, [[0.0]], [UNIT], beta=2, beta_max=1.5)
