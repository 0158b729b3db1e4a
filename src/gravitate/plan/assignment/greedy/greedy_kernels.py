"""One subscriber after the other to the leaf that costs least now, as kernels.

Sets of leaves are bits in words (see `problem`): the candidates of a subscriber, and the *open*
leaves, those with room below the bound on load in force. The bound rises in the rows of
`capacities`, and never falls.

A leaf whose filter already holds an interest costs nothing, and once filters have grown most
subscribers have one; so these are looked for first, and volumes computed only when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.plan.assignment.boxes.filter_kernels import grow_path, is_held_by_one, path_cost

NOBODY = -1
EQUAL = 1e-9
"""Costs that differ by less, relatively, are equal: doubles are rounded."""
ONE = np.uint64(1)


@kernel
def _bits_set(word: Any) -> Any:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _open_leaves(load: Any, capacity: Any, is_open: Any) -> None:
    is_open[:] = np.uint64(0)
    for leaf in range(len(load)):
        if load[leaf] < capacity[leaf]:
            is_open[leaf // 64] |= ONE << np.uint64(leaf % 64)


@kernel
def _cheapest(
    growing: Any, fair: Any, candidates: Any, is_open: Any, interest: Any, load: Any
) -> Any:
    """The open candidate whose path grows least; ties to the least loaded, then to the first."""
    best, best_load = NOBODY, np.inf
    for word in range(len(candidates)):
        left = candidates[word] & is_open[word]
        while left != 0:
            leaf = word * 64 + int(trailing_zeros(left))
            left &= left - ONE
            relative = load[leaf] / fair[leaf]
            if relative < best_load:
                broker = growing.leaves[leaf]
                if is_held_by_one(growing.boxes[broker], growing.count[broker], interest):
                    best, best_load = leaf, relative
    if best != NOBODY:
        return best
    best_cost = np.inf
    for word in range(len(candidates)):
        left = candidates[word] & is_open[word]
        while left != 0:
            leaf = word * 64 + int(trailing_zeros(left))
            left &= left - ONE
            enough = best_cost * (1.0 + EQUAL)
            cost = path_cost(growing, growing.leaves[leaf], interest, enough)
            relative = load[leaf] / fair[leaf]
            is_less = cost < best_cost * (1.0 - EQUAL)
            if best == NOBODY or is_less or (cost <= enough and relative < best_load):
                best, best_load = leaf, relative
                best_cost = min(best_cost, cost)
    return best


@kernel
def least_loaded(candidates: Any, fair: Any, load: Any) -> Any:
    """The candidate that would have the least load with one subscriber more; ties to the first.

    Leaves without a fair share come last."""
    best, best_load = NOBODY, np.inf
    for word in range(len(candidates)):
        left = candidates[word]
        while left != 0:
            leaf = word * 64 + int(trailing_zeros(left))
            left &= left - ONE
            relative = (load[leaf] + 1) / fair[leaf] if fair[leaf] > 0.0 else np.inf
            if best == NOBODY or relative < best_load:
                best, best_load = leaf, relative
    return best


@kernel
def _sorted_again(
    candidates: Any,
    is_open: Any,
    leaf: Any,
    waiting: Any,
    waiting_count: Any,
    key: Any,
    queue: Any,
) -> Any:
    """Queue those who wait by the number of their open candidates, ties by arrival.

    `waiting` has them by arrival, and those who are assigned are taken out of it. How many wait
    still is the result. The sort counts: two passes over those who wait."""
    words = len(is_open)
    starts = np.zeros(64 * words + 2, dtype=np.int64)
    kept = 0
    for position in range(waiting_count):
        subscriber = waiting[position]
        if leaf[subscriber] != NOBODY:
            continue
        found = 0
        for word in range(words):
            found += _bits_set(candidates[subscriber, word] & is_open[word])
        waiting[kept] = subscriber
        key[kept] = found
        starts[found + 1] += 1
        kept += 1
    for found in range(1, len(starts)):
        starts[found] += starts[found - 1]
    for position in range(kept):
        found = key[position]
        queue[starts[found]] = waiting[position]
        starts[found] += 1
    return kept


@kernel
def assign(
    growing: Any,
    fair: Any,
    capacities: Any,
    candidates: Any,
    interests: Any,
    order: Any,
    fewest_first: Any,
    leaf: Any,
) -> None:
    """Gr and, with `fewest_first`, Gr*: fills `leaf`, which must be `NOBODY`, and the filters.

    `fair[k]` is the fair share of leaf k in subscribers, `capacities[s, k]` how many it may have
    after s rises of the bound. Where nobody has room under the last of them, the least loaded
    candidate serves: the solution breaks the bound by as little as is possible at that time."""
    total = len(order)
    load = np.zeros(len(fair), dtype=np.int64)
    is_open = np.zeros(candidates.shape[1], dtype=np.uint64)
    rises = 0
    _open_leaves(load, capacities[rises], is_open)
    queue = order.copy()
    waiting = order.copy() if fewest_first else order[:0].copy()
    key = np.empty(len(waiting), dtype=np.int32)
    waiting_count = len(waiting)
    is_stale = fewest_first
    next_up = 0
    for _ in range(total):
        best = NOBODY
        while True:
            if is_stale:
                waiting_count = _sorted_again(
                    candidates, is_open, leaf, waiting, waiting_count, key, queue
                )
                next_up = 0
                is_stale = False
            subscriber = queue[next_up]
            best = _cheapest(
                growing, fair, candidates[subscriber], is_open, interests[subscriber], load
            )
            if best != NOBODY or rises + 1 == len(capacities):
                break
            rises += 1
            _open_leaves(load, capacities[rises], is_open)
            is_stale = fewest_first
        if best == NOBODY:
            best = least_loaded(candidates[subscriber], fair, load)
        next_up += 1
        leaf[subscriber] = best
        load[best] += 1
        grow_path(growing, growing.leaves[best], interests[subscriber])
        if load[best] == capacities[rises, best]:
            is_open[best // 64] &= ~(ONE << np.uint64(best % 64))
            is_stale = fewest_first


@kernel
def assign_closest(
    locations: Any, leaf_points: Any, fair: Any, capacity: Any, order: Any, leaf: Any
) -> None:
    """The nearest leaf that has room for each; where none has, the one that is loaded least."""
    leaves, dimensions = leaf_points.shape
    load = np.zeros(leaves, dtype=np.int64)
    everyone = np.zeros(-(-leaves // 64), dtype=np.uint64)
    _open_leaves(load, np.ones(leaves, dtype=np.int64), everyone)
    for subscriber in order:
        best, best_square = NOBODY, np.inf
        for number in range(leaves):
            if load[number] >= capacity[number]:
                continue
            square = 0.0
            for axis in range(dimensions):
                step = locations[subscriber, axis] - leaf_points[number, axis]
                square += step * step
            if square < best_square:
                best, best_square = number, square
        if best == NOBODY:
            best = least_loaded(everyone, fair, load)
        leaf[subscriber] = best
        load[best] += 1
