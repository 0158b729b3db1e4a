"""Selection for many publishers on one network, as kernels.

Owns the delivery trees: that of a publisher is the smallest tree that joins its current broker
and those that deliver its events; each costs what it is large, not what the network is. Its
brokers are those that would have answered a trace. The current broker takes position 0 (see
`rerooting`). Whoever calls has checked that numbers of brokers are in range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gravitate.matching.jit import kernel
from gravitate.plan.placement.rerooting import choose, positions

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]


class Network(NamedTuple):
    """A tree of brokers with what each of them and each link adds to the delay of an event."""

    parent: Ints
    depth: Ints
    inside_s: Floats
    """Input queueing and matching at broker i."""
    clients_s: Floats
    """Output queueing of broker i to its clients."""
    down_s: Floats
    """Output queueing and latency from the parent of broker i to broker i."""
    up_s: Floats
    """The same, from broker i to its parent."""


class Profiles(NamedTuple):
    """Publishers and where their events are delivered; see `profiles_of`.

    The brokers of publisher k stand at `first[k]` to `first[k + 1]` (not included). Each has a
    bit vector of `words[k]` words; those of publisher k start at `first_word[k]` of `bits`."""

    current: Longs
    first: Longs
    broker: Longs
    deliveries: Floats
    words: Longs
    first_word: Longs
    bits: Words


class _Seen(NamedTuple):
    """Which brokers have a position."""

    stamp: Any
    """For which publisher `place` was given last, so that nothing has to be cleared between."""
    place: Any
    climbed: Any


@kernel
def _nothing_seen(brokers: Any) -> Any:
    return _Seen(
        np.full(brokers, -1, dtype=np.int64),
        np.empty(brokers, dtype=np.int64),
        np.empty(brokers, dtype=np.int64),
    )


@kernel
def _span(publisher: Any, network: Any, current: Any, targets: Any, seen: Any, tree: Any) -> Any:
    """Give positions to the brokers on the ways from `current` to the targets; their number."""
    top = current
    seen.stamp[current] = publisher
    seen.place[current] = 0
    tree.member[0] = current
    tree.parent[0] = 0
    count = 1
    for target in targets:
        at = target
        steps = 0
        while seen.stamp[at] != publisher:
            if network.depth[at] > network.depth[top]:
                seen.climbed[steps] = at
                steps += 1
                at = network.parent[at]
            else:
                above = network.parent[top]
                seen.stamp[above] = publisher
                seen.place[above] = count
                tree.member[count] = above
                tree.parent[count] = seen.place[top]
                count += 1
                top = above
        for step in range(steps - 1, -1, -1):
            below = seen.climbed[step]
            seen.stamp[below] = publisher
            seen.place[below] = count
            tree.member[count] = below
            tree.parent[count] = seen.place[network.parent[below]]
            count += 1
    return count


@kernel
def grape_of_all(
    network: Any, profiles: Any, to_publisher_s: Any, by_delay: Any, weight_percent: Any
) -> Any:
    """For every publisher the best broker, and both metrics at its current and at its best one."""
    publishers, brokers = len(profiles.current), len(network.parent)
    best = np.empty(publishers, dtype=np.int64)
    delay_s, messages = np.empty((2, publishers)), np.empty((2, publishers))
    seen, tree = _nothing_seen(brokers), positions(brokers)
    latencies_s = np.empty(0)
    for k in range(publishers):
        start, end = profiles.first[k], profiles.first[k + 1]
        entries, words = profiles.broker[start:end], profiles.words[k]
        count = _span(k, network, profiles.current[k], entries, seen, tree)
        for at in range(count):
            here, sender = tree.member[at], tree.member[tree.parent[at]]
            tree.deliveries[at] = 0.0
            tree.clients_s[at] = network.inside_s[here] + network.clients_s[here]
            if network.parent[here] == sender:
                tree.down_s[at] = network.inside_s[sender] + network.down_s[here]
                tree.up_s[at] = network.inside_s[here] + network.up_s[here]
            else:
                tree.down_s[at] = network.inside_s[sender] + network.up_s[sender]
                tree.up_s[at] = network.inside_s[here] + network.down_s[sender]
        bits = np.zeros((count, words), dtype=np.uint64)
        source = profiles.first_word[k]
        for entry in range(len(entries)):
            at = seen.place[entries[entry]]
            tree.deliveries[at] += profiles.deliveries[start + entry]
            for word in range(words):
                bits[at, word] |= profiles.bits[source]
                source += 1
        if len(to_publisher_s) > 0:
            latencies_s = to_publisher_s[k]
        chosen, _ = choose(tree, count, bits, latencies_s, by_delay, weight_percent)
        best[k] = tree.member[chosen]
        delay_s[0, k], delay_s[1, k] = tree.delay_s[0], tree.delay_s[chosen]
        messages[0, k], messages[1, k] = tree.messages[0], tree.messages[chosen]
    return best, delay_s, messages


@kernel
def pop_of_all(network: Any, profiles: Any) -> Any:
    """For every publisher the broker where POP's relocation request ends."""
    brokers = len(network.parent)
    closest = np.empty(len(profiles.current), dtype=np.int64)
    seen, tree = _nothing_seen(brokers), positions(brokers)
    downstream = np.empty(brokers)
    for k in range(len(closest)):
        start, end = profiles.first[k], profiles.first[k + 1]
        count = _span(k, network, profiles.current[k], profiles.broker[start:end], seen, tree)
        downstream[:count] = 0.0
        for entry in range(start, end):
            downstream[seen.place[profiles.broker[entry]]] += profiles.deliveries[entry]
        for at in range(count - 1, 0, -1):
            downstream[tree.parent[at]] += downstream[at]
        # Positions are in the order of the way down, so the request never has to look back.
        here = 0
        for at in range(1, count):
            if tree.parent[at] == here and downstream[at] > downstream[0] - downstream[at]:
                here = at
        closest[k] = tree.member[here]
    return closest
