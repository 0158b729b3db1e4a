"""The best balance of load that latencies leave, by maximum flow (paper 4, sections 4.2 and 6).

    spread = balanced(masks, sizes, capacity)                # the least load balance factor
    spread = balanced(masks, sizes, capacity, at_least=1.5)  # the least from 1.5

Subscribers with the same candidates are one node with a number (`grouped`), so the graph is as
small as there are different sets of candidates. The flow is that of `flow_kernels`.

The factor is found from below. A flow that does not serve everybody leaves a proof: groups that
are more than all leaves which can serve them may have. The factor rises to the least with which
these leaves have room for these groups; capacities only grow, so the flow goes on from where it
is. Each factor tried is needed, hence the first that suffices is the least. The paper raises it
by a small factor instead, and may overshoot.

Deviation of `balance`: the paper's Balance says nothing of who of a group goes where; arrival
decides. Filters are those that Gr would grow.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.greedy import flow_kernels as kernels
from gravitate.plan.assignment.greedy.greedy import arrival, with_grown_filters
from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs, Problem, Words, whole
from gravitate.plan.assignment.problem.solution import Solution


class Groups(msgspec.Struct, frozen=True, eq=False):
    """Subscribers by their sets of leaves."""

    masks: Words
    """(groups, words), all different."""
    sizes: Longs
    group: Longs
    """Of each subscriber."""


class Spread(msgspec.Struct, frozen=True, eq=False):
    """How many of each group go to which leaf."""

    factor: float
    """The load balance factor that had to be allowed; infinite when only leaves without a fair
    share can serve somebody."""
    group: Ints
    """Of each edge, ascending."""
    leaf: Ints
    """Of each edge, ascending within a group."""
    carried: Longs
    """How many go along each edge."""
    short: NDArray[np.bool_]
    """The leaves that are too few, when not everybody is served within the factor allowed: those
    who are left have no others. None of them otherwise."""


def grouped(masks: Words) -> Groups:
    """The different rows of `masks`, and which of them each row is."""
    order = np.lexsort(masks.T)
    rows = masks[order]
    is_new = np.ones(len(rows), dtype=np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    sizes = np.bincount(group, minlength=int(is_new.sum())).astype(np.int64)
    return Groups(np.ascontiguousarray(rows[is_new]), sizes, group)


def balanced(
    masks: Words,
    sizes: Longs,
    capacity: Floats,
    at_least: float = 0.0,
    at_most: float = np.inf,
    total: int | None = None,
) -> Spread:
    """Everybody to a leaf of their set, with the least load balance factor from `at_least`.

    `sizes` says how many subscribers have the set in each row of `masks`; no set may be empty.
    `capacity` has the fair share of each leaf as a fraction of `total`: the number of these
    subscribers, unless they are a part of all. When a factor above `at_most` would be needed, only
    those are served who can be with the factor that was reached."""
    everybody = int(sizes.sum())
    fair = capacity * (everybody if total is None else total)
    first = np.empty(len(masks) + 1, dtype=np.int64)
    kernels.count_edges(masks, first)
    edge_leaf = np.empty(first[-1], dtype=np.int32)
    edge_group = np.empty(first[-1], dtype=np.int32)
    kernels.list_edges(masks, edge_leaf, edge_group)
    leaf_edge = np.argsort(edge_leaf, kind="stable").astype(np.int32)
    leaf_first = np.zeros(len(fair) + 1, dtype=np.int64)
    np.cumsum(np.bincount(edge_leaf, minlength=len(fair)), out=leaf_first[1:])
    factor = max(at_least, 1.0 if everybody and total is None else 0.0)
    allowed = whole(factor * fair)
    graph = kernels.Graph(
        first,
        edge_leaf,
        edge_group,
        leaf_first,
        leaf_edge,
        spare=allowed.copy(),
        need=sizes.astype(np.int64),
        carried=np.zeros(len(edge_leaf), dtype=np.int64),
        leaf_level=np.empty(len(fair), dtype=np.int32),
        group_level=np.empty(len(masks), dtype=np.int32),
        leaf_at=np.empty(len(fair), dtype=np.int64),
        group_at=np.empty(len(masks), dtype=np.int64),
        queue=np.empty(len(fair), dtype=np.int64),
        way=np.empty(2 * len(fair) + 2, dtype=np.int64),
    )
    while True:
        kernels.increase(graph)
        short = graph.leaf_level == kernels.UNSEEN
        if not graph.need.any():
            return Spread(factor, edge_group, edge_leaf, graph.carried, np.zeros_like(short))
        crowd = int(sizes[graph.group_level == kernels.UNSEEN].sum())
        more = allowed.copy()
        before = factor
        if fair[short].sum() > 0.0:
            factor = _least_factor(fair[short], crowd, factor)
            more = np.maximum(more, whole(factor * fair))
        else:
            factor = np.inf
            more[short] = everybody
        if factor > at_most:
            return Spread(before, edge_group, edge_leaf, graph.carried, short)
        graph.spare[:] += more - allowed
        allowed = more


def balance(problem: Problem, seed: int = 0) -> Solution:
    """Balance: the assignment with the least load balance factor within the latency bounds."""
    groups = grouped(problem.reach.candidates)
    spread = balanced(groups.masks, groups.sizes, problem.network.capacity)
    return with_grown_filters(problem, leaves_of(groups, spread, arrival(problem, seed)), seed)


def best_load_factor(problem: Problem) -> float:
    """The least load balance factor that latencies allow, in whole subscribers."""
    groups = grouped(problem.reach.candidates)
    return balanced(groups.masks, groups.sizes, problem.network.capacity).factor


def leaves_of(groups: Groups, spread: Spread, order: Longs) -> Ints:
    """A leaf for each subscriber; those of a group go to its leaves in the given order."""
    leaf = np.empty(len(groups.group), dtype=np.int32)
    by_group = order[np.argsort(groups.group[order], kind="stable")]
    leaf[by_group] = np.repeat(spread.leaf, spread.carried)
    return leaf


def _least_factor(fair: Floats, crowd: int, above: float) -> float:
    """The least factor from `above` with which leaves have room for a crowd."""
    factor = max(above, crowd / float(fair.sum()))
    while whole(factor * fair).sum() < crowd:
        shares = fair[fair > 0]
        factor = float(((whole(factor * shares) + 1) / shares).min())
    return factor
