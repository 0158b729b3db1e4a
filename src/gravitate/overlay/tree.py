"""Questions about overlays of brokers and links: is it a tree, what is the way from A to B.

Works on names alone: a broker is its id, a link a pair of ids without direction. Knows neither
latencies nor files. Answers never depend on the order of a set, and neighbours come sorted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

Link = tuple[str, str]
Neighbours = Mapping[str, Sequence[str]]


def neighbours(brokers: Iterable[str], links: Iterable[Link]) -> dict[str, tuple[str, ...]]:
    """Who is linked to whom, every broker listed, neighbours sorted and without repetition."""
    found: dict[str, set[str]] = {broker: set() for broker in brokers}
    for one, other in links:
        found[one].add(other)
        found[other].add(one)
    return {broker: tuple(sorted(others)) for broker, others in found.items()}


def parts(brokers: Iterable[str], links: Iterable[Link]) -> list[list[str]]:
    """The brokers by connected part, each part and its members in the order of `brokers`."""
    order = list(brokers)
    near = neighbours(order, links)
    position = {broker: index for index, broker in enumerate(order)}
    seen: set[str] = set()
    found = []
    for start in order:
        if start not in seen:
            part = sorted(reach(near, start), key=position.__getitem__)
            seen.update(part)
            found.append(part)
    return found


def reach(near: Neighbours, start: str) -> dict[str, int]:
    """Every broker that can be reached from `start`, nearest first, with the number of hops."""
    hops = {start: 0}
    queue = deque([start])
    while queue:
        broker = queue.popleft()
        for other in near[broker]:
            if other not in hops:
                hops[other] = hops[broker] + 1
                queue.append(other)
    return hops


def first_cycle(links: Sequence[Link]) -> tuple[int, list[str]] | None:
    """The first link (by position) that closes a cycle, and the brokers along that cycle.

    The list starts and ends with the same broker; a link given twice is a cycle of two."""
    joined: dict[str, str] = {}

    def root(broker: str) -> str:
        while (above := joined.setdefault(broker, broker)) != broker:
            joined[broker] = joined.setdefault(above, above)
            broker = above
        return broker

    for position, (one, other) in enumerate(links):
        if root(one) == root(other):
            before = links[:position]
            near = neighbours(
                {broker for link in (*before, (one, other)) for broker in link}, before
            )
            way = path(near, other, one)
            assert way is not None, "two brokers of one part have a way between them"
            return position, [one, *(way if one != other else [other])]
        joined[root(one)] = root(other)
    return None


def path(near: Neighbours, start: str, end: str) -> list[str] | None:
    """A shortest way from `start` to `end`, both included; None when there is none."""
    came_from: dict[str, str] = {start: start}
    queue = deque([start])
    while queue:
        broker = queue.popleft()
        if broker == end:
            way = [end]
            while way[-1] != start:
                way.append(came_from[way[-1]])
            return way[::-1]
        for other in near[broker]:
            if other not in came_from:
                came_from[other] = broker
                queue.append(other)
    return None


def diameter_hops(near: Neighbours) -> int:
    """The longest way in a tree, in links: the farthest from the farthest of any broker."""
    if not near:
        return 0
    far = next(reversed(reach(near, next(iter(near)))))
    return max(reach(near, far).values())
