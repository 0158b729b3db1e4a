"""Problems for tests: small random ones with whole corners, and larger drawn ones."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from gravitate.plan.assignment.problem.problem import Problem, network_of, problem_of


@st.composite
def problems(
    draw: st.DrawFn,
    subscribers_max: int = 12,
    brokers_max: int = 6,
    dimensions: tuple[int, ...] = (1, 2, 3),
    is_one_level: bool = False,
) -> Problem:
    """Coordinates are whole, so that distances tie and volumes are exact."""
    brokers = draw(st.integers(1, brokers_max))
    parent = [-1 if is_one_level else draw(st.integers(-1, b - 1)) for b in range(brokers)]
    place = st.tuples(st.integers(-5, 5), st.integers(-5, 5))
    leaves = brokers - len(set(parent) - {-1})
    weights = draw(st.lists(st.integers(1, 4), min_size=leaves, max_size=leaves))
    network = network_of(
        [0, 0],
        draw(st.lists(place, min_size=brokers, max_size=brokers)),
        parent,
        complexity=draw(st.lists(st.integers(1, 3), min_size=brokers, max_size=brokers)),
        capacity=np.array(weights) / sum(weights),
    )
    count = draw(st.integers(0, subscribers_max))
    axes = draw(st.sampled_from(dimensions))
    corners = st.lists(st.integers(0, 5), min_size=2 * axes, max_size=2 * axes)
    interests = draw(st.lists(corners, min_size=count, max_size=count))
    beta = draw(st.sampled_from((1.0, 1.3, 2.0)))
    return problem_of(
        network,
        np.array(draw(st.lists(place, min_size=count, max_size=count)), dtype=np.float64).reshape(
            count, 2
        ),
        np.sort(np.array(interests, dtype=np.float64).reshape(count, 2, axes), axis=1),
        delay_max=draw(st.sampled_from((0.0, 0.31, 1.07, 9.0))),
        beta=beta,
        beta_max=beta * draw(st.sampled_from((1.0, 1.2, 1.9))),
    )


def drawn(seed: int, subscribers: int = 2_000, brokers: int = 20, levels: int = 1) -> Problem:
    """Rectangles anywhere in a square, subscribers and brokers around three places."""
    random = np.random.default_rng(seed)
    places = np.concatenate([random.normal(c, 20, (30, 5)) for c in random.normal(0, 50, (3, 5))])
    middle = random.random((subscribers, 2)) * 10
    half = random.exponential(0.3, (subscribers, 2))
    parent = np.full(brokers, -1)
    if levels == 2:
        top = max(2, brokers // 5)
        parent[top:] = random.integers(0, top, brokers - top)
    return problem_of(
        network_of(places.mean(axis=0), places[random.integers(0, 90, brokers)], parent),
        places[random.integers(0, 90, subscribers)],
        np.stack([middle - half, middle + half], axis=1),
        delay_max=1.0,
        beta=1.5,
        beta_max=2.5,
    )
