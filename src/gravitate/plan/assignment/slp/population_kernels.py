"""Coverage of subscribers by the filters of a level's children, as kernels.

The boxes of child c are those from `first[c]` to `first[c + 1]`. A subscriber is covered by a child
when one of its candidates lies below the child and one of the child's boxes holds its interest."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.plan.assignment.boxes.volume_kernels import is_within

UNSEEN: Final = 0
HELD: Final = 1
NOT_HELD: Final = 2
NO_CHILD: Final = -1


@kernel
def _is_held(interest: Any, boxes: Any, start: Any, end: Any) -> Any:
    for box in range(start, end):  # noqa: SIM110 - numba has no `any` over a generator
        if is_within(interest, boxes[box]):
            return True
    return False


@kernel
def mark_covered(
    candidates: Any, interests: Any, child: Any, boxes: Any, first: Any, is_covered: Any
) -> None:
    """Whether any child covers each subscriber."""
    seen = np.empty(len(first) - 1, dtype=np.uint8)
    for subscriber in range(len(interests)):
        seen[:] = UNSEEN
        is_covered[subscriber] = False
        for word in range(candidates.shape[1]):
            left = candidates[subscriber, word]
            while left != 0 and not is_covered[subscriber]:
                above = child[word * 64 + np.int64(trailing_zeros(left))]
                left &= left - np.uint64(1)
                if above < 0 or seen[above] != UNSEEN:
                    continue
                seen[above] = NOT_HELD
                is_covered[subscriber] = _is_held(
                    interests[subscriber], boxes, first[above], first[above + 1]
                )


@kernel
def covering_leaves(
    candidates: Any,
    interests: Any,
    child: Any,
    boxes: Any,
    first: Any,
    short: Any,
    masks: Any,
) -> Any:
    """The candidates of each subscriber below children that cover it, as bits.

    Who is covered by none gets those below the child that has to grow least. Each row of `short`
    are leaves that are too few for those who have no others: these get one child more, that with a
    leaf beside them which has to grow least. Returns how many were covered by none."""
    children = len(first) - 1
    seen = np.empty(children, dtype=np.uint8)
    none = np.zeros(candidates.shape[1], dtype=np.uint64)
    uncovered = 0
    for subscriber in range(len(interests)):
        own, interest = candidates[subscriber], interests[subscriber]
        seen[:] = UNSEEN
        masks[subscriber] = np.uint64(0)
        is_covered = False
        for word in range(candidates.shape[1]):
            left = own[word]
            while left != 0:
                bit = np.int64(trailing_zeros(left))
                left &= left - np.uint64(1)
                above = child[word * 64 + bit]
                if above < 0:
                    continue
                if seen[above] == UNSEEN:
                    is_held = _is_held(interest, boxes, first[above], first[above + 1])
                    seen[above] = HELD if is_held else NOT_HELD
                if seen[above] == HELD:
                    masks[subscriber, word] |= np.uint64(1) << np.uint64(bit)
                    is_covered = True
        if not is_covered:
            uncovered += 1
            _add_least(own, interest, child, boxes, first, none, seen, masks[subscriber])
        for row in range(len(short)):
            is_short = True
            for word in range(candidates.shape[1]):
                is_short &= masks[subscriber, word] & ~short[row, word] == 0
            if is_short:
                _add_least(own, interest, child, boxes, first, short[row], seen, masks[subscriber])
    return uncovered


@kernel
def _add_least(
    candidates: Any,
    interest: Any,
    child: Any,
    boxes: Any,
    first: Any,
    avoided: Any,
    seen: Any,
    mask: Any,
) -> None:
    """Add the candidates below the child that has to grow least, among children with a candidate
    that is not avoided; nothing where there is none. Marks the child as `HELD`."""
    least, best = np.inf, NO_CHILD
    for word in range(len(candidates)):
        left = candidates[word] & ~avoided[word]
        while left != 0:
            above = child[word * 64 + np.int64(trailing_zeros(left))]
            left &= left - np.uint64(1)
            if above < 0 or seen[above] == HELD or above == best:
                continue
            cost = _growth(interest, boxes, first[above], first[above + 1])
            if cost < least:
                least, best = cost, above
    if best == NO_CHILD:
        return
    seen[best] = HELD
    for word in range(len(candidates)):
        left = candidates[word]
        while left != 0:
            bit = np.int64(trailing_zeros(left))
            left &= left - np.uint64(1)
            if child[word * 64 + bit] == best:
                mask[word] |= np.uint64(1) << np.uint64(bit)


@kernel
def _growth(interest: Any, boxes: Any, start: Any, end: Any) -> Any:
    """By how much the volume of one of the boxes has to grow to hold an interest; for no boxes,
    the volume of the interest."""
    axes = interest.shape[1]
    if start == end:
        volume = 1.0
        for axis in range(axes):
            volume *= interest[1, axis] - interest[0, axis]
        return volume
    least = np.inf
    for box in range(start, end):
        before, after = 1.0, 1.0
        for axis in range(axes):
            low, high = boxes[box, 0, axis], boxes[box, 1, axis]
            before *= high - low
            after *= max(high, interest[1, axis]) - min(low, interest[0, axis])
        least = min(least, after - before)
    return least


@kernel
def children_of(candidates: Any, child: Any, masks: Any) -> None:
    """The children below which each subscriber has a candidate, as bits."""
    for subscriber in range(len(candidates)):
        masks[subscriber] = np.uint64(0)
        for word in range(candidates.shape[1]):
            left = candidates[subscriber, word]
            while left != 0:
                above = child[word * 64 + np.int64(trailing_zeros(left))]
                left &= left - np.uint64(1)
                if above >= 0:
                    masks[subscriber, above // 64] |= np.uint64(1) << np.uint64(above % 64)
