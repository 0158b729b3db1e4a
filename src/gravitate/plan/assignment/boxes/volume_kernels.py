"""Unions of boxes, as kernels.

Boxes are arrays (count, 2, dimensions) of doubles. Up to three boxes are done by inclusion and
exclusion: filters are that small, and optimisers ask for their volume millions of times. More are
swept: two dimensions along the first axis, with the covered part of the second axis summed up
afresh for each slab while boxes are few, and kept in a segment tree when they are many. Further
dimensions are cut at all edges, and each slice is a union in one dimension less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel

FEW = 24
"""Up to here slabs are summed up afresh: beyond, keeping a segment tree is faster."""


@kernel
def box_volume(box: Any) -> Any:
    volume = 1.0
    for axis in range(box.shape[1]):
        volume *= box[1, axis] - box[0, axis]
    return volume


@kernel
def is_within(box: Any, outer: Any) -> Any:
    for axis in range(box.shape[1]):
        if box[0, axis] < outer[0, axis] or box[1, axis] > outer[1, axis]:
            return False
    return True


@kernel
def _common_volume(one: Any, other: Any) -> Any:
    volume = 1.0
    for axis in range(one.shape[1]):
        side = min(one[1, axis], other[1, axis]) - max(one[0, axis], other[0, axis])
        if side <= 0.0:
            return 0.0
        volume *= side
    return volume


@kernel
def _common_volume_of_three(one: Any, two: Any, three: Any) -> Any:
    volume = 1.0
    for axis in range(one.shape[1]):
        high = min(one[1, axis], two[1, axis], three[1, axis])
        side = high - max(one[0, axis], two[0, axis], three[0, axis])
        if side <= 0.0:
            return 0.0
        volume *= side
    return volume


@kernel
def union_volume(boxes: Any) -> Any:
    """The volume of the union of all boxes."""
    count, _, dimensions = boxes.shape
    if count == 0:
        return 0.0
    if count == 1:
        return box_volume(boxes[0])
    if count <= 3:
        joint = _common_volume(boxes[0], boxes[1])
        volume = box_volume(boxes[0]) + box_volume(boxes[1]) - joint
        if count == 3:
            with_first = _common_volume(boxes[0], boxes[2])
            with_second = _common_volume(boxes[1], boxes[2])
            volume += box_volume(boxes[2]) - with_first - with_second
            if joint > 0.0 and with_first > 0.0 and with_second > 0.0:
                volume += _common_volume_of_three(boxes[0], boxes[1], boxes[2])
        return volume
    if dimensions == 1:
        return _covered(boxes[:, 0, 0], boxes[:, 1, 0])
    if dimensions == 2:
        return _area_of_few(boxes) if count <= FEW else _area_of_many(boxes)
    return _sliced(boxes)


@kernel
def added_volume(boxes: Any, count: Any, box: Any, clipped: Any) -> Any:
    """What `box` adds to the union of the first `count` boxes: exactly its own volume when it is
    apart from them all. `clipped` is room for `count` boxes."""
    common = 0
    for number in range(count):
        is_apart = False
        for axis in range(box.shape[1]):
            low = max(boxes[number, 0, axis], box[0, axis])
            high = min(boxes[number, 1, axis], box[1, axis])
            if low >= high:
                is_apart = True
                break
            clipped[common, 0, axis] = low
            clipped[common, 1, axis] = high
        if not is_apart:
            common += 1
    added = box_volume(box)
    if common > 0:
        added -= union_volume(clipped[:common])
    return max(0.0, added)


@kernel
def holds(boxes: Any, box: Any) -> Any:
    """Whether `box` lies within the union of the boxes.

    The box is cut at all edges within it. On an axis where it has no extent there is one cell,
    the value itself; elsewhere cells are open, which is enough because unions are closed."""
    count, _, dimensions = boxes.shape
    for number in range(count):
        if is_within(box, boxes[number]):
            return True
    if count < 2:
        return False
    edges = np.empty((dimensions, 2 * count + 2))
    cells = np.empty(dimensions, dtype=np.int64)
    for axis in range(dimensions):
        low, high = box[0, axis], box[1, axis]
        edges[axis, 0], edges[axis, 1] = low, high
        found = 2
        for number in range(count):
            for side in range(2):
                edge = boxes[number, side, axis]
                if low < edge < high:
                    edges[axis, found] = edge
                    found += 1
        edges[axis, :found].sort()
        cells[axis] = found - 1
    at = np.zeros(dimensions, dtype=np.int64)
    while True:
        is_covered = False
        for number in range(count):
            if _spans(boxes[number], edges, at):
                is_covered = True
                break
        if not is_covered:
            return False
        if not is_next(at, cells):
            return True


@kernel
def _spans(box: Any, edges: Any, at: Any) -> Any:
    """Whether a box reaches over a cell on all axes that are cut."""
    for axis in range(len(at)):
        if box[0, axis] > edges[axis, at[axis]] or box[1, axis] < edges[axis, at[axis] + 1]:
            return False
    return True


@kernel
def is_next(at: Any, cells: Any) -> Any:
    """Go to the next cell, if there is one."""
    for axis in range(len(at)):
        at[axis] += 1
        if at[axis] < cells[axis]:
            return True
        at[axis] = 0
    return False


@kernel
def _covered(lows: Any, highs: Any) -> Any:
    """The length of a union of intervals."""
    length, reached = 0.0, -np.inf
    for number in np.argsort(lows):
        if highs[number] > reached:
            length += highs[number] - max(lows[number], reached)
            reached = highs[number]
    return length


@kernel
def _area_of_few(boxes: Any) -> Any:
    count = len(boxes)
    by_low = np.argsort(boxes[:, 0, 1])
    edges = np.sort(np.concatenate((boxes[:, 0, 0], boxes[:, 1, 0])))
    area = 0.0
    for slab in range(2 * count - 1):
        left, right = edges[slab], edges[slab + 1]
        if left == right:
            continue
        length, reached = 0.0, -np.inf
        for number in by_low:
            if boxes[number, 0, 0] <= left and boxes[number, 1, 0] >= right:
                high = boxes[number, 1, 1]
                if high > reached:
                    length += high - max(boxes[number, 0, 1], reached)
                    reached = high
        area += length * (right - left)
    return area


@kernel
def _area_of_many(boxes: Any) -> Any:
    """A sweep with a segment tree: node 1 is all of the second axis, node i has the halves 2i and
    2i + 1. `covers[i]` counts the boxes that span node i and not the node above."""
    count = len(boxes)
    ticks = np.unique(boxes[:, :, 1].copy().reshape(2 * count))
    size = 1
    while size < len(ticks):
        size *= 2
    covers = np.zeros(2 * size, dtype=np.int64)
    length = np.zeros(2 * size)
    full = np.zeros(2 * size)
    for cell in range(len(ticks) - 1):
        full[size + cell] = ticks[cell + 1] - ticks[cell]
    for node in range(size - 1, 0, -1):
        full[node] = full[2 * node] + full[2 * node + 1]
    first = np.searchsorted(ticks, boxes[:, 0, 1])
    last = np.searchsorted(ticks, boxes[:, 1, 1])
    edges = np.concatenate((boxes[:, 0, 0], boxes[:, 1, 0]))
    area, before = 0.0, 0.0
    for event in np.argsort(edges):
        area += length[1] * (edges[event] - before)
        before = edges[event]
        number, change = (event, 1) if event < count else (event - count, -1)
        if first[number] < last[number]:
            _cover(covers, length, full, size, first[number], last[number], change)
    return area


@kernel
def _cover(
    covers: Any, length: Any, full: Any, size: Any, first: Any, last: Any, change: Any
) -> None:
    """One box more or less over the cells from `first` to `last` (not included)."""
    left, right = first + size, last + size
    while left < right:
        if left % 2 == 1:
            covers[left] += change
            _measure(covers, length, full, size, left)
            left += 1
        if right % 2 == 1:
            right -= 1
            covers[right] += change
            _measure(covers, length, full, size, right)
        left //= 2
        right //= 2
    # Whatever was changed lies below the ways from the outermost cells to the top.
    left, right = (first + size) // 2, (last - 1 + size) // 2
    while left >= 1:
        _measure(covers, length, full, size, left)
        if right != left:
            _measure(covers, length, full, size, right)
        left //= 2
        right //= 2


@kernel
def _measure(covers: Any, length: Any, full: Any, size: Any, node: Any) -> None:
    if covers[node] > 0:
        length[node] = full[node]
    elif node < size:
        length[node] = length[2 * node] + length[2 * node + 1]
    else:
        length[node] = 0.0


@kernel
def _sliced(boxes: Any) -> Any:
    """Three dimensions and more: cut at all edges of all axes but the last two, count slices."""
    count, _, dimensions = boxes.shape
    outer = dimensions - 2
    edges = np.empty((outer, 2 * count))
    cells = np.empty(outer, dtype=np.int64)
    for axis in range(outer):
        ticks = np.unique(np.concatenate((boxes[:, 0, axis], boxes[:, 1, axis])))
        edges[axis, : len(ticks)] = ticks
        cells[axis] = len(ticks) - 1
        if cells[axis] == 0:
            return 0.0
    flat = np.empty((count, 2, 2))
    at = np.zeros(outer, dtype=np.int64)
    volume = 0.0
    while True:
        thickness = 1.0
        for axis in range(outer):
            thickness *= edges[axis, at[axis] + 1] - edges[axis, at[axis]]
        present = 0
        for number in range(count):
            if _spans(boxes[number], edges, at):
                flat[present] = boxes[number, :, outer:]
                present += 1
        if present > 0:
            few = flat[:present]
            area = _area_of_few(few) if present <= FEW else _area_of_many(few)
            volume += thickness * area
        if not is_next(at, cells):
            return volume
