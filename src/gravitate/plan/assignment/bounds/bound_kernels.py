"""Counting for the proven bound, as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros

NOWHERE = -1
ONE = np.uint64(1)


@kernel
def smallest_sets(masks: Any, sets: Any, above: Any, smallest: Any) -> None:
    """For each row of bits the smallest set of a laminar family that has all of them.

    Set i < items is {i} itself; sets come before those `above` them, the last is everything. A
    row without bits belongs to `NOWHERE`."""
    words = masks.shape[1]
    for row in range(len(masks)):
        found = NOWHERE
        for word in range(words):
            if masks[row, word] != 0:
                found = word * 64 + int(trailing_zeros(masks[row, word]))
                break
        while found != NOWHERE:
            is_within = True
            for word in range(words):
                if masks[row, word] & ~sets[found, word] != 0:
                    is_within = False
                    break
            if is_within:
                break
            found = above[found]
        smallest[row] = found


@kernel
def together(masks: Any, count: Any) -> None:
    """Add to `count[k, l]` how many rows have bits k and l."""
    bits = np.empty(len(count), dtype=np.int64)
    for row in range(len(masks)):
        found = 0
        for word in range(masks.shape[1]):
            left = masks[row, word]
            while left != 0:
                bits[found] = word * 64 + int(trailing_zeros(left))
                left &= left - ONE
                found += 1
        for one in range(found):
            for other in range(found):
                count[bits[one], bits[other]] += 1


@kernel
def lifted(masks: Any, item_of: Any, found: Any) -> None:
    """Bits of items in the place of bits of leaves; none where a leaf belongs to no item.

    `found` must be zero."""
    for row in range(len(masks)):
        is_bound = True
        for word in range(masks.shape[1]):
            left = masks[row, word]
            while left != 0:
                item = item_of[word * 64 + int(trailing_zeros(left))]
                left &= left - ONE
                if item == NOWHERE:
                    is_bound = False
                else:
                    found[row, item // 64] |= ONE << np.uint64(item % 64)
        if not is_bound:
            found[row] = np.uint64(0)


@kernel
def count_corners(first: Any, last: Any, smallest: Any, strides: Any, differences: Any) -> None:
    """Add subscribers to differences, whose running sums along all axes are counts in cells.

    Subscriber j counts in the cells from `first[j]` to `last[j]` (not included) of its set."""
    dimensions = first.shape[1]
    for row in range(len(first)):
        is_empty = smallest[row] == NOWHERE
        for axis in range(dimensions):
            is_empty = is_empty or first[row, axis] >= last[row, axis]
        if is_empty:
            continue
        for corner in range(1 << dimensions):
            at, sign = smallest[row] * strides[0], 1
            for axis in range(dimensions):
                if (corner >> axis) & 1:
                    at += last[row, axis] * strides[axis + 1]
                    sign = -sign
                else:
                    at += first[row, axis] * strides[axis + 1]
            differences[at] += sign
