"""The poset of topics: containment, balancing, passing upward, regions."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.pipeline.workloads import topics

SIZES = np.arange(1, 301) ** -1.16


def _grown(sizes: np.ndarray = SIZES, dimensions: int = 2, seed: int = 1) -> topics.Topics:
    return topics.grown(sizes, 4, 5, 10.0, dimensions, np.random.default_rng(seed))


def _of(parents: list[int], popularity: list[float]) -> topics.Topics:
    corners = np.zeros((len(parents), 2))
    return topics.Topics(np.array(parents), np.array(popularity), corners, corners)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 60), dimensions=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_every_topic_lies_within_its_parent(count: int, dimensions: int, seed: int) -> None:
    poset = _grown(np.ones(count), dimensions, seed)
    assert (poset.low < poset.high).all()
    assert (poset.low >= 0).all()
    assert (poset.high <= 10).all()
    for topic, parent in enumerate(poset.parents):
        assert parent < topic
        if parent >= 0:
            assert (poset.low[parent] <= poset.low[topic]).all()
            assert (poset.high[topic] <= poset.high[parent]).all()


def test_the_forest_has_three_levels_and_no_empty_branch() -> None:
    poset = _grown()
    assert np.bincount(poset.parents + 1)[0] == 4
    assert poset.broad.sum() == 4 + 4 * 5
    assert len(poset) == 4 + 20 + 300
    assert poset.popularity.sum() == pytest.approx(1)
    assert poset.popularity[poset.broad].sum() == 0
    below = np.bincount(poset.parents[24:], minlength=24)[4:]
    assert below.tolist() == [15] * 20


def test_siblings_share_the_parent_and_overlap_little() -> None:
    poset = _grown()
    volumes = (poset.high - poset.low).prod(axis=1)
    assert volumes[:4].sum() == pytest.approx(100, rel=0.35)
    assert volumes[24:].sum() == pytest.approx(100, rel=0.35)


def test_diffusion_cuts_the_variance_between_siblings_and_keeps_their_sum() -> None:
    before = _of([-1, -1, 0, 0, 1, 1], [0.0, 0.0, 0.5, 0.1, 0.3, 0.1])
    after = topics.diffused(before, 0.55)
    assert after.popularity.sum() == pytest.approx(1)
    top_before, top_after = (
        topics.subtree_sums(poset.parents, poset.popularity)[:2] for poset in (before, after)
    )
    assert top_before.tolist() == pytest.approx([0.6, 0.4])
    assert _variance(top_after) == pytest.approx(0.45 * _variance(top_before))
    for first, old_sum, new_sum in ((2, 0.6, top_after[0]), (4, 0.4, top_after[1])):
        old = before.popularity[first : first + 2] / old_sum
        new = after.popularity[first : first + 2] / new_sum
        assert new.sum() == pytest.approx(1)
        assert _variance(new) == pytest.approx(0.45 * _variance(old))


def test_no_diffusion_changes_nothing_and_full_diffusion_levels() -> None:
    poset = topics.generalised(_grown(), 0.1)
    assert topics.diffused(poset, 0.0).popularity == pytest.approx(poset.popularity)
    level = topics.subtree_sums(poset.parents, topics.diffused(poset, 1.0).popularity)
    assert level[:4] == pytest.approx([0.25] * 4)


def test_generalisation_passes_the_fraction_upward_level_by_level() -> None:
    poset = topics.generalised(_of([-1, 0, 1, 1], [0.0, 0.0, 0.7, 0.3]), 0.1)
    assert poset.popularity == pytest.approx([0.01, 0.09, 0.63, 0.27])


@pytest.mark.parametrize("fraction", [0.01, 0.1])
def test_broad_topics_have_the_fraction_that_was_passed(fraction: float) -> None:
    poset = topics.generalised(_grown(), fraction)
    assert poset.popularity.sum() == pytest.approx(1)
    assert poset.popularity[poset.broad].sum() == pytest.approx(fraction)
    assert poset.popularity[:4].sum() == pytest.approx(fraction**2)


def test_regions_and_topics_keep_their_shares_and_regions_differ() -> None:
    poset = topics.generalised(_grown(), 0.1)
    joint = topics.regional(poset, np.array([4.0, 1.0, 4.0]), 0.7, np.random.default_rng(3))
    assert joint.sum(axis=1) == pytest.approx([4 / 9, 1 / 9, 4 / 9], rel=1e-9)
    assert joint.sum(axis=0) == pytest.approx(poset.popularity, rel=1e-6)
    by_region = joint / joint.sum(axis=1)[:, None]
    assert np.abs(by_region[0] - by_region[2]).sum() > 0.3


def _variance(values: np.ndarray) -> float:
    return statistics.pvariance(values.tolist())
