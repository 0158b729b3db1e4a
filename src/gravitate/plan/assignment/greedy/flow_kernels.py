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

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros

UNSEEN = -1


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
def increase(
    first: Any,
    edge_leaf: Any,
    edge_group: Any,
    leaf_first: Any,
    leaf_edge: Any,
    spare: Any,
    need: Any,
    carried: Any,
    leaf_level: Any,
    group_level: Any,
) -> None:
    """Make the flow maximal, starting from what edges carry already.

    `leaf_edge[leaf_first[k] : leaf_first[k + 1]]` are the edges of leaf k. Afterwards the levels
    of leaves and groups that cannot be reached from a leaf with something to spare are `UNSEEN`:
    those groups together are more than all leaves that can serve them may have."""
    leaves, groups = len(spare), len(need)
    leaf_at = np.empty(leaves, dtype=np.int64)
    group_at = np.empty(groups, dtype=np.int64)
    queue = np.empty(leaves, dtype=np.int64)
    way = np.empty(2 * leaves + 2, dtype=np.int64)
    while _find_levels(
        first,
        edge_leaf,
        edge_group,
        leaf_first,
        leaf_edge,
        spare,
        need,
        carried,
        leaf_level,
        group_level,
        queue,
    ):
        leaf_at[:] = leaf_first[:-1]
        group_at[:] = first[:-1]
        for leaf in range(leaves):
            while spare[leaf] > 0 and _push(
                leaf,
                first,
                edge_leaf,
                edge_group,
                leaf_first,
                leaf_edge,
                spare,
                need,
                carried,
                leaf_level,
                group_level,
                leaf_at,
                group_at,
                way,
            ):
                pass


@kernel
def _find_levels(
    first: Any,
    edge_leaf: Any,
    edge_group: Any,
    leaf_first: Any,
    leaf_edge: Any,
    spare: Any,
    need: Any,
    carried: Any,
    leaf_level: Any,
    group_level: Any,
    queue: Any,
) -> Any:
    """How many steps leaves and groups are from a leaf with something to spare; whether any group
    with a need is reached."""
    group_level[:] = UNSEEN
    queued = 0
    for leaf in range(len(spare)):
        leaf_level[leaf] = UNSEEN
        if spare[leaf] > 0:
            leaf_level[leaf] = 0
            queue[queued] = leaf
            queued += 1
    is_found = False
    at = 0
    while at < queued:
        leaf = queue[at]
        at += 1
        for position in range(leaf_first[leaf], leaf_first[leaf + 1]):
            group = edge_group[leaf_edge[position]]
            if group_level[group] != UNSEEN:
                continue
            group_level[group] = leaf_level[leaf] + 1
            if need[group] > 0:
                is_found = True
            for edge in range(first[group], first[group + 1]):
                behind = edge_leaf[edge]
                if carried[edge] > 0 and leaf_level[behind] == UNSEEN:
                    leaf_level[behind] = group_level[group] + 1
                    queue[queued] = behind
                    queued += 1
    return is_found


@kernel
def _push(
    start: Any,
    first: Any,
    edge_leaf: Any,
    edge_group: Any,
    leaf_first: Any,
    leaf_edge: Any,
    spare: Any,
    need: Any,
    carried: Any,
    leaf_level: Any,
    group_level: Any,
    leaf_at: Any,
    group_at: Any,
    way: Any,
) -> Any:
    """Send as much as goes along one way from a leaf to a need, levels ascending; whether there
    was a way. `way` has the edges by turns: to a group, back to a leaf."""
    leaf, steps = start, 0
    while True:
        group = UNSEEN
        while leaf_at[leaf] < leaf_first[leaf + 1]:
            edge = leaf_edge[leaf_at[leaf]]
            if group_level[edge_group[edge]] == leaf_level[leaf] + 1:
                group = edge_group[edge]
                way[steps] = edge
                steps += 1
                break
            leaf_at[leaf] += 1
        if group == UNSEEN:
            if steps == 0:
                return False
            # A dead end: back to the group before, whose edge to here is used up.
            steps -= 1
            group = edge_group[way[steps]]
            group_at[group] += 1
        if need[group] > 0:
            break
        behind = UNSEEN
        while group_at[group] < first[group + 1]:
            edge = group_at[group]
            if carried[edge] > 0 and leaf_level[edge_leaf[edge]] == group_level[group] + 1:
                behind = edge_leaf[edge]
                way[steps] = edge
                steps += 1
                break
            group_at[group] += 1
        if behind == UNSEEN:
            steps -= 1
            leaf = edge_leaf[way[steps]]
            leaf_at[leaf] += 1
        else:
            leaf = behind
    amount = min(spare[start], need[group])
    for step in range(1, steps, 2):
        amount = min(amount, carried[way[step]])
    for step in range(steps):
        carried[way[step]] += amount if step % 2 == 0 else -amount
    spare[start] -= amount
    need[group] -= amount
    return True
