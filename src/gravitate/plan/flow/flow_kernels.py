"""The kernel of the flow model: spreads flows over a tree and counts.

Owns the walk. The brokers an event has reached are a connected part of the tree with one topmost
broker; each broker that is added is looked at once, so a flow costs what its delivery tree is
large. Rows of `counts` are in the order of `flow.COUNTERS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel

IN_LINKS = 0
IN_CLIENTS = 1
OUT_LINKS = 2
OUT_CLIENTS = 3
USEFUL = 4
EVENTS_UP = 5
EVENTS_DOWN = 6
BYTES_UP = 7
BYTES_DOWN = 8


@kernel
def spread(
    parent: Any,
    depth: Any,
    latency_s: Any,
    s_per_byte: Any,
    service_s: Any,
    source: Any,
    first: Any,
    target: Any,
    sessions: Any,
    events: Any,
    size_bytes: Any,
    counts: Any,
    hops: Any,
    delay_s: Any,
) -> None:
    """Add what the flows load to `counts`, and fill `hops` and `delay_s` of their targets."""
    brokers = len(parent)
    reached_by = np.full(brokers, -1, dtype=np.int64)
    hops_to = np.zeros(brokers, dtype=np.int32)
    delay_s_to = np.zeros(brokers)
    climbed = np.empty(brokers, dtype=np.int32)
    for k in range(len(source)):
        top = source[k]
        count = events[k]
        weight = count * size_bytes[k]
        reached_by[top] = k
        hops_to[top] = 0
        delay_s_to[top] = 0.0
        counts[IN_CLIENTS, top] += count
        for entry in range(first[k], first[k + 1]):
            at = target[entry]
            steps = 0
            while reached_by[at] != k:
                if depth[at] > depth[top]:
                    climbed[steps] = at
                    steps += 1
                    at = parent[at]
                else:
                    above = parent[top]
                    counts[EVENTS_UP, top] += count
                    counts[BYTES_UP, top] += weight
                    counts[OUT_LINKS, top] += count
                    counts[IN_LINKS, above] += count
                    reached_by[above] = k
                    hops_to[above] = hops_to[top] + 1
                    on_link_s = latency_s[top] + s_per_byte[top] * size_bytes[k]
                    delay_s_to[above] = delay_s_to[top] + on_link_s + service_s[above]
                    top = above
            for step in range(steps - 1, -1, -1):
                below = climbed[step]
                above = parent[below]
                counts[EVENTS_DOWN, below] += count
                counts[BYTES_DOWN, below] += weight
                counts[OUT_LINKS, above] += count
                counts[IN_LINKS, below] += count
                reached_by[below] = k
                hops_to[below] = hops_to[above] + 1
                on_link_s = latency_s[below] + s_per_byte[below] * size_bytes[k]
                delay_s_to[below] = delay_s_to[above] + on_link_s + service_s[below]
            wanted = target[entry]
            hops[entry] = hops_to[wanted]
            delay_s[entry] = delay_s_to[wanted]
            counts[OUT_CLIENTS, wanted] += count * sessions[entry]
            if sessions[entry] > 0 and wanted != source[k]:
                counts[USEFUL, wanted] += count
