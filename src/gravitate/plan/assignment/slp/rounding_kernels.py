"""Rounding as kernels: the load sample placed on leaves, and options taken back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gravitate.matching.jit import kernel

NOWHERE: Final = -1


@kernel
def count_covers(is_taken: Any, option: Any, first_option: Any, covers: Any) -> None:
    """How many of the taken options serve each pair."""
    for pair in range(len(covers)):
        count = 0
        for at in range(first_option[pair], first_option[pair + 1]):
            count += is_taken[option[at]]
        covers[pair] = count


@kernel
def is_covered(subscriber: Any, first_pair: Any, covers: Any) -> Any:
    """Whether any taken option serves a subscriber."""
    for pair in range(first_pair[subscriber], first_pair[subscriber + 1]):
        if covers[pair] > 0:
            return True
    return False


@kernel
def place(
    subscriber: Any,
    first_way: Any,
    way_leaf: Any,
    way_pair: Any,
    covers: Any,
    room: Any,
    leaf: Any,
    next_on: Any,
    first_on: Any,
    load: Any,
    from_leaf: Any,
    from_subscriber: Any,
    queue: Any,
) -> Any:
    """Place a subscriber of the load sample on a leaf with room, moving others on where that makes
    room. Returns whether it could be done; if not, nothing has changed.

    `first_on` and `next_on` chain the subscribers of each leaf. `from_leaf`, `from_subscriber` and
    `queue` are room to work in, one for each leaf."""
    from_leaf[:] = -2
    head, tail = 0, 0
    end = -1
    for way in range(first_way[subscriber], first_way[subscriber + 1]):
        at = way_leaf[way]
        if covers[way_pair[way]] > 0 and from_leaf[at] == -2:
            from_leaf[at], from_subscriber[at] = -1, subscriber
            queue[tail] = at
            tail += 1
    while head < tail and end < 0:
        here = queue[head]
        head += 1
        if load[here] < room[here]:
            end = here
            break
        other = first_on[here]
        while other >= 0:
            for way in range(first_way[other], first_way[other + 1]):
                at = way_leaf[way]
                if from_leaf[at] == -2 and covers[way_pair[way]] > 0:
                    from_leaf[at], from_subscriber[at] = here, other
                    queue[tail] = at
                    tail += 1
            other = next_on[other]
    if end < 0:
        return False
    load[end] += 1
    while True:
        moved, source = from_subscriber[end], from_leaf[end]
        if source >= 0:
            take_off(moved, source, next_on, first_on)
        leaf[moved] = end
        next_on[moved] = first_on[end]
        first_on[end] = moved
        if source < 0:
            return True
        end = source


@kernel
def take_off(subscriber: Any, leaf: Any, next_on: Any, first_on: Any) -> None:
    """Take a subscriber out of the chain of its leaf."""
    at = first_on[leaf]
    if at == subscriber:
        first_on[leaf] = next_on[subscriber]
        return
    while next_on[at] != subscriber:
        at = next_on[at]
    next_on[at] = next_on[subscriber]


@kernel
def prune(
    order: Any,
    spared: Any,
    child: Any,
    taken_by: Any,
    is_taken: Any,
    served_pair: Any,
    first_served: Any,
    pair_subscriber: Any,
    first_pair: Any,
    first_way: Any,
    way_leaf: Any,
    way_pair: Any,
    is_load: Any,
    covers: Any,
    room: Any,
    leaf: Any,
    next_on: Any,
    first_on: Any,
    load: Any,
) -> None:
    """Take back options in the given order, as long as everybody stays covered and the load sample
    keeps its places. A child with no more than `spared` options loses none.

    `served_pair` are the pairs that each option serves. `leaf`, `next_on`, `first_on` and `load`
    are the places of the load sample, and are kept up to date."""
    leaves = len(room)
    from_leaf = np.empty(leaves, dtype=np.int32)
    from_subscriber = np.empty(leaves, dtype=np.int32)
    queue = np.empty(leaves, dtype=np.int32)
    homeless = np.empty(len(is_load), dtype=np.int32)
    for option in order:
        if not is_taken[option] or taken_by[child[option]] <= spared[child[option]]:
            continue
        is_needed = False
        for at in range(first_served[option], first_served[option + 1]):
            covers[served_pair[at]] -= 1
        count = 0
        for at in range(first_served[option], first_served[option + 1]):
            pair = served_pair[at]
            subscriber = pair_subscriber[pair]
            if covers[pair] > 0:
                continue
            if not is_covered(subscriber, first_pair, covers):
                is_needed = True
                break
            if is_load[subscriber] and is_place_lost(
                subscriber, leaf[subscriber], first_way, way_leaf, way_pair, covers
            ):
                homeless[count] = subscriber
                count += 1
        if not is_needed:
            is_needed = not rehoused(
                homeless[:count],
                first_way,
                way_leaf,
                way_pair,
                covers,
                room,
                leaf,
                next_on,
                first_on,
                load,
                from_leaf,
                from_subscriber,
                queue,
            )
        if is_needed:
            for at in range(first_served[option], first_served[option + 1]):
                covers[served_pair[at]] += 1
        else:
            is_taken[option] = False
            taken_by[child[option]] -= 1


@kernel
def is_place_lost(
    subscriber: Any, leaf: Any, first_way: Any, way_leaf: Any, way_pair: Any, covers: Any
) -> Any:
    """Whether no taken option serves a subscriber on its leaf any more."""
    for way in range(first_way[subscriber], first_way[subscriber + 1]):
        if way_leaf[way] == leaf:
            return covers[way_pair[way]] == 0
    return True


@kernel
def rehoused(
    homeless: Any,
    first_way: Any,
    way_leaf: Any,
    way_pair: Any,
    covers: Any,
    room: Any,
    leaf: Any,
    next_on: Any,
    first_on: Any,
    load: Any,
    from_leaf: Any,
    from_subscriber: Any,
    queue: Any,
) -> Any:
    """Find other places for some of the load sample. Returns whether all got one; if not, all are
    where they were."""
    if len(homeless) == 0:
        return True
    old_leaf, old_next = leaf.copy(), next_on.copy()
    old_first, old_load = first_on.copy(), load.copy()
    for subscriber in homeless:
        take_off(subscriber, leaf[subscriber], next_on, first_on)
        load[leaf[subscriber]] -= 1
    for subscriber in homeless:
        if not place(
            subscriber,
            first_way,
            way_leaf,
            way_pair,
            covers,
            room,
            leaf,
            next_on,
            first_on,
            load,
            from_leaf,
            from_subscriber,
            queue,
        ):
            leaf[:], next_on[:] = old_leaf, old_next
            first_on[:], load[:] = old_first, old_load
            return False
    return True


@kernel
def is_covered_way(subscriber: Any, first_way: Any, way_pair: Any, covers: Any) -> Any:
    """Whether any taken option serves a subscriber."""
    for way in range(first_way[subscriber], first_way[subscriber + 1]):
        if covers[way_pair[way]] > 0:
            return True
    return False


@kernel
def place_all(
    is_load: Any,
    first_way: Any,
    way_leaf: Any,
    way_pair: Any,
    covers: Any,
    room: Any,
    leaf: Any,
    next_on: Any,
    first_on: Any,
    load: Any,
) -> None:
    """Place the load sample. Where there is no room, a leaf gets room for one more: of those that
    serve the subscriber the one with the most."""
    from_leaf = np.empty(len(room), dtype=np.int32)
    from_subscriber = np.empty(len(room), dtype=np.int32)
    queue = np.empty(len(room), dtype=np.int32)
    for subscriber in range(len(is_load)):
        if not is_load[subscriber] or not is_covered_way(subscriber, first_way, way_pair, covers):
            continue
        if place(
            subscriber,
            first_way,
            way_leaf,
            way_pair,
            covers,
            room,
            leaf,
            next_on,
            first_on,
            load,
            from_leaf,
            from_subscriber,
            queue,
        ):
            continue
        largest = -1
        for way in range(first_way[subscriber], first_way[subscriber + 1]):
            at = way_leaf[way]
            if covers[way_pair[way]] > 0 and (largest < 0 or room[at] > room[largest]):
                largest = at
        room[largest] += 1
        place(
            subscriber,
            first_way,
            way_leaf,
            way_pair,
            covers,
            room,
            leaf,
            next_on,
            first_on,
            load,
            from_leaf,
            from_subscriber,
            queue,
        )
