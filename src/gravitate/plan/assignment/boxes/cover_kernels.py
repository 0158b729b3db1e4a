"""The least union of few boxes around given ones, by trying all ways, as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.assignment.boxes.volume_kernels import union_volume

TOO_LONG = -1.0
"""Instead of a volume: the steps did not suffice."""


@kernel
def cover_volume(inside: Any, boxes_max: Any, steps_max: Any, group: Any) -> Any:
    """The least volume of a union of at most `boxes_max` boxes, each of `inside` within one of
    them, or `TOO_LONG`. `group` gets the box of each.

    They are dealt out to boxes one after the other; a beginning that is not below the best so far
    is given up, since more to hold never makes the union less."""
    count, _, dimensions = inside.shape
    boxes = np.empty((count + 1, boxes_max, 2, dimensions))
    used = np.zeros(count + 1, dtype=np.int64)
    choice = np.full(count + 1, -1, dtype=np.int64)
    best = np.inf
    at = 0
    for _ in range(steps_max):
        if at < 0:
            return best
        choice[at] += 1
        if at == count or choice[at] > used[at] or choice[at] == boxes_max:
            choice[at] = -1
            at -= 1
            continue
        place = choice[at]
        boxes[at + 1, : used[at]] = boxes[at, : used[at]]
        used[at + 1] = used[at]
        box = boxes[at + 1, place]
        if place == used[at]:
            box[:] = inside[at]
            used[at + 1] += 1
        for axis in range(dimensions):
            box[0, axis] = min(box[0, axis], inside[at, 0, axis])
            box[1, axis] = max(box[1, axis], inside[at, 1, axis])
        volume = union_volume(boxes[at + 1, : used[at + 1]])
        if volume >= best:
            continue
        at += 1
        if at == count:
            best = volume
            group[:count] = choice[:count]
    return TOO_LONG


@kernel
def cover_volumes(interests: Any, sets: Any, complexity: Any, volumes: Any) -> None:
    """For each set (bits of interests) the least volume of a filter that holds it."""
    inside = np.empty_like(interests)
    group = np.empty(len(interests), dtype=np.int64)
    for number in range(len(sets)):
        count = 0
        for interest in range(len(interests)):
            if (sets[number] >> interest) & 1:
                inside[count] = interests[interest]
                count += 1
        volumes[number] = cover_volume(inside[:count], complexity, 1 << 40, group)
