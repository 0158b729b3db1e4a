"""Filters that grow while subscribers are added, and checks of filters, as kernels.

A box that is added and not
within one of them takes a free place, which never costs more than growing another box. When
there is none, the box whose growing adds least to the union grows around it (paper 4, section 3).
Boxes that fall within the grown one are dropped: the union stays, and places become free.

Invariant of growing: each box of a broker lies within one box of its parent, so an interest
within a box of a leaf is within the filters all the way up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.assignment.boxes.volume_kernels import added_volume, holds, is_within

HELD = -1
"""Instead of a place: a box of the filter has it all."""
BY_NONE = -1
"""Instead of a place: no box of the filter has it all."""


class Growing(NamedTuple):
    """The filters of a network while they grow."""

    parent: Any
    leaves: Any
    complexity: Any
    boxes: Any
    count: Any
    """Broker i's filter is the first `count[i]` of `boxes[i]`."""
    room: Any
    """To work in: a box to be held, a grown one, a joined one, clipped ones."""


def no_filters(parent: Any, leaves: Any, complexity: Any, dimensions: int) -> Growing:
    brokers, most = len(parent), int(complexity.max())
    return Growing(
        parent,
        leaves,
        complexity,
        boxes=np.zeros((brokers, most, 2, dimensions)),
        count=np.zeros(brokers, dtype=np.int32),
        room=np.empty((3 + most, 2, dimensions)),
    )


@kernel
def is_held_by_one(boxes: Any, count: Any, box: Any) -> Any:
    """Whether one of the first `count` boxes has all of `box`."""
    for number in range(count):  # noqa: SIM110 - numba has no `any` over a generator
        if is_within(box, boxes[number]):
            return True
    return False


@kernel
def place_for(boxes: Any, count: Any, complexity: Any, room: Any) -> Any:
    """Where the box `room[0]` goes in a filter, and what that adds to the filter's volume.

    Leaves in `room[1]` what the place will hold. Equal costs go to the first place."""
    box, grown, joined, clipped = room[0], room[1], room[2], room[3:]
    if is_held_by_one(boxes, count, box):
        return HELD, 0.0
    if count < complexity:
        grown[:] = box
        return count, added_volume(boxes, count, box, clipped)
    best, best_cost = 0, np.inf
    for number in range(count):
        for axis in range(box.shape[1]):
            joined[0, axis] = min(box[0, axis], boxes[number, 0, axis])
            joined[1, axis] = max(box[1, axis], boxes[number, 1, axis])
        cost = added_volume(boxes, count, joined, clipped)
        if cost < best_cost:
            best, best_cost = number, cost
            grown[:] = joined
    return best, best_cost


@kernel
def put(boxes: Any, count: Any, place: Any, grown: Any) -> Any:
    """Put `grown` at its place and drop what falls within it; how many boxes there are then."""
    boxes[place] = grown
    if place == count:
        count += 1
    kept = 0
    for number in range(count):
        if number == place or not is_within(boxes[number], grown):
            if kept != number:
                boxes[kept] = boxes[number]
            kept += 1
    return kept


@kernel
def _place_at(growing: Any, broker: Any) -> Any:
    own = growing.boxes[broker]
    return place_for(own, growing.count[broker], growing.complexity[broker], growing.room)


@kernel
def path_cost(growing: Any, broker: Any, interest: Any, enough: Any) -> Any:
    """By how much the filters from `broker` up to the publisher would grow with an interest.

    Gives up as soon as the sum is more than `enough`."""
    growing.room[0] = interest
    total = 0.0
    while broker >= 0 and total <= enough:
        place, cost = _place_at(growing, broker)
        if place == HELD:
            break
        total += cost
        growing.room[0] = growing.room[1]
        broker = growing.parent[broker]
    return total


@kernel
def grow_path(growing: Any, broker: Any, interest: Any) -> None:
    """Let the filters from `broker` up to the publisher hold an interest."""
    room, count = growing.room, growing.count
    room[0] = interest
    while broker >= 0:
        place, _ = _place_at(growing, broker)
        if place == HELD:
            return
        count[broker] = put(growing.boxes[broker], count[broker], place, room[1])
        room[0] = room[1]
        broker = growing.parent[broker]


@kernel
def grow_all(growing: Any, interests: Any, leaf: Any, order: Any) -> None:
    """Filters for an assignment, grown by its subscribers in the given order."""
    for subscriber in order:
        grow_path(growing, growing.leaves[leaf[subscriber]], interests[subscriber])


@kernel
def each_held(outer: Any, boxes: Any) -> Any:
    """For each box whether the union of `outer` has all of it."""
    found = np.empty(len(boxes), dtype=np.bool_)
    for number in range(len(boxes)):
        found[number] = holds(outer, boxes[number])
    return found


@kernel
def interests_held(
    boxes: Any, first: Any, leaves: Any, leaf: Any, interests: Any, is_held: Any
) -> None:
    """For each subscriber whether its leaf's filter has all of its interest."""
    for subscriber in range(len(interests)):
        broker = leaves[leaf[subscriber]]
        own = boxes[first[broker] : first[broker + 1]]
        is_held[subscriber] = holds(own, interests[subscriber])


@kernel
def first_holders(filter: Any, boxes: Any, holder: Any) -> None:
    """For each box the first of the filter's that has all of it, or `BY_NONE`."""
    for number in range(len(boxes)):
        holder[number] = BY_NONE
        for place in range(len(filter)):
            if is_within(boxes[number], filter[place]):
                holder[number] = place
                break


@kernel
def mark_outermost(boxes: Any, is_outermost: Any) -> None:
    """Which boxes lie within none before them; boxes come by their width, the widest first, so
    none lies within a later one. Each box is compared with those marked only."""
    marked = np.empty(len(boxes), dtype=np.int64)
    count = 0
    for number in range(len(boxes)):
        is_outermost[number] = True
        for position in range(count):
            if is_within(boxes[number], boxes[marked[position]]):
                is_outermost[number] = False
                break
        if is_outermost[number]:
            marked[count] = number
            count += 1
