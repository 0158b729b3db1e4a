"""Where brokers stand in a drawing of their overlay.

By their coordinates when all have some, so that distance is latency; otherwise radially around
the middle of the tree, part beside part when the overlay falls into several. Links that do not
belong to the tree change nothing. Answers depend on names and links alone, never on traffic, so
that two runs of one network look alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from gravitate.overlay import tree
from gravitate.overlay.coordinates import radial

Position = tuple[float, float]


def positions(
    brokers: Mapping[str, tuple[float, ...]], links: Sequence[tuple[str, str]]
) -> dict[str, Position]:
    """A place for every broker; `brokers` are ids with their coordinates, which may be empty."""
    if by_coordinates(brokers):
        return {broker: (point[0], point[1]) for broker, point in brokers.items()}
    placed: dict[str, Position] = {}
    right = 0.0
    near = tree.neighbours(brokers, links)
    for part in tree.parts(brokers, links):
        points = _radial(part, near)
        left = min(x for x, _ in points.values())
        placed |= {broker: (x - left + right, y) for broker, (x, y) in points.items()}
        right = max(placed[broker][0] for broker in part) + 1.0
    return placed


def by_coordinates(brokers: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether coordinates say where brokers stand."""
    points = list(brokers.values())
    return bool(points) and all(len(point) >= 2 for point in points) and len(set(points)) > 1


def _radial(part: Sequence[str], near: tree.Neighbours) -> dict[str, Position]:
    root = middle(part[0], near)
    number = {root: 0}
    edges = []
    waiting = deque([root])
    while waiting:
        broker = waiting.popleft()
        for other in near[broker]:
            if other not in number:
                number[other] = len(number)
                edges.append((number[broker], number[other]))
                waiting.append(other)
    points = radial(edges, len(number), 1.0)
    # Turned so that a chain lies flat: pages are wider than high.
    return {broker: (points[index][1], points[index][0]) for broker, index in number.items()}


def middle(start: str, near: tree.Neighbours) -> str:
    """The broker halfway along a longest way of the tree that holds `start`."""
    one_end = list(tree.reach(near, start))[-1]
    hops = tree.reach(near, one_end)
    at = list(hops)[-1]
    for _ in range(hops[at] // 2):
        at = min((other for other in near[at] if hops[other] < hops[at]), key=str)
    return at
