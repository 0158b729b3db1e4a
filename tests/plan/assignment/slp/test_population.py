"""What is asked of all subscribers, block by block."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.problems import drawn, problems

from gravitate.plan.assignment.greedy.balance import balanced
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Problem,
    candidate_lists,
    leaf_bits,
)
from gravitate.plan.assignment.problem.solution import Filters, filters_of
from gravitate.plan.assignment.slp.level import ELSEWHERE, flat, level_of
from gravitate.plan.assignment.slp.population import BLOCK, ArrayPopulation, blocks_of

NOTHING_SHORT = np.empty((0, 1), dtype=np.uint64)


def population_of(problem: Problem, seed: int = 1) -> ArrayPopulation:
    return ArrayPopulation(
        blocks_of(problem.locations, problem.interests, problem.reach.candidates), seed
    )


def tight(problem: Problem, share: float) -> Filters:
    """Gr*'s filters of leaves, with the boxes that come first only."""
    filters = gr_star(problem, 1).filters
    own = [filters.of(broker) for broker in problem.network.leaves.tolist()]
    return filters_of([boxes[: int(share * 3)] for boxes in own], problem.dimensions)


def holds(boxes: Floats, interest: Floats) -> bool:
    return any((box[0] <= interest[0]).all() and (box[1] >= interest[1]).all() for box in boxes)


@given(problems(subscribers_max=8), st.sampled_from((0.0, 0.4, 0.7, 1.0)))
def test_coverage_and_choices_are_what_they_say(problem: Problem, share: float) -> None:
    if len(problem) == 0:
        return
    level, filters = flat(problem.network), tight(problem, share)
    population = population_of(problem)
    candidates = candidate_lists(problem.reach.candidates, len(level))
    covering = [
        [leaf for leaf in own if holds(filters.of(leaf), interest)]
        for own, interest in zip(candidates, problem.interests, strict=True)
    ]
    uncovered = sum(not leaves for leaves in covering)
    assert population.coverage(level, filters).uncovered_count == uncovered
    choices = population.choices(level, filters, NOTHING_SHORT)
    assert choices.uncovered == uncovered
    assert choices.sizes.sum() == len(problem)
    found = [set(row) for row in candidate_lists(choices.masks, len(level))]
    for own, all_own in zip(covering, candidates, strict=True):
        if own:
            assert set(own) in found
        else:
            assert any(len(some) == 1 and some <= set(all_own) for some in found)


def test_who_is_not_covered_is_drawn_more_often() -> None:
    problem = drawn(1, subscribers=3_000, brokers=10)
    level, filters = flat(problem.network), tight(drawn(1, 3_000, 10), 0.4)
    population = population_of(problem)
    share = population.coverage(level, filters).uncovered_count / len(problem)
    assert 0.05 < share < 0.95
    before = population.sample(300, "some", by_weight=True)
    for _ in range(6):
        population.double_uncovered(level, filters)
    coverage = population.coverage(level, filters)
    assert coverage.uncovered_share > 0.7
    assert coverage.uncovered_count == round(share * len(problem))
    after = population.sample(300, "some", by_weight=True)
    is_covered = np.zeros(len(problem), dtype=np.bool_)
    candidates = candidate_lists(problem.reach.candidates, len(level))
    for subscriber in {*before.number.tolist(), *after.number.tolist()}:
        is_covered[subscriber] = any(
            holds(filters.of(leaf), problem.interests[subscriber])
            for leaf in candidates[subscriber]
        )
    assert is_covered[after.number].mean() < is_covered[before.number].mean()
    population.forget_weights()
    np.testing.assert_array_equal(
        population.sample(300, "some", by_weight=True).number, before.number
    )


def test_a_sample_has_everybody_once_and_is_nobodys_favourite() -> None:
    count = 2 * BLOCK + 100
    rows = np.zeros((count, 1))
    boxes = np.zeros((count, 2, 1))
    bits = np.ones((count, 1), dtype=np.uint64)
    population = ArrayPopulation(blocks_of(rows, boxes, bits), 1)
    found = population.sample(5_000, "load").number
    assert len(np.unique(found)) == 5_000
    assert abs(found.mean() / count - 0.5) < 0.02
    assert len(population.sample(count + 5, "all")) == count
    assert (population.sample(5_000, "other").number != found).any()


def test_an_assignment_is_as_the_spread_says_over_all_blocks() -> None:
    count = BLOCK + 4_000
    problem = drawn(3, subscribers=count, brokers=10)
    level, filters = flat(problem.network), tight(problem, 1.0)
    population = population_of(problem)
    assert len(population) == count
    choices = population.choices(level, filters, NOTHING_SHORT)
    spread = balanced(choices.masks, choices.sizes, problem.network.capacity, at_least=1.5)
    leaf = population.assign(level, filters, NOTHING_SHORT, choices, spread)
    wanted = np.bincount(spread.leaf, spread.carried, len(level))
    np.testing.assert_array_equal(np.bincount(leaf, minlength=len(level)), wanted)
    bits = (problem.reach.candidates[:, 0] >> leaf.astype(np.uint64)) & np.uint64(1)
    assert bits.all()


def test_those_who_have_only_leaves_that_are_too_few_get_another_child() -> None:
    problem = drawn(4, subscribers=2_000, brokers=10)
    level, filters = flat(problem.network), tight(problem, 1.0)
    population = population_of(problem)
    is_short = np.arange(len(level)) < 5
    short = leaf_bits(is_short)[None]
    choices = population.choices(level, filters, short)
    plain = population.choices(level, filters, NOTHING_SHORT)
    only_short = sum(
        size
        for leaves, size in zip(candidate_lists(plain.masks, 10), plain.sizes, strict=True)
        if all(is_short[leaves])
    )
    left = sum(
        size
        for leaves, size in zip(candidate_lists(choices.masks, 10), choices.sizes, strict=True)
        if all(is_short[leaves])
    )
    stuck = sum(all(is_short[own]) for own in candidate_lists(problem.reach.candidates, len(level)))
    assert left == stuck < only_short


def test_a_level_knows_the_leaves_below_each_child() -> None:
    network = drawn(5, brokers=20, levels=2).network
    level = level_of(network, PUBLISHER)
    for at, leaf in enumerate(network.leaves.tolist()):
        above = leaf
        while network.parent[above] != PUBLISHER:
            above = network.parent[above]
        assert level.brokers[level.child[at]] == above
    top = int(level.brokers[0])
    below = level_of(network, top)
    for at, leaf in enumerate(network.leaves.tolist()):
        is_below = network.parent[leaf] == top
        assert (below.child[at] != ELSEWHERE) == is_below
