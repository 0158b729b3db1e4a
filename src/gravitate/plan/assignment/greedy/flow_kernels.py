"""Maximum flow from leaves to groups of subscribers, as kernels.

Groups are subscribers with the same candidates; an edge joins a group with one of its candidates,
and carries any number of subscribers. What bounds the flow is how many a leaf may have and how
many a group is. Dinic's algorithm on this graph, which needs neither reversed edges nor a source
or a sink in memory: a leaf with something to *spare* is the source, a group with a *need* the sink.
Ways lead from leaves to groups along any edge and back along edges that carry something, so a way
visits each leaf at most once, and there are at most as many phases as leaves.

Edges lie by group: those of group g from `first[g]` to `first[g + 1]`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros

UNSEEN = -1


class Graph(NamedTuple):
    """The flow so far, and what a search through it needs."""

    first: Any
    edge_leaf: Any
    edge_group: Any
    leaf_first: Any
    leaf_edge: Any
    """The edges of leaf k are `leaf_edge[leaf_first[k] : leaf_first[k + 1]]`."""
    spare: Any
    """What each leaf may have beside what it has."""
    need: Any
    """How many of each group are left."""
    carried: Any
    leaf_level: Any
    group_level: Any
    """How many steps from a leaf with something to spare, or `UNSEEN`."""
    leaf_at: Any
    group_at: Any
    """The edge of each to be tried next."""
    queue: Any
    way: Any


@kernel
def count_edges(masks: Any, first: Any) -> None:
    """Where the edges of each group start, for `list_edges`."""
    first[0] = 0
    for group in range(len(masks)):
        found = 0
        for word in range(masks.shape[1]):
            left = masks[group, word]
            while left != 0:
                left &= left - np.uint64(1)
                found += 1
        first[group + 1] = first[group] + found


@kernel
def list_edges(masks: Any, edge_leaf: Any, edge_group: Any) -> None:
    """The leaf and the group of each edge, leaves ascending within a group."""
    edge = 0
    for group in range(len(masks)):
        for word in range(masks.shape[1]):
            left = masks[group, word]
            while left != 0:
                edge_leaf[edge] = word * 64 + int(trailing_zeros(left))
                edge_group[edge] = group
                left &= left - np.uint64(1)
                edge += 1


@kernel
def increase(graph: Any) -> None:
    """Make the flow maximal, starting from what edges carry already.

    Afterwards leaves and groups that cannot be reached from a leaf with something to spare are
    `UNSEEN`: those groups together are more than all leaves that can serve them may have."""
    while _find_levels(graph):
        graph.leaf_at[:] = graph.leaf_first[:-1]
        graph.group_at[:] = graph.first[:-1]
        for leaf in range(len(graph.spare)):
            while graph.spare[leaf] > 0 and _push(graph, leaf):
                pass


@kernel
def _find_levels(graph: Any) -> Any:
    """How many steps leaves and groups are from a leaf with something to spare; whether any group
    with a need is reached."""
    graph.group_level[:] = UNSEEN
    queued = 0
    for leaf in range(len(graph.spare)):
        graph.leaf_level[leaf] = UNSEEN
        if graph.spare[leaf] > 0:
            graph.leaf_level[leaf] = 0
            graph.queue[queued] = leaf
            queued += 1
    is_found = False
    at = 0
    while at < queued:
        leaf = graph.queue[at]
        at += 1
        for position in range(graph.leaf_first[leaf], graph.leaf_first[leaf + 1]):
            group = graph.edge_group[graph.leaf_edge[position]]
            if graph.group_level[group] != UNSEEN:
                continue
            graph.group_level[group] = graph.leaf_level[leaf] + 1
            if graph.need[group] > 0:
                is_found = True
            for edge in range(graph.first[group], graph.first[group + 1]):
                behind = graph.edge_leaf[edge]
                if graph.carried[edge] > 0 and graph.leaf_level[behind] == UNSEEN:
                    graph.leaf_level[behind] = graph.group_level[group] + 1
                    graph.queue[queued] = behind
                    queued += 1
    return is_found


@kernel
def _push(graph: Any, start: Any) -> Any:
    """Send as much as goes along one way from a leaf to a need, levels ascending; whether there
    was a way. `way` has the edges by turns: to a group, back to a leaf."""
    leaf, steps = start, 0
    while True:
        group = UNSEEN
        while graph.leaf_at[leaf] < graph.leaf_first[leaf + 1]:
            edge = graph.leaf_edge[graph.leaf_at[leaf]]
            if graph.group_level[graph.edge_group[edge]] == graph.leaf_level[leaf] + 1:
                group = graph.edge_group[edge]
                graph.way[steps] = edge
                steps += 1
                break
            graph.leaf_at[leaf] += 1
        if group == UNSEEN:
            if steps == 0:
                return False
            # A dead end: back to the group before, whose edge to here is used up.
            steps -= 1
            group = graph.edge_group[graph.way[steps]]
            graph.group_at[group] += 1
        if graph.need[group] > 0:
            break
        behind = UNSEEN
        while graph.group_at[group] < graph.first[group + 1]:
            edge = graph.group_at[group]
            if (
                graph.carried[edge] > 0
                and graph.leaf_level[graph.edge_leaf[edge]] == graph.group_level[group] + 1
            ):
                behind = graph.edge_leaf[edge]
                graph.way[steps] = edge
                steps += 1
                break
            graph.group_at[group] += 1
        if behind == UNSEEN:
            steps -= 1
            leaf = graph.edge_leaf[graph.way[steps]]
            graph.leaf_at[leaf] += 1
        else:
            leaf = behind
    amount = min(graph.spare[start], graph.need[group])
    for step in range(1, steps, 2):
        amount = min(amount, graph.carried[graph.way[step]])
    for step in range(steps):
        graph.carried[graph.way[step]] += amount if step % 2 == 0 else -amount
    graph.spare[start] -= amount
    graph.need[group] -= amount
    return True
