"""Subscribers in the boxes of their leaves' filters, put in and taken out, as kernels.

Each subscriber is in one *slot*: a box of its leaf's filter. The box of a slot is the smallest
around its members' interests, so it shrinks as soon as those go who held its sides. An empty slot
has a box turned inside out (`inf` to `-inf`), which holds nothing and joins with a box to that box,
so free slots need no special case. Slots of inner brokers have no members: their boxes are around
boxes of children.

Whatever changes is kept aside first (`touch`, `take_out`), so that it can be undone as a whole.

Invariant: each box of a broker lies within one box of its parent. Boxes are as small as they can
be after `shrink_stale`; between taking out and shrinking they may be larger.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.plan.assignment.boxes.volume_kernels import added_volume, is_within, union_volume

NOBODY = -1
ONE = np.uint64(1)


class Fixed(NamedTuple):
    """What does not change while searching."""

    parent: Any
    order: Any
    """Brokers, parents first."""
    leaves: Any
    leaf_of: Any
    """The number of a broker as a leaf, or `NOBODY`."""
    complexity: Any
    first_child: Any
    children: Any
    capacity: Any
    """How many subscribers each leaf may have."""
    candidates: Any
    interests: Any
    sizes: Any
    """Volumes of interests."""
    origin: Any
    """The leaf that each subscriber leaves unwillingly, or `NOBODY`."""


class State(NamedTuple):
    """What changes. Slot `broker * most + place` is box `place` of a broker."""

    slot: Any
    first: Any
    """Members of leaf k are those from `first[k]`, `load[k]` of them."""
    members: Any
    position: Any
    """Of each subscriber among the members."""
    load: Any
    boxes: Any
    volume: Any
    kept_boxes: Any
    kept_volume: Any
    touched: Any
    is_touched: Any
    is_stale: Any
    """Whether somebody left a leaf, or a child of an inner broker shrank, since it was shrunk."""
    block: Any
    """Who was taken out."""
    block_slot: Any
    """Where they were."""
    counts: Any
    """How many are touched, how many are in the block, how many are not at their origin."""
    room: Any


@kernel
def drawn(random: Any) -> Any:
    """A number from 0 to 1, not included (xorshift64*)."""
    state = random[0]
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    random[0] = state
    word = state * np.uint64(0x2545F4914F6CDD1D)
    return np.float64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def unlink(fixed: Any, state: Any, subscriber: Any) -> None:
    leaf = fixed.leaf_of[state.slot[subscriber] // state.boxes.shape[1]]
    state.load[leaf] -= 1
    last = state.members[state.first[leaf] + state.load[leaf]]
    state.members[state.position[subscriber]] = last
    state.position[last] = state.position[subscriber]
    state.slot[subscriber] = NOBODY
    if fixed.origin[subscriber] != NOBODY and fixed.origin[subscriber] != leaf:
        state.counts[2] -= 1


@kernel
def link(fixed: Any, state: Any, subscriber: Any, slot: Any) -> None:
    leaf = fixed.leaf_of[slot // state.boxes.shape[1]]
    state.position[subscriber] = state.first[leaf] + state.load[leaf]
    state.members[state.position[subscriber]] = subscriber
    state.load[leaf] += 1
    state.slot[subscriber] = slot
    if fixed.origin[subscriber] != NOBODY and fixed.origin[subscriber] != leaf:
        state.counts[2] += 1


@kernel
def fill(fixed: Any, state: Any, brokers: Any, places: Any) -> None:
    """Put everybody where they are named to be; who is at `NOBODY` stays out."""
    for subscriber in range(len(brokers)):
        if brokers[subscriber] == NOBODY:
            continue
        slot = brokers[subscriber] * state.boxes.shape[1] + places[subscriber]
        link(fixed, state, subscriber, slot)


@kernel
def touch(state: Any, broker: Any) -> None:
    if not state.is_touched[broker]:
        state.is_touched[broker] = True
        state.kept_boxes[broker] = state.boxes[broker]
        state.kept_volume[broker] = state.volume[broker]
        state.touched[state.counts[0]] = broker
        state.counts[0] += 1


@kernel
def take_out(fixed: Any, state: Any, subscriber: Any) -> None:
    slot = state.slot[subscriber]
    broker = slot // state.boxes.shape[1]
    touch(state, broker)
    state.is_stale[broker] = True
    state.block[state.counts[1]] = subscriber
    state.block_slot[state.counts[1]] = slot
    state.counts[1] += 1
    unlink(fixed, state, subscriber)


@kernel
def join(box: Any, other: Any, joined: Any) -> None:
    for axis in range(box.shape[1]):
        joined[0, axis] = min(box[0, axis], other[0, axis])
        joined[1, axis] = max(box[1, axis], other[1, axis])


@kernel
def shrink_leaf(fixed: Any, state: Any, broker: Any) -> None:
    """Let each box of a leaf be the smallest around its members' interests."""
    boxes, most = state.boxes[broker], state.boxes.shape[1]
    boxes[:, 0], boxes[:, 1] = np.inf, -np.inf
    leaf = fixed.leaf_of[broker]
    for position in range(state.first[leaf], state.first[leaf] + state.load[leaf]):
        subscriber = state.members[position]
        box = boxes[state.slot[subscriber] % most]
        join(box, fixed.interests[subscriber], box)


@kernel
def shrink_above(fixed: Any, state: Any, broker: Any) -> None:
    """Let each box of an inner broker be the smallest around the children's boxes that it held."""
    old = state.room[: fixed.complexity[broker]]
    for place in range(len(old)):
        old[place] = state.boxes[broker, place]
    state.boxes[broker, :, 0], state.boxes[broker, :, 1] = np.inf, -np.inf
    for number in range(fixed.first_child[broker], fixed.first_child[broker + 1]):
        child = fixed.children[number]
        for inner in range(fixed.complexity[child]):
            box = state.boxes[child, inner]
            if box[0, 0] > box[1, 0]:
                continue
            for place in range(len(old)):
                if is_within(box, old[place]):
                    join(state.boxes[broker, place], box, state.boxes[broker, place])
                    break


@kernel
def shrink_stale(fixed: Any, state: Any) -> None:
    """After somebody was taken out: filters of leaves, then those above, from below."""
    for position in range(state.counts[0]):
        broker = state.touched[position]
        if not state.is_stale[broker] or fixed.leaf_of[broker] == NOBODY:
            continue
        shrink_leaf(fixed, state, broker)
        state.is_stale[broker] = False
        above = fixed.parent[broker]
        while above >= 0 and not state.is_stale[above]:
            state.is_stale[above] = True
            above = fixed.parent[above]
    if len(fixed.leaves) == len(fixed.parent):
        return
    for position in range(len(fixed.order) - 1, -1, -1):
        broker = fixed.order[position]
        if state.is_stale[broker]:
            state.is_stale[broker] = False
            touch(state, broker)
            shrink_above(fixed, state, broker)


@kernel
def place_for(boxes: Any, complexity: Any, room: Any) -> Any:
    """Where the box `room[0]` goes in a filter that does not hold it, and what that adds.

    Leaves in `room[1]` what the place will hold."""
    best, best_cost = 0, np.inf
    for place in range(complexity):
        join(room[0], boxes[place], room[2])
        cost = added_volume(boxes, complexity, room[2], room[3:])
        if cost < best_cost:
            best, best_cost = place, cost
            room[1] = room[2]
    return best, best_cost


@kernel
def holder(boxes: Any, complexity: Any, box: Any) -> Any:
    """The first of a filter's boxes that has all of `box`, or `NOBODY`."""
    for place in range(complexity):
        if is_within(box, boxes[place]):
            return place
    return NOBODY


@kernel
def path_cost(fixed: Any, state: Any, broker: Any, interest: Any, enough: Any) -> Any:
    """By how much filters from `broker` upward grow; at most a little more than `enough`."""
    room = state.room
    room[0] = interest
    total = 0.0
    while broker >= 0 and total <= enough:
        complexity = fixed.complexity[broker]
        if holder(state.boxes[broker], complexity, room[0]) != NOBODY:
            break
        _, cost = place_for(state.boxes[broker], complexity, room)
        total += cost
        room[0] = room[1]
        broker = fixed.parent[broker]
    return total


@kernel
def put_in(fixed: Any, state: Any, subscriber: Any, leaf: Any) -> None:
    """Let a leaf serve a subscriber: filters grow up to the publisher, as little as is found."""
    room, most = state.room, state.boxes.shape[1]
    broker = fixed.leaves[leaf]
    place = holder(state.boxes[broker], fixed.complexity[broker], fixed.interests[subscriber])
    if place != NOBODY:
        touch(state, broker)
        link(fixed, state, subscriber, broker * most + place)
        return
    room[0] = fixed.interests[subscriber]
    is_first = True
    while broker >= 0:
        complexity = fixed.complexity[broker]
        if holder(state.boxes[broker], complexity, room[0]) != NOBODY:
            return
        touch(state, broker)
        place, _ = place_for(state.boxes[broker], complexity, room)
        state.boxes[broker, place] = room[1]
        if is_first:
            link(fixed, state, subscriber, broker * most + place)
            is_first = False
        room[0] = room[1]
        broker = fixed.parent[broker]


@kernel
def holding_leaf(fixed: Any, state: Any, subscriber: Any, is_full: Any, random: Any) -> Any:
    """A candidate that holds the interest already, of several one at random, or `NOBODY`: one
    with room, or with `is_full` one without."""
    best, seen = NOBODY, 0
    for word in range(fixed.candidates.shape[1]):
        left = fixed.candidates[subscriber, word]
        while left != 0:
            leaf = word * 64 + int(trailing_zeros(left))
            left &= left - ONE
            if (state.load[leaf] >= fixed.capacity[leaf]) != is_full:
                continue
            broker = fixed.leaves[leaf]
            interest = fixed.interests[subscriber]
            if holder(state.boxes[broker], fixed.complexity[broker], interest) != NOBODY:
                seen += 1
                if seen == 1 or drawn(random) * seen < 1.0:
                    best = leaf
    return best


@kernel
def is_held_at_origin(fixed: Any, state: Any, subscriber: Any) -> Any:
    """Whether the origin has room, and a filter that holds the interest."""
    leaf = fixed.origin[subscriber]
    if leaf == NOBODY or state.load[leaf] >= fixed.capacity[leaf]:
        return False
    broker = fixed.leaves[leaf]
    interest = fixed.interests[subscriber]
    return holder(state.boxes[broker], fixed.complexity[broker], interest) != NOBODY


@kernel
def make_room(fixed: Any, state: Any, leaf: Any, tries: Any, random: Any) -> Any:
    """Let a member of a full leaf go where it is held already; whether one was found."""
    for _ in range(tries):
        if state.load[leaf] == 0 or state.counts[1] == len(state.block):
            return False
        number = state.first[leaf] + int(drawn(random) * state.load[leaf])
        subscriber = state.members[number]
        other = holding_leaf(fixed, state, subscriber, False, random)
        if other != NOBODY:
            take_out(fixed, state, subscriber)
            put_in(fixed, state, subscriber, other)
            return True
    return False


@kernel
def cheapest(
    fixed: Any, state: Any, subscriber: Any, barred: Any, tries: Any, blink: Any, random: Any
) -> Any:
    """The candidate whose path grows least and that has room, if need be made; or `NOBODY`.

    The origin comes first where it holds the interest. Leaf `barred` may hold but not grow."""
    if is_held_at_origin(fixed, state, subscriber):
        return fixed.origin[subscriber]
    leaf = holding_leaf(fixed, state, subscriber, False, random)
    if leaf != NOBODY:
        return leaf
    leaf = holding_leaf(fixed, state, subscriber, True, random)
    if leaf != NOBODY and make_room(fixed, state, leaf, tries, random):
        return leaf
    interest = fixed.interests[subscriber]
    best, best_full = NOBODY, NOBODY
    best_cost, best_full_cost = np.inf, np.inf
    for word in range(fixed.candidates.shape[1]):
        left = fixed.candidates[subscriber, word]
        while left != 0:
            leaf = word * 64 + int(trailing_zeros(left))
            left &= left - ONE
            if leaf == barred or (blink > 0.0 and drawn(random) < blink):
                continue
            is_full = state.load[leaf] >= fixed.capacity[leaf]
            enough = min(best_full_cost, best_cost) if is_full else best_cost
            cost = path_cost(fixed, state, fixed.leaves[leaf], interest, enough)
            if cost >= enough:
                continue
            if is_full:
                best_full, best_full_cost = leaf, cost
            else:
                best, best_cost = leaf, cost
    if best_full_cost < best_cost and make_room(fixed, state, best_full, tries, random):
        return best_full
    return best


@kernel
def refresh_volume(fixed: Any, state: Any, broker: Any) -> None:
    room = state.room
    count = 0
    for place in range(fixed.complexity[broker]):
        box = state.boxes[broker, place]
        if box[0, 0] <= box[1, 0]:
            room[count] = box
            count += 1
    state.volume[broker] = union_volume(room[:count])


@kernel
def forget(state: Any) -> None:
    for position in range(state.counts[0]):
        state.is_touched[state.touched[position]] = False
    state.counts[0] = state.counts[1] = 0


@kernel
def undo(fixed: Any, state: Any) -> None:
    # All out before anybody is in again, or a leaf would have more than it has room for.
    for position in range(state.counts[1]):
        if state.slot[state.block[position]] != NOBODY:
            unlink(fixed, state, state.block[position])
    for position in range(state.counts[1]):
        subscriber = state.block[position]
        if state.slot[subscriber] == NOBODY:  # not yet: the first entry says where it was
            link(fixed, state, subscriber, state.block_slot[position])
    for position in range(state.counts[0]):
        broker = state.touched[position]
        state.boxes[broker] = state.kept_boxes[broker]
        state.volume[broker] = state.kept_volume[broker]
        state.is_stale[broker] = False
    forget(state)
