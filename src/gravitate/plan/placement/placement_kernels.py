"""Selection for many publishers on one network, as kernels.

Owns the delivery trees: that of a publisher is the smallest tree that joins its current broker
and those that deliver its events; each costs what it is large, not what the network is. Its
brokers are those that would have answered a trace. The current broker takes position 0 (see
`rerooting`). Whoever calls has checked that numbers of brokers are in range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.placement.grape_kernels import count_way_to_broker
from gravitate.plan.placement.rerooting import decide, reroot


@kernel
def _span(
    publisher: Any,
    tree_parent: Any,
    tree_depth: Any,
    current: Any,
    targets: Any,
    stamp: Any,
    place: Any,
    member: Any,
    parent: Any,
    climbed: Any,
) -> Any:
    """Give positions to the brokers on the ways from `current` to the targets; their number.

    `stamp[broker]` says for which publisher `place[broker]` was given last, so that nothing has
    to be cleared between publishers."""
    top = current
    stamp[current] = publisher
    place[current] = 0
    member[0] = current
    parent[0] = 0
    count = 1
    for target in targets:
        at = target
        steps = 0
        while stamp[at] != publisher:
            if tree_depth[at] > tree_depth[top]:
                climbed[steps] = at
                steps += 1
                at = tree_parent[at]
            else:
                above = tree_parent[top]
                stamp[above] = publisher
                place[above] = count
                member[count] = above
                parent[count] = place[top]
                count += 1
                top = above
        for step in range(steps - 1, -1, -1):
            below = climbed[step]
            stamp[below] = publisher
            place[below] = count
            member[count] = below
            parent[count] = place[tree_parent[below]]
            count += 1
    return count


@kernel
def grape_of_all(
    tree_parent: Any,
    tree_depth: Any,
    inside_s: Any,
    clients_s: Any,
    tree_down_s: Any,
    tree_up_s: Any,
    current: Any,
    first: Any,
    broker: Any,
    deliveries: Any,
    words: Any,
    first_word: Any,
    bits: Any,
    to_publisher_s: Any,
    by_delay: Any,
    weight_percent: Any,
    best: Any,
    delay_s: Any,
    messages: Any,
) -> None:
    """For every publisher the best broker, and both metrics at its current and at its best one.

    `tree_down_s[i]` is what the link from the parent of broker i to it takes, `tree_up_s` the
    way back, both without the sending broker's own share `inside_s`. The bit vector of the
    entry e of publisher k is the words from `first_word[k] + (e - first[k]) * words[k]`."""
    brokers = len(tree_parent)
    stamp = np.full(brokers, -1, dtype=np.int64)
    place = np.empty(brokers, dtype=np.int64)
    member = np.empty(brokers, dtype=np.int64)
    parent = np.empty(brokers, dtype=np.int64)
    climbed = np.empty(brokers, dtype=np.int64)
    wanted = np.empty(brokers)
    own_s = np.empty(brokers)
    down_s = np.empty(brokers)
    up_s = np.empty(brokers)
    found_delay_s = np.empty(brokers)
    found_messages = np.empty(brokers)
    is_candidate = np.empty(brokers, dtype=np.bool_)
    is_tied = np.empty(brokers, dtype=np.bool_)
    for k in range(len(current)):
        entries = broker[first[k] : first[k + 1]]
        count = _span(
            k,
            tree_parent,
            tree_depth,
            current[k],
            entries,
            stamp,
            place,
            member,
            parent,
            climbed,
        )
        for at in range(count):
            here, sender = member[at], member[parent[at]]
            wanted[at] = 0.0
            own_s[at] = inside_s[here] + clients_s[here]
            is_candidate[at] = True
            if tree_parent[here] == sender:
                down_s[at] = inside_s[sender] + tree_down_s[here]
                up_s[at] = inside_s[here] + tree_up_s[here]
            else:
                down_s[at] = inside_s[sender] + tree_up_s[sender]
                up_s[at] = inside_s[here] + tree_down_s[sender]
        placed_bits = np.zeros((count, words[k]), dtype=np.uint64)
        source = first_word[k]
        for entry in range(len(entries)):
            at = place[entries[entry]]
            wanted[at] += deliveries[first[k] + entry]
            for word in range(words[k]):
                placed_bits[at, word] |= bits[source]
                source += 1
        reroot(
            count,
            parent,
            placed_bits,
            wanted,
            own_s,
            down_s,
            up_s,
            found_delay_s,
            found_messages,
        )
        if len(to_publisher_s) > 0:
            count_way_to_broker(
                member[:count],
                to_publisher_s[k],
                wanted[:count],
                found_delay_s[:count],
                is_candidate[:count],
            )
        chosen, _ = decide(
            count,
            found_delay_s if by_delay else found_messages,
            found_messages if by_delay else found_delay_s,
            weight_percent,
            is_candidate,
            member,
            is_tied,
        )
        best[k] = member[chosen]
        delay_s[0, k], delay_s[1, k] = found_delay_s[0], found_delay_s[chosen]
        messages[0, k], messages[1, k] = found_messages[0], found_messages[chosen]


@kernel
def pop_of_all(
    tree_parent: Any,
    tree_depth: Any,
    current: Any,
    first: Any,
    broker: Any,
    subscribers: Any,
    closest: Any,
) -> None:
    """For every publisher the broker where POP's relocation request ends."""
    brokers = len(tree_parent)
    stamp = np.full(brokers, -1, dtype=np.int64)
    place = np.empty(brokers, dtype=np.int64)
    member = np.empty(brokers, dtype=np.int64)
    parent = np.empty(brokers, dtype=np.int64)
    climbed = np.empty(brokers, dtype=np.int64)
    downstream = np.empty(brokers)
    for k in range(len(current)):
        entries = broker[first[k] : first[k + 1]]
        count = _span(
            k,
            tree_parent,
            tree_depth,
            current[k],
            entries,
            stamp,
            place,
            member,
            parent,
            climbed,
        )
        downstream[:count] = 0.0
        for entry in range(len(entries)):
            downstream[place[entries[entry]]] += subscribers[first[k] + entry]
        for at in range(count - 1, 0, -1):
            downstream[parent[at]] += downstream[at]
        # Positions are in the order of the way down, so the request never has to look back.
        here = 0
        for at in range(1, count):
            if parent[at] == here and downstream[at] > downstream[0] - downstream[at]:
                here = at
        closest[k] = member[here]
