"""GRAPE's two metrics for every candidate at once, and the choice among them.

The paper walks the delivery tree once for each candidate. Here the tree is walked twice in all:
once up, so that every broker knows what lies below it, and once down, so that it also knows what
lies on the side of its parent. Moving the root over one link changes only what that link carries,
hence

    messages(child) = messages(parent) - |bits below child| + |bits not below child|
    delay(child)    = deliveries below, as seen before, + the others, one link farther

which is O(n) for delays and O(n * words) for bit vectors. Delays are added, never subtracted: a
candidate far down does not collect the rounding errors of those above it.

Owns the arithmetic on one tree in *positions*: position 0 is the root and the publisher's current
broker, and a parent's position is smaller than its children's. Knows neither names nor where the
figures come from. Kernels; arguments are not checked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel

EQUAL_WITHIN = 1e-9
"""Values of a metric that differ by less than this part of its maximum are equal: symmetric
candidates must not be told apart by the order in which their sums were rounded."""


@kernel
def count_bits(row: Any) -> Any:
    """How many bits of a row of 64-bit words are set."""
    total: Any = 0
    for word in row:
        word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
        pairs = np.uint64(0x3333333333333333)
        word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return total


class Positions(NamedTuple):
    """A delivery tree; broker `member[i]` has position i."""

    member: Any
    parent: Any
    deliveries: Any
    clients_s: Any
    """What a broker adds to a delivery of its own."""
    down_s: Any
    up_s: Any
    """What the hop from the parent takes, and back."""
    delay_s: Any
    messages: Any
    """From here on what is found: both metrics with the publisher there."""
    is_candidate: Any
    is_tied: Any
    """Whether it is as good as the best."""


@kernel
def positions(brokers: Any) -> Any:
    """Room for so many."""
    return Positions(
        np.empty(brokers, dtype=np.int64),
        np.zeros(brokers, dtype=np.int64),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers, dtype=np.bool_),
        np.empty(brokers, dtype=np.bool_),
    )


@kernel
def choose(
    at: Any, count: Any, bits: Any, to_publisher_s: Any, by_delay: Any, weight_percent: Any
) -> Any:
    """The best of the first `count` positions, and how many are equally good.

    `bits` are the events delivered at each, and are used up. A broker whose `to_publisher_s` is
    not known (NaN) is no candidate, but the current one always is; without any all are."""
    at.is_candidate[:count] = True
    _reroot(at, count, bits)
    if len(to_publisher_s) > 0:
        _count_way_to_broker(at, count, to_publisher_s)
    if by_delay:
        return _decide(at, count, at.delay_s, at.messages, weight_percent)
    return _decide(at, count, at.messages, at.delay_s, weight_percent)


@kernel
def _reroot(tree: Any, count: Any, bits: Any) -> None:
    """Fill the average delivery delay and the total message rate of each position.

    Without deliveries all delays are 0. Afterwards `bits` holds what is wanted at or below each
    position."""
    words = bits.shape[1]
    wanted = tree.deliveries[:count].copy()
    below_s = wanted * tree.clients_s[:count]
    # What a position sees at its parent: in the first pass the parent's own and the children
    # after it, in the second also the children before it and everything above the parent.
    beside = np.empty((count, words), dtype=np.uint64)
    beside_s = np.empty(count)
    tree.messages[0] = 0.0
    for at in range(count - 1, 0, -1):
        over = tree.parent[at]
        for word in range(words):
            beside[at, word] = bits[over, word]
            bits[over, word] |= bits[at, word]
        tree.messages[0] += count_bits(bits[at])
        beside_s[at] = below_s[over]
        below_s[over] += below_s[at] + wanted[at] * tree.down_s[at]
        wanted[over] += wanted[at]
    tree.messages[0] += count_bits(bits[0])

    everything = wanted[0]
    share = 1.0 / everything if everything > 0 else 0.0
    tree.delay_s[0] = below_s[0] * share
    for word in range(words):
        beside[0, word] = 0
    beside_s[0] = 0.0
    for at in range(1, count):
        over = tree.parent[at]
        for word in range(words):
            beside[at, word] |= beside[over, word]
            beside[over, word] |= bits[at, word]
        tree.messages[at] = tree.messages[over] - count_bits(bits[at]) + count_bits(beside[at])
        seen_there_s = beside_s[at] + beside_s[over]
        beside_s[over] += below_s[at] + wanted[at] * tree.down_s[at]
        beside_s[at] = seen_there_s + (everything - wanted[at]) * tree.up_s[at]
        tree.delay_s[at] = (below_s[at] + beside_s[at]) * share


@kernel
def _count_way_to_broker(tree: Any, count: Any, to_publisher_s: Any) -> None:
    """Add the publisher's own way to each broker to the delays, where there are deliveries."""
    anybody = tree.deliveries[:count].sum() > 0
    for at in range(count):
        latency_s = to_publisher_s[tree.member[at]]
        if latency_s == latency_s:
            if anybody:
                tree.delay_s[at] += latency_s
        elif at > 0:
            tree.is_candidate[at] = False


@kernel
def _decide(tree: Any, count: Any, prioritised: Any, other: Any, weight_percent: Any) -> Any:
    """The position to move to by weight `P`, and how many are equally good.

    Of the candidates whose prioritised metric, scaled to 0..100 over all candidates, is at most
    `100 - P`, those with the least of the other metric, of these those with the least of the
    prioritised one (`is_tied`), of these position 0, or else the first broker. Position 0 is
    always a candidate."""
    is_candidate, is_tied = tree.is_candidate, tree.is_tied
    low, high = prioritised[0], prioritised[0]
    other_high = other[0]
    for at in range(count):
        if is_candidate[at]:
            low, high = min(low, prioritised[at]), max(high, prioritised[at])
            other_high = max(other_high, other[at])
    slack = EQUAL_WITHIN * high
    limit = low + (high - low) * (100.0 - weight_percent) / 100.0 + slack
    other_low = np.inf
    for at in range(count):
        is_tied[at] = is_candidate[at] and prioritised[at] <= limit
        if is_tied[at]:
            other_low = min(other_low, other[at])
    other_limit = other_low + EQUAL_WITHIN * other_high
    least = np.inf
    for at in range(count):
        is_tied[at] = is_tied[at] and other[at] <= other_limit
        if is_tied[at]:
            least = min(least, prioritised[at])
    ties = 0
    best = -1
    for at in range(count):
        is_tied[at] = is_tied[at] and prioritised[at] <= least + slack
        if is_tied[at]:
            ties += 1
            if best < 0 or (best > 0 and tree.member[at] < tree.member[best]):
                best = at
    return best, ties
