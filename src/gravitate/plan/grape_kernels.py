"""GRAPE's selection as one kernel: from the answers of brokers, as arrays, to the best of them.

Owns how the delivery tree of one publisher comes about: brokers say who their neighbours are, and
the tree is what can be reached from the publisher's current broker, which takes position 0 (see
`rerooting`). Figures that no broker can have measured and answers that do not fit together are
found here, because here every figure is looked at anyway, and told by number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.rerooting import decide, reroot

FINE = 0
NOT_A_FIGURE = 1
NOT_A_TREE = 2

# What a broker measured: four numbers, the output queueing delay to each neighbour, and the
# latency of the link to each.
DELIVERIES = 0
INPUT_QUEUE_S = 1
MATCHING_S = 2
CLIENT_QUEUE_S = 3
OF_BROKER = 4
OF_NEIGHBOUR = 2


@kernel
def select(
    first: Any,
    neighbour: Any,
    measured: Any,
    bits: Any,
    to_publisher_s: Any,
    current: Any,
    by_delay: Any,
    weight_percent: Any,
    delay_s: Any,
    messages: Any,
    is_tied: Any,
) -> Any:
    """Both metrics of every broker that answered, and the best of them.

    The neighbours of broker i stand at `first[i]` to `first[i + 1]`; -1 is one that did not
    answer. What brokers measured stands in `measured` one after the other. A broker whose
    `to_publisher_s` is NaN is no candidate, nor is one that cannot be reached from the current
    one; for them `delay_s`, `messages` and `is_tied` are left as they are. Returns `FINE`, the
    best broker and how many tie; or what is wrong, and at which broker or brokers."""
    brokers = len(first) - 1
    member = np.empty(brokers, dtype=np.int64)
    parent = np.zeros(brokers, dtype=np.int64)
    down_s = np.empty(brokers)
    up_s = np.empty(brokers)
    found, one, two = _lay_out(first, neighbour, measured, current, member, parent, down_s, up_s)
    if found != FINE:
        return found, one, two
    count = one
    words = bits.shape[1]
    placed_bits = np.empty((count, words), dtype=np.uint64)
    deliveries = np.empty(count)
    clients_s = np.empty(count)
    for at in range(count):
        broker = member[at]
        for word in range(words):
            placed_bits[at, word] = bits[broker, word]
        start = _start(first, broker)
        deliveries[at] = measured[start + DELIVERIES]
        clients_s[at] = (
            measured[start + INPUT_QUEUE_S]
            + measured[start + MATCHING_S]
            + measured[start + CLIENT_QUEUE_S]
        )
    placed_delay_s = np.empty(count)
    placed_messages = np.empty(count)
    reroot(
        count,
        parent,
        placed_bits,
        deliveries,
        clients_s,
        down_s,
        up_s,
        placed_delay_s,
        placed_messages,
    )
    is_candidate = np.ones(count, dtype=np.bool_)
    if len(to_publisher_s) > 0:
        count_way_to_broker(member, to_publisher_s, deliveries, placed_delay_s, is_candidate)
    placed_is_tied = np.empty(count, dtype=np.bool_)
    best, ties = decide(
        count,
        placed_delay_s if by_delay else placed_messages,
        placed_messages if by_delay else placed_delay_s,
        weight_percent,
        is_candidate,
        member,
        placed_is_tied,
    )
    for at in range(count):
        if is_candidate[at]:
            delay_s[member[at]] = placed_delay_s[at]
            messages[member[at]] = placed_messages[at]
            is_tied[member[at]] = placed_is_tied[at]
    return FINE, member[best], ties


@kernel
def _start(first: Any, broker: Any) -> Any:
    """Where in `measured` the figures of a broker begin."""
    return broker * OF_BROKER + first[broker] * OF_NEIGHBOUR


@kernel
def _lay_out(
    first: Any,
    neighbour: Any,
    measured: Any,
    current: Any,
    member: Any,
    parent: Any,
    down_s: Any,
    up_s: Any,
) -> Any:
    """Give positions to the brokers that can be reached, nearest first.

    Returns `FINE` and their number; or what is wrong, and at which broker or brokers."""
    brokers = len(first) - 1
    has_place = np.zeros(brokers, dtype=np.bool_)
    link_down_s = np.empty(brokers)
    link_up_s = np.empty(brokers)
    has_place[current] = True
    member[0] = current
    up_s[0] = 0.0
    down_s[0] = 0.0
    count = 1
    at = 0
    while at < count:
        broker = member[at]
        start = _start(first, broker)
        neighbours = first[broker + 1] - first[broker]
        for figure in range(start, start + OF_BROKER + neighbours):
            if not 0.0 <= measured[figure] < np.inf:
                return NOT_A_FIGURE, broker, broker
        inside_s = measured[start + INPUT_QUEUE_S] + measured[start + MATCHING_S]
        back = member[parent[at]] if at > 0 else -1
        for entry in range(neighbours):
            near = neighbour[first[broker] + entry]
            if near < 0:
                continue
            hop_s = inside_s + measured[start + OF_BROKER + entry]
            link_s = measured[start + OF_BROKER + neighbours + entry]
            if link_s < 0.0 or link_s == np.inf:
                return NOT_A_FIGURE, broker, broker
            if near == back:
                up_s[at] = hop_s
                link_up_s[at] = link_s
            elif has_place[near]:
                return NOT_A_TREE, broker, near
            else:
                has_place[near] = True
                member[count] = near
                parent[count] = at
                down_s[count] = hop_s
                link_down_s[count] = link_s
                # For an answer that does not name the neighbour it was reached from.
                up_s[count] = 0.0
                link_up_s[count] = np.nan
                count += 1
        at += 1
    for at in range(1, count):
        # A latency that is unknown is NaN, which equals nothing. What only one end knows serves
        # both ways; what neither knows is left out.
        one, other = link_down_s[at], link_up_s[at]
        down_s[at] += one if one == one else other if other == other else 0.0
        up_s[at] += other if other == other else one if one == one else 0.0
    return FINE, count, count


@kernel
def count_way_to_broker(
    member: Any, to_publisher_s: Any, deliveries: Any, delay_s: Any, is_candidate: Any
) -> None:
    """Add the publisher's own way to each broker to the delays, where there are deliveries.

    A broker whose latency is not known (NaN) is no candidate, but the current one always is."""
    anybody = deliveries.sum() > 0
    for at in range(len(delay_s)):
        latency_s = to_publisher_s[member[at]]
        if latency_s == latency_s:
            if anybody:
                delay_s[at] += latency_s
        elif at > 0:
            is_candidate[at] = False
