"""Blocks of subscribers taken out of filters and put in again, as kernels.

One *attempt* takes out a block, shrinks what held it, and puts its members one after the other
where filters grow least. It is undone when the sum of volumes has risen by more than the
temperature allows. Blocks are what can let a box shrink: everybody who reaches beyond a line in it,
everybody in it, in two that meet, everybody of a leaf who wants what is at a point, a whole leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.assignment.greedy.greedy_kernels import least_loaded
from gravitate.plan.assignment.search.slot_kernels import (
    NOBODY,
    cheapest,
    drawn,
    forget,
    is_held_at_origin,
    put_in,
    refresh_volume,
    shrink_stale,
    take_out,
    undo,
)


@kernel
def _take_slot(fixed: Any, state: Any, slot: Any) -> None:
    leaf = fixed.leaf_of[slot // state.boxes.shape[1]]
    for position in range(state.first[leaf] + state.load[leaf] - 1, state.first[leaf] - 1, -1):
        subscriber = state.members[position]
        if state.slot[subscriber] == slot:
            take_out(fixed, state, subscriber)


@kernel
def _peel(fixed: Any, state: Any, slot: Any, axis: Any, side: Any, cut: Any) -> None:
    """Take out the members of a slot that reach beyond `cut` on one side."""
    leaf = fixed.leaf_of[slot // state.boxes.shape[1]]
    for position in range(state.first[leaf] + state.load[leaf] - 1, state.first[leaf] - 1, -1):
        subscriber = state.members[position]
        if state.slot[subscriber] == slot:
            edge = fixed.interests[subscriber, side, axis]
            if (edge <= cut) if side == 0 else (edge >= cut):
                take_out(fixed, state, subscriber)


@kernel
def _relieve(fixed: Any, state: Any, leaf: Any, point: Any) -> None:
    """Take out all of a leaf who want what is at a point."""
    for position in range(state.first[leaf] + state.load[leaf] - 1, state.first[leaf] - 1, -1):
        subscriber = state.members[position]
        interest = fixed.interests[subscriber]
        is_wanted = True
        for axis in range(len(point)):
            if not interest[0, axis] <= point[axis] <= interest[1, axis]:
                is_wanted = False
                break
        if is_wanted:
            take_out(fixed, state, subscriber)


@kernel
def _drawn_slot(fixed: Any, state: Any, random: Any) -> Any:
    """A slot with members."""
    most = state.boxes.shape[1]
    while True:
        broker = fixed.leaves[int(drawn(random) * len(fixed.leaves))]
        place = int(drawn(random) * fixed.complexity[broker])
        if state.boxes[broker, place, 0, 0] <= state.boxes[broker, place, 1, 0]:
            return broker * most + place


@kernel
def _overlapping(fixed: Any, state: Any, slot: Any, random: Any) -> Any:
    """A slot of another leaf whose box meets that of `slot`, at random; or `slot` itself."""
    most = state.boxes.shape[1]
    box = state.boxes[slot // most, slot % most]
    best, seen = slot, 0
    for broker in fixed.leaves:
        if broker == slot // most:
            continue
        for place in range(fixed.complexity[broker]):
            other = state.boxes[broker, place]
            is_apart = False
            for axis in range(box.shape[1]):
                if other[0, axis] > box[1, axis] or other[1, axis] < box[0, axis]:
                    is_apart = True
                    break
            if not is_apart:
                seen += 1
                if drawn(random) * seen < 1.0:
                    best = broker * most + place
    return best


@kernel
def _take_block(fixed: Any, state: Any, weights: Any, random: Any) -> Any:
    """Take out a block of one of five kinds; the leaf that shall not grow again, or `NOBODY`."""
    most, dimensions = state.boxes.shape[1], fixed.interests.shape[2]
    slot = _drawn_slot(fixed, state, random)
    broker = slot // most
    kind, draw = 0, drawn(random)
    while kind + 1 < len(weights) and draw >= weights[kind]:
        draw -= weights[kind]
        kind += 1
    box = state.boxes[broker, slot % most]
    if kind == 0:  # one side
        axis, side = int(drawn(random) * dimensions), int(drawn(random) * 2)
        depth = drawn(random)
        depth *= depth * (box[1, axis] - box[0, axis])
        cut = box[0, axis] + depth if side == 0 else box[1, axis] - depth
        _peel(fixed, state, slot, axis, side, cut)
    elif kind == 1:  # a box
        _take_slot(fixed, state, slot)
    elif kind == 2:  # a box and one of another leaf that meets it
        other = _overlapping(fixed, state, slot, random)
        _take_slot(fixed, state, slot)
        _take_slot(fixed, state, other)
    elif kind == 3:  # a point of a leaf
        point = np.empty(dimensions)
        for axis in range(dimensions):
            point[axis] = box[0, axis] + drawn(random) * (box[1, axis] - box[0, axis])
        _relieve(fixed, state, fixed.leaf_of[broker], point)
    else:  # a whole leaf
        for place in range(fixed.complexity[broker]):
            _take_slot(fixed, state, broker * most + place)
    if kind in (1, 2) or drawn(random) < 0.5:
        return NOBODY
    return fixed.leaf_of[broker]


@kernel
def _sorted_block(fixed: Any, state: Any, random: Any) -> Any:
    """The order in which a block is put in again: the largest first, or at random."""
    count = state.counts[1]
    key = np.empty(count)
    is_by_size = drawn(random) < 0.7
    for position in range(count):
        key[position] = -fixed.sizes[state.block[position]] if is_by_size else drawn(random)
    return np.argsort(key)


@kernel
def attempt(
    fixed: Any,
    state: Any,
    weights: Any,
    temperature: Any,
    price: Any,
    tries: Any,
    blink: Any,
    random: Any,
) -> Any:
    """One block out and in: by how much the bandwidth has changed, 0 when it was undone, and how
    many were taken out. Each subscriber away from its origin costs `price`."""
    away = state.counts[2]
    barred = _take_block(fixed, state, weights, random)
    shrink_stale(fixed, state)
    for position in _sorted_block(fixed, state, random):
        subscriber = state.block[position]
        leaf = cheapest(fixed, state, subscriber, barred, tries, blink, random)
        if leaf == NOBODY:
            taken = state.counts[1]
            undo(fixed, state)
            return 0.0, taken
        put_in(fixed, state, subscriber, leaf)
    shrink_stale(fixed, state)
    taken = state.counts[1]
    change = 0.0
    for position in range(state.counts[0]):
        broker = state.touched[position]
        refresh_volume(fixed, state, broker)
        change += state.volume[broker] - state.kept_volume[broker]
    cost = change + price * (state.counts[2] - away)
    if cost > -temperature * np.log(1.0 - drawn(random)):
        undo(fixed, state)
        return 0.0, taken
    forget(state)
    return change, taken


@kernel
def search(
    fixed: Any,
    state: Any,
    weights: Any,
    attempts: Any,
    work_max: Any,
    hot: Any,
    cold: Any,
    price: Any,
    target: Any,
    tries: Any,
    blink: Any,
    random: Any,
    best_slot: Any,
    best_boxes: Any,
) -> Any:
    """Attempts while the temperature falls from `hot` to `cold`; leaves the best state that was
    seen in `best_slot` and `best_boxes`, and says its bandwidth.

    Ends after `attempts`, when `work_max` subscribers were taken out, or when the bandwidth is at
    most `target`. With a price the temperature must be 0, and the last state is the result."""
    now = best = state.volume.sum()
    is_kept = False
    work, done = 0, 0.0
    for number in range(attempts):
        done = max(number / attempts, work / work_max)
        if done >= 1.0 or now <= target:
            break
        temperature = hot * (cold / hot) ** done if hot > 0.0 else 0.0
        # The best state is copied only when the next attempt may leave it.
        if temperature > 0.0 and not is_kept:
            best_slot[:] = state.slot
            best_boxes[:] = state.boxes
            is_kept = True
        change, taken = attempt(fixed, state, weights, temperature, price, tries, blink, random)
        now += change
        work += taken
        if now < best:
            best = now
            is_kept = False
    if not is_kept:
        best_slot[:] = state.slot
        best_boxes[:] = state.boxes
    return best


@kernel
def send_home(fixed: Any, state: Any) -> None:
    """Whoever is away from its origin, though that holds its interest and has room, goes back."""
    for subscriber in range(len(state.slot)):
        leaf = fixed.leaf_of[state.slot[subscriber] // state.boxes.shape[1]]
        if leaf != fixed.origin[subscriber] and is_held_at_origin(fixed, state, subscriber):
            take_out(fixed, state, subscriber)
            put_in(fixed, state, subscriber, fixed.origin[subscriber])
            state.counts[1] = 0  # this is never undone
    shrink_stale(fixed, state)
    forget(state)


@kernel
def arrive(fixed: Any, state: Any, arrivals: Any, capacities: Any, fair: Any, random: Any) -> None:
    """Newcomers to the cheapest candidate with room, one after the other, nobody else moved.

    Rows of `capacities` are bounds on load, tried in turn; when none leaves room, the candidate
    that is loaded least serves."""
    for subscriber in arrivals:
        leaf = NOBODY
        for row in range(len(capacities)):
            fixed.capacity[:] = capacities[row]
            leaf = cheapest(fixed, state, subscriber, NOBODY, 0, 0.0, random)
            if leaf != NOBODY:
                break
        if leaf == NOBODY:
            leaf = least_loaded(fixed.candidates[subscriber], fair, state.load)
        put_in(fixed, state, subscriber, leaf)
    forget(state)
