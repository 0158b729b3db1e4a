"""Families of intervals and their products, as kernels.

Which interests an interval holds is a row of bits, so those that a product holds are the bits that
all of its intervals have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.plan.assignment.boxes.volume_kernels import is_next


@kernel
def scanned(members: Any, length: Any, overlap: Any) -> Any:
    """Intervals of at most `length` that hold all members, from left to right.

    Members are rows (low, high) by their lows, none longer than half the length. An interval
    starts at the first member that starts beyond the reach of the interval before, and shrinks to
    the members within it."""
    found = np.empty((len(members), 2))
    count = 0
    at = 0
    while at < len(members):
        start = members[at, 0]
        high = members[at, 1]
        other = at + 1
        while other < len(members) and members[other, 0] <= start + length:
            if members[other, 1] <= start + length:
                high = max(high, members[other, 1])
            other += 1
        found[count, 0], found[count, 1] = start, high
        count += 1
        reach = start + (1.0 - overlap) * length
        at += 1
        while at < len(members) and (members[at, 0] <= reach and members[at, 1] <= high):
            at += 1
    return found[:count]


@kernel
def held_on_axes(intervals: Any, sizes: Any, starts: Any, interests: Any) -> Any:
    """For each interval of each axis bits for the interests that it holds on that axis."""
    words = (len(interests) + 63) // 64
    held = np.zeros((len(intervals), words), dtype=np.uint64)
    for axis in range(len(sizes)):
        for number in range(starts[axis], starts[axis] + sizes[axis]):
            low, high = intervals[number, 0], intervals[number, 1]
            for interest in range(len(interests)):
                if interests[interest, 0, axis] >= low and interests[interest, 1, axis] <= high:
                    held[number, interest // 64] |= np.uint64(1) << np.uint64(interest % 64)
    return held


@kernel
def shrunk(held: Any, sizes: Any, starts: Any, interests: Any) -> Any:
    """The boxes around the interests that products of intervals hold, those that hold some."""
    axes, words = len(sizes), held.shape[1]
    at = np.zeros(axes, dtype=np.int64)
    found = np.empty((1024, 2, axes))
    count = 0
    box = np.empty((2, axes))
    while True:
        box[0], box[1] = np.inf, -np.inf
        for word in range(words):
            left = held[starts[0] + at[0], word]
            for axis in range(1, axes):
                left &= held[starts[axis] + at[axis], word]
            while left != 0:
                interest = word * 64 + int(trailing_zeros(left))
                left &= left - np.uint64(1)
                for axis in range(axes):
                    box[0, axis] = min(box[0, axis], interests[interest, 0, axis])
                    box[1, axis] = max(box[1, axis], interests[interest, 1, axis])
        if box[0, 0] <= box[1, 0]:
            if count == len(found):
                more = np.empty((2 * count, 2, axes))
                more[:count] = found
                found = more
            found[count] = box
            count += 1
        if not is_next(at, sizes):
            return found[:count].copy()
