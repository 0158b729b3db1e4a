"""Interactions drawn like wall posts, and users laid out on a line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.workloads import interactions
from gravitate.pipeline.workloads.generate import Block
from gravitate.pipeline.workloads.social import drawn_interactions, nearby_order, social

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(PAIRS)
def test_the_order_has_everybody_once_and_components_together(
    pairs: list[tuple[int, int]],
) -> None:
    author, owner = np.array(pairs).T
    order = nearby_order(author, owner, 10).tolist()
    assert sorted(order) == list(range(10))
    component = list(range(10))
    for _ in range(10):
        for one, other in pairs:
            component[one] = component[other] = min(component[one], component[other])
    along = [component[user] for user in order]
    assert sum(a != b for a, b in itertools.pairwise(along)) == len(set(along)) - 1


@given(PAIRS)
def test_walls_divide_the_line_by_their_posts(pairs: list[tuple[int, int]]) -> None:
    author, owner = np.array(sorted(set(pairs))).T
    posts = np.arange(1.0, len(author) + 1)
    ties = social(author, owner, posts, 10)
    order = nearby_order(author, owner, 10)
    start = 0.0
    for user in order.tolist():
        mine = posts[owner == user].sum() / posts.sum()
        assert ties.positions[user] == pytest.approx(start + mine / 2)
        start += mine
    assert start == pytest.approx(1.0)


def test_drawn_interactions_are_like_the_facebook_wall_subset() -> None:
    """There: 2,245 users, 4,976 pairs, median 3 posts a pair, 99 % below 28."""
    ties = drawn_interactions(2245, 4976, np.random.default_rng(1))
    assert len(ties.author) == 4976
    assert len(set(zip(ties.author.tolist(), ties.owner.tolist(), strict=True))) == 4976
    assert (ties.author != ties.owner).all()
    assert float(np.median(ties.posts)) == pytest.approx(3.0, abs=0.3)
    assert float(np.percentile(ties.posts, 99)) == pytest.approx(28, rel=0.3)
    assert 1400 < len(ties.authors) < 2000


def test_a_subscription_is_for_somebody_its_user_interacts_with() -> None:
    ties = social(np.array([0, 2]), np.array([1, 3]), np.array([5.0, 1.0]), 4)
    block = Block(1, "subscriptions", 0, 0, 40)
    drawn = interactions.interests(block, interactions.Interactions(), ties)
    partner = {0: 1, 1: 0, 2: 3, 3: 2}
    expected = [ties.positions[partner[row % 4]] for row in range(40)]
    assert drawn.positions.tolist() == expected
