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
from gravitate.plan.placement.rerooting import choose, positions

FINE = 0
NOT_A_RECORD = 1
NOT_A_FIGURE = 2
TWICE = 3
NO_CURRENT = 4
NOT_A_TREE = 5

# The record of a broker, in slots of 8 bytes: these, and three for each neighbour.
KEY = 0
DELIVERIES = 1
INPUT_QUEUE_S = 2
MATCHING_S = 3
CLIENT_QUEUE_S = 4
OF_BROKER = 5
NEIGHBOUR_KEY = 0
QUEUE_S = 1
LINK_S = 2
OF_NEIGHBOUR = 3

ABSENT = -1


@kernel
def select(
    sizes: Any,
    numbers: Any,
    keys: Any,
    bits: Any,
    to_publisher_s: Any,
    current_key: Any,
    by_delay: Any,
    weight_percent: Any,
    delay_s: Any,
    messages: Any,
    is_tied: Any,
) -> Any:
    """Both metrics of every broker that answered, and the best of them.

    `numbers` and `keys` are the same records, one after the other, read as doubles and as whole
    numbers; `sizes` are theirs in bytes. A broker whose `to_publisher_s` is NaN is no candidate,
    nor is one that cannot be reached from the current one; for them `delay_s`, `messages` and
    `is_tied` are left as they are. Returns `FINE`, the current broker, the best one and how many
    tie; or what is wrong, and at which broker or brokers."""
    brokers = len(sizes)
    start = np.empty(brokers + 1, dtype=np.int64)
    start[0] = 0
    for broker in range(brokers):
        slots = sizes[broker] // 8
        if sizes[broker] % 8 or slots < OF_BROKER or (slots - OF_BROKER) % OF_NEIGHBOUR:
            return NOT_A_RECORD, broker, broker, 0
        start[broker + 1] = start[broker] + slots
    table, twice = _table(start, keys)
    if twice != ABSENT:
        return TWICE, twice, twice, 0
    current = _find(table, start, keys, current_key)
    if current == ABSENT:
        return NO_CURRENT, 0, 0, 0
    tree = positions(brokers)
    found, one, other = _lay_out(start, numbers, keys, table, current, tree)
    if found != FINE:
        return found, one, other, 0
    count = one
    placed_bits = np.empty((count, bits.shape[1]), dtype=np.uint64)
    for at in range(count):
        placed_bits[at] = bits[tree.member[at]]
        record = start[tree.member[at]]
        tree.deliveries[at] = numbers[record + DELIVERIES]
        tree.clients_s[at] = (
            numbers[record + INPUT_QUEUE_S]
            + numbers[record + MATCHING_S]
            + numbers[record + CLIENT_QUEUE_S]
        )
    best, ties = choose(tree, count, placed_bits, to_publisher_s, by_delay, weight_percent)
    for at in range(count):
        if tree.is_candidate[at]:
            broker = tree.member[at]
            delay_s[broker] = tree.delay_s[at]
            messages[broker] = tree.messages[at]
            is_tied[broker] = tree.is_tied[at]
    return FINE, current, tree.member[best], ties


@kernel
def _table(start: Any, keys: Any) -> Any:
    """Brokers by their keys, as an open hash table, and a broker that has the key of another.

    Keys are digests, so their lowest bits spread well. At least half of the table is free."""
    brokers = len(start) - 1
    capacity = 4
    while capacity < 2 * brokers:
        capacity *= 2
    table = np.full(capacity, ABSENT, dtype=np.int64)
    for broker in range(brokers):
        key = keys[start[broker] + KEY]
        slot = np.int64(key & np.uint64(capacity - 1))
        while table[slot] != ABSENT:
            if keys[start[table[slot]] + KEY] == key:
                return table, broker
            slot = (slot + 1) & (capacity - 1)
        table[slot] = broker
    return table, ABSENT


@kernel
def _find(table: Any, start: Any, keys: Any, key: Any) -> Any:
    """The broker that has a key, or `ABSENT`."""
    last = len(table) - 1
    slot = np.int64(key & np.uint64(last))
    while table[slot] != ABSENT and keys[start[table[slot]] + KEY] != key:
        slot = (slot + 1) & last
    return table[slot]


@kernel
def _lay_out(start: Any, numbers: Any, keys: Any, table: Any, current: Any, tree: Any) -> Any:
    """Give positions to the brokers that can be reached, nearest first.

    Returns `FINE` and their number; or what is wrong, and at which broker or brokers."""
    brokers = len(start) - 1
    has_place = np.zeros(brokers, dtype=np.bool_)
    link_down_s = np.empty(brokers)
    link_up_s = np.empty(brokers)
    has_place[current] = True
    tree.member[0] = current
    tree.up_s[0] = 0.0
    tree.down_s[0] = 0.0
    count = 1
    at = 0
    while at < count:
        broker = tree.member[at]
        record = start[broker]
        for slot in range(record + DELIVERIES, record + OF_BROKER):
            if not 0.0 <= numbers[slot] < np.inf:
                return NOT_A_FIGURE, broker, broker
        inside_s = numbers[record + INPUT_QUEUE_S] + numbers[record + MATCHING_S]
        back = tree.member[tree.parent[at]] if at > 0 else ABSENT
        for entry in range(record + OF_BROKER, start[broker + 1], OF_NEIGHBOUR):
            queue_s = numbers[entry + QUEUE_S]
            link_s = numbers[entry + LINK_S]
            if not 0.0 <= queue_s < np.inf or link_s < 0.0 or link_s == np.inf:
                return NOT_A_FIGURE, broker, broker
            near = _find(table, start, keys, keys[entry + NEIGHBOUR_KEY])
            if near == ABSENT:
                continue
            if near == back:
                tree.up_s[at] = inside_s + queue_s
                link_up_s[at] = link_s
            elif has_place[near]:
                return NOT_A_TREE, broker, near
            else:
                has_place[near] = True
                tree.member[count] = near
                tree.parent[count] = at
                tree.down_s[count] = inside_s + queue_s
                link_down_s[count] = link_s
                # For an answer that does not name the neighbour it was reached from.
                tree.up_s[count] = 0.0
                link_up_s[count] = np.nan
                count += 1
        at += 1
    for at in range(1, count):
        # A latency that is unknown is NaN, which equals nothing. What only one end knows serves
        # both ways; what neither knows is left out.
        one, other = link_down_s[at], link_up_s[at]
        tree.down_s[at] += one if one == one else other if other == other else 0.0
        tree.up_s[at] += other if other == other else one if one == one else 0.0
    return FINE, count, count
