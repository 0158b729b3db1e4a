"""Filters for a given assignment, as small as is found (Adjust: paper 4, section 4.3).

    solution = adjusted(problem, leaf, preliminary, seed)

A leaf's filter has to hold the interests of its subscribers, an inner broker's filter the boxes of
its children; so the tree is gone through from the leaves up. For each broker the filter of least
volume is taken out of

- the boxes around alpha groups that k-means makes in the event space (lower and upper corners);
- the preliminary filter, *tightened*: each interest goes to the first of its boxes that holds it,
  and each box shrinks to what went to it. Only where it has at most alpha boxes and holds all;
- beyond the paper, what `filter_kernels` grows from the interests, the largest first.

Interests that lie within another are left out before clustering: they ask for nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import numpy as np

from gravitate.model.seeds import generator
from gravitate.plan.assignment.boxes import filter_kernels as kernels
from gravitate.plan.assignment.boxes.clustering import enclosing_boxes, k_means
from gravitate.plan.assignment.boxes.volume_kernels import union_volume
from gravitate.plan.assignment.problem.problem import PUBLISHER, Floats, Ints, Network, Problem
from gravitate.plan.assignment.problem.solution import Filters, Solution, filters_of


class AdjustParameters(msgspec.Struct, frozen=True):
    """What `adjusted` tries."""

    starts: Annotated[int, msgspec.Meta(ge=1)] = 3
    """How many times k-means is begun; the paper does not say."""
    is_grown: bool = True
    """Whether growing is tried too, which the paper does not."""


DEFAULTS: Final = AdjustParameters()


def adjusted(
    problem: Problem,
    leaf: Ints,
    preliminary: Filters | None = None,
    seed: int = 0,
    parameters: AdjustParameters = DEFAULTS,
) -> Solution:
    """The assignment with filters of at most alpha boxes that nest."""
    network = problem.network
    found = [
        broker_filter(network, broker, problem.interests[own], preliminary, seed, parameters)
        for broker, own in zip(network.leaves.tolist(), _by_leaf(problem, leaf), strict=True)
    ]
    return Solution(leaf, filters_upward(network, found, preliminary, seed, parameters))


def broker_filter(
    network: Network,
    broker: int,
    inside: Floats,
    preliminary: Filters | None = None,
    seed: int = 0,
    parameters: AdjustParameters = DEFAULTS,
) -> Floats:
    """The filter of one broker with these interests, or boxes of children, below it."""
    return small_filter(
        inside,
        int(network.complexity[broker]),
        generator(seed, "assignment", "adjust", broker),
        None if preliminary is None else preliminary.of(broker),
        parameters,
    )


def filters_upward(
    network: Network,
    of_leaves: Sequence[Floats],
    preliminary: Filters | None = None,
    seed: int = 0,
    parameters: AdjustParameters = DEFAULTS,
) -> Filters:
    """The filters of all brokers from those of the leaves."""
    dimensions = of_leaves[0].shape[2]
    inside: list[list[Floats]] = [[] for _ in range(len(network))]
    found: list[Floats] = [np.empty((0, 2, dimensions))] * len(network)
    for broker, boxes in zip(network.leaves.tolist(), of_leaves, strict=True):
        found[broker] = boxes
    for broker in network.order[::-1].tolist():
        if inside[broker]:
            boxes = np.concatenate(inside[broker])
            found[broker] = broker_filter(network, broker, boxes, preliminary, seed, parameters)
        above = int(network.parent[broker])
        if above != PUBLISHER:
            inside[above].append(found[broker])
    return filters_of(found, dimensions)


def small_filter(
    boxes: Floats,
    complexity: int,
    rng: np.random.Generator,
    preliminary: Floats | None = None,
    parameters: AdjustParameters = DEFAULTS,
) -> Floats:
    """At most `complexity` boxes, each of `boxes` within one of them, with a small union."""
    if len(boxes) == 0:
        return boxes
    outer = outermost(boxes)
    if len(outer) <= complexity:
        return outer
    choices = [_clustered(outer, complexity, rng) for _ in range(parameters.starts)]
    if preliminary is not None and len(preliminary) <= complexity:
        tight = tightened(preliminary, outer)
        if tight is not None:
            choices.append(tight)
    if parameters.is_grown:
        choices.append(grown(outer, complexity))
    return min(choices, key=union_volume)


def tightened(filter: Floats, boxes: Floats) -> Floats | None:
    """The filter's boxes shrunk to those of `boxes` that go to each; None when one goes to none."""
    group = np.empty(len(boxes), dtype=np.int32)
    kernels.first_holders(np.ascontiguousarray(filter), boxes, group)
    if (group == kernels.BY_NONE).any():
        return None
    numbers, own = np.unique(group, return_inverse=True)
    return enclosing_boxes(boxes, own.astype(np.int32), len(numbers))


def grown(boxes: Floats, complexity: int) -> Floats:
    """The filter that grows when boxes are added one after the other, the largest first."""
    sizes = np.prod(boxes[:, 1] - boxes[:, 0], axis=1)
    order = np.argsort(-sizes, kind="stable")
    nowhere, one = np.array([PUBLISHER], dtype=np.int32), np.zeros(1, dtype=np.int32)
    growing = kernels.no_filters(nowhere, one, one + np.int32(complexity), boxes.shape[2])
    kernels.grow_all(growing, boxes, np.zeros(len(boxes), dtype=np.int32), order)
    return np.ascontiguousarray(growing.boxes[0, : growing.count[0]])


def outermost(boxes: Floats) -> Floats:
    """The boxes that lie within no other; of equal ones the first."""
    different = np.unique(boxes.reshape(len(boxes), -1), axis=0)
    rows = np.ascontiguousarray(different.reshape(-1, 2, boxes.shape[2]))
    sizes = (rows[:, 1] - rows[:, 0]).sum(axis=1)
    rows = np.ascontiguousarray(rows[np.argsort(-sizes, kind="stable")])
    is_outermost = np.empty(len(rows), dtype=np.bool_)
    kernels.mark_outermost(rows, is_outermost)
    return np.ascontiguousarray(rows[is_outermost])


def _clustered(boxes: Floats, complexity: int, rng: np.random.Generator) -> Floats:
    group = k_means(boxes.reshape(len(boxes), -1), complexity, rng)
    return enclosing_boxes(boxes, group, int(group.max()) + 1)


def _by_leaf(problem: Problem, leaf: Ints) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The subscribers of each leaf."""
    order = np.argsort(leaf, kind="stable")
    starts = np.searchsorted(leaf[order], np.arange(1, len(problem.network.leaves)))
    return np.split(order, starts)
