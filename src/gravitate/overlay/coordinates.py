"""Coordinates: points in a plane (or any space) whose distance is a latency.

One unit is one millisecond one way, so that a network file can give places instead of a latency
for every pair. Knows nothing of brokers or links.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gravitate.errors import InputError

Point = tuple[float, ...]


def latency_ms(one: Sequence[float], other: Sequence[float]) -> float:
    """One-way latency between two points: their Euclidean distance."""
    if len(one) != len(other):
        raise InputError(
            f"points of {len(one)} and {len(other)} dimensions have no distance: "
            "give all brokers coordinates of the same length"
        )
    return math.dist(one, other)


def scattered(count: int, extent_ms: float, seed: int) -> list[Point]:
    """`count` points drawn uniformly from a square with sides of `extent_ms`."""
    generator = random.Random(seed)
    return [
        (round(generator.uniform(0, extent_ms), 1), round(generator.uniform(0, extent_ms), 1))
        for _ in range(count)
    ]


def radial(links: Sequence[tuple[int, int]], count: int, link_ms: float) -> list[Point]:
    """Points for a tree of `count` brokers drawn around broker 0, each level farther out.

    `links` are (parent, child), parents first. Every subtree gets a sector as wide as its share
    of the leaves, and sits `link_ms` farther out than its parent, so that links are at least
    `link_ms` long and siblings are near each other."""
    children: list[list[int]] = [[] for _ in range(count)]
    for parent, child in links:
        children[parent].append(child)
    leaves = [0] * count
    for broker in range(count - 1, -1, -1):
        leaves[broker] = sum(leaves[child] for child in children[broker]) or 1
    points: list[Point] = [(0.0, 0.0)] * count
    sectors = {0: (0.0, math.tau, 0)}
    for broker in range(count):
        start, width, level = sectors[broker]
        angle = start + width / 2
        radius = level * link_ms
        points[broker] = (round(radius * math.cos(angle), 1), round(radius * math.sin(angle), 1))
        for child in children[broker]:
            share = width * leaves[child] / leaves[broker]
            sectors[child] = (start, share, level + 1)
            start += share
    return points
