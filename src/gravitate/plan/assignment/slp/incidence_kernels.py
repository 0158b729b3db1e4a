"""Who of a sample may go where, and which rectangles hold whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs


class Incidence(NamedTuple):
    """What serves whom."""

    child: Ints
    """Of each option, ascending."""
    rectangle: Ints
    """Of each option."""
    volume: Floats
    """Of each option."""
    pair_subscriber: Ints
    """Of each pair, ascending."""
    pair_child: Ints
    first_pair: Longs
    """Where the pairs of each subscriber begin."""
    option: Ints
    """The options that serve each pair, one pair after the other."""
    first_option: Longs
    """Where the options of each pair begin."""
    way_leaf: Ints
    """The ways of each subscriber, one subscriber after the other."""
    way_pair: Longs
    first_way: Longs
    """Where the ways of each subscriber begin."""

    @property
    def way_subscriber(self) -> Longs:
        return np.repeat(np.arange(len(self.first_way) - 1), np.diff(self.first_way))


@kernel
def ways(candidates: Any, child: Any, children: Any, pair_leaf: Any, pair_of: Any) -> Any:
    """The ways of each subscriber: (subscriber, leaf) in `pair_leaf`, by subscriber; `pair_of` gets
    for each of them its number among the different (subscriber, child).

    Returns the subscriber and the child of each (subscriber, child), and where the ways and the
    children of each subscriber begin."""
    count = candidates.shape[0]
    first = np.zeros(count + 1, dtype=np.int64)
    first_pair = np.zeros(count + 1, dtype=np.int64)
    number = np.full(children, -1, dtype=np.int64)
    subscribers = np.empty(len(pair_leaf), dtype=np.int32)
    their_child = np.empty(len(pair_leaf), dtype=np.int32)
    ways_found, pairs = 0, 0
    for subscriber in range(count):
        start = pairs
        for leaf in range(len(child)):
            if child[leaf] < 0:
                continue
            if (candidates[subscriber, leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1) == 0:
                continue
            if number[child[leaf]] < start:
                number[child[leaf]] = pairs
                subscribers[pairs] = subscriber
                their_child[pairs] = child[leaf]
                pairs += 1
            pair_leaf[ways_found] = leaf
            pair_of[ways_found] = number[child[leaf]]
            ways_found += 1
        first[subscriber + 1] = ways_found
        first_pair[subscriber + 1] = pairs
    return subscribers[:pairs].copy(), their_child[:pairs].copy(), first, first_pair


@kernel
def count_ways(candidates: Any, child: Any) -> Any:
    """How many (subscriber, leaf) there are below a level."""
    found = 0
    for subscriber in range(candidates.shape[0]):
        for leaf in range(len(child)):
            word = candidates[subscriber, leaf // 64] >> np.uint64(leaf % 64)
            if child[leaf] >= 0 and word & np.uint64(1) != 0:
                found += 1
    return found


@kernel
def holders(rectangles: Any, interests: Any) -> Any:
    """Which rectangles hold each interest: their numbers, ascending, and where each one's begin."""
    first = np.zeros(len(interests) + 1, dtype=np.int64)
    found = np.empty(16 * len(interests) + 16, dtype=np.int32)
    count = 0
    for interest in range(len(interests)):
        for rectangle in range(len(rectangles)):
            is_held = True
            for axis in range(interests.shape[2]):
                if (
                    rectangles[rectangle, 0, axis] > interests[interest, 0, axis]
                    or rectangles[rectangle, 1, axis] < interests[interest, 1, axis]
                ):
                    is_held = False
                    break
            if is_held:
                if count == len(found):
                    larger = np.empty(2 * count, dtype=np.int32)
                    larger[:count] = found
                    found = larger
                found[count] = rectangle
                count += 1
        first[interest + 1] = count
    return found[:count].copy(), first


@kernel
def audiences(
    pair_subscriber: Any,
    pair_child: Any,
    children: Any,
    rectangles: Any,
    holder: Any,
    first: Any,
    marks: Any,
) -> Any:
    """For each child and rectangle a number that is the same for the same set of subscribers which
    the rectangle holds and the child may serve; 0 for none. `marks` has one for each subscriber."""
    found = np.zeros((children, rectangles), dtype=np.uint64)
    for pair in range(len(pair_subscriber)):
        subscriber, child = pair_subscriber[pair], pair_child[pair]
        for at in range(first[subscriber], first[subscriber + 1]):
            found[child, holder[at]] += marks[subscriber]
    return found


@kernel
def nesting(pair_subscriber: Any, pair_child: Any, holder: Any, first: Any, column: Any) -> Any:
    """For each (subscriber, child) the options of the child that hold the subscriber's interest:
    their numbers, and where each one's begin."""
    pairs = len(pair_subscriber)
    first_option = np.zeros(pairs + 1, dtype=np.int64)
    for pair in range(pairs):
        subscriber, child = pair_subscriber[pair], pair_child[pair]
        count = 0
        for at in range(first[subscriber], first[subscriber + 1]):
            count += column[child, holder[at]] >= 0
        first_option[pair + 1] = first_option[pair] + count
    option = np.empty(first_option[pairs], dtype=np.int32)
    count = 0
    for pair in range(pairs):
        subscriber, child = pair_subscriber[pair], pair_child[pair]
        for at in range(first[subscriber], first[subscriber + 1]):
            found = column[child, holder[at]]
            if found >= 0:
                option[count] = found
                count += 1
    return option, first_option
