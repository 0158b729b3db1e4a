"""How many links events cross, and what one subscriber elsewhere would change, as a kernel.

Link i of a tree is the one from broker i to its parent. An event crosses every link on a way from
its source to a broker with somebody who wants it, once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel


@kernel
def crossings(
    parent: Any,
    depth: Any,
    source: Any,
    events: Any,
    first: Any,
    member: Any,
    home: Any,
    elsewhere: Any,
    saved: Any,
) -> Any:
    """The links that all events cross with everybody at `home`; adds to `saved` by how many fewer
    they cross when one subscriber alone is at `elsewhere` instead.

    Events k are `events[k]` equal ones for the subscribers `member[first[k] : first[k + 1]]`."""
    brokers = len(parent)
    here = np.zeros(brokers, dtype=np.int64)
    """How many want it at a broker."""
    users = np.zeros(brokers, dtype=np.int64)
    """How many get it over a link."""
    on_other_way = np.full(brokers, -1, dtype=np.int64)
    targets = np.empty(brokers, dtype=np.int64)
    used = np.empty(brokers, dtype=np.int64)
    total = 0.0
    asked = 0
    for k in range(len(source)):
        target_count = 0
        for entry in range(first[k], first[k + 1]):
            broker = home[member[entry]]
            if here[broker] == 0:
                targets[target_count] = broker
                target_count += 1
            here[broker] += 1
        used_count = 0
        for number in range(target_count):
            one, other = source[k], targets[number]
            wanted = here[other]
            here[other] = 0
            while one != other:
                if depth[one] >= depth[other]:
                    link, one = one, parent[one]
                else:
                    link, other = other, parent[other]
                if users[link] == 0:
                    used[used_count] = link
                    used_count += 1
                users[link] += wanted
        total += events[k] * used_count
        for entry in range(first[k], first[k + 1]):
            subscriber = member[entry]
            if elsewhere[subscriber] == home[subscriber]:
                continue
            change = 0
            one, other = source[k], elsewhere[subscriber]
            while one != other:
                if depth[one] >= depth[other]:
                    link, one = one, parent[one]
                else:
                    link, other = other, parent[other]
                on_other_way[link] = asked
                if users[link] == 0:
                    change += 1
            one, other = source[k], home[subscriber]
            while one != other:
                if depth[one] >= depth[other]:
                    link, one = one, parent[one]
                else:
                    link, other = other, parent[other]
                if users[link] == 1 and on_other_way[link] != asked:
                    change -= 1
            saved[subscriber] -= events[k] * change
            asked += 1
        for number in range(used_count):
            users[used[number]] = 0
    return total
