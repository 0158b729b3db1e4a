"""Sets of doubles, exactly: a closed interval with holes, or finitely many points.

Doubles are discrete, so an open end is the closed end next to it and every interval is closed.
Normal form: holes lie strictly inside; an interval of one double is a point; the empty set has
no points. `numbers_within` is a partial order on normal forms and sound for inclusion.
"""

from __future__ import annotations

import math
from typing import Final

_NO_HOLES: Final[frozenset[float]] = frozenset()


class Numbers:
    """`points`, or when that is None every double in [low, high] that is not in `holes`."""

    __slots__ = ("high", "holes", "low", "points")

    def __init__(
        self,
        low: float,
        high: float,
        holes: frozenset[float] = _NO_HOLES,
        points: frozenset[float] | None = None,
    ) -> None:
        self.low = low
        self.high = high
        self.holes = holes
        self.points = points

    def __contains__(self, number: float) -> bool:
        if self.points is not None:
            return number in self.points
        return self.low <= number <= self.high and number not in self.holes

    def __bool__(self) -> bool:
        return self.points is None or bool(self.points)


NO_NUMBERS: Final = Numbers(math.inf, -math.inf, points=frozenset())
ALL_NUMBERS: Final = Numbers(-math.inf, math.inf)


def points(numbers: frozenset[float]) -> Numbers:
    """Just these numbers."""
    if not numbers:
        return NO_NUMBERS
    return Numbers(min(numbers), max(numbers), points=numbers)


def interval(low: float, high: float, holes: frozenset[float] = _NO_HOLES) -> Numbers:
    """The doubles from low to high, both included, without the holes."""
    while low <= high and low in holes:
        if low == high:
            return NO_NUMBERS
        low = math.nextafter(low, math.inf)
    while low <= high and high in holes:
        if low == high:
            return NO_NUMBERS
        high = math.nextafter(high, -math.inf)
    if low >= high:
        return points(frozenset((low,))) if low == high else NO_NUMBERS
    if holes:
        holes = frozenset(hole for hole in holes if low < hole < high)
    return Numbers(low, high, holes)


def above(bound: float) -> Numbers:
    """The doubles greater than `bound`."""
    return NO_NUMBERS if bound == math.inf else interval(math.nextafter(bound, math.inf), math.inf)


def below(bound: float) -> Numbers:
    """The doubles less than `bound`."""
    if bound == -math.inf:
        return NO_NUMBERS
    return interval(-math.inf, math.nextafter(bound, -math.inf))


def numbers_meet(a: Numbers, b: Numbers) -> Numbers:
    """What is in both."""
    if a is b or b is ALL_NUMBERS:
        return a
    if a is ALL_NUMBERS:
        return b
    if a.points is not None:
        return points(frozenset(p for p in a.points if p in b))
    if b.points is not None:
        return points(frozenset(p for p in b.points if p in a))
    return interval(max(a.low, b.low), min(a.high, b.high), a.holes | b.holes)


def numbers_within(a: Numbers, b: Numbers) -> bool:
    """Whether `a` is part of `b`. An interval is never found to be part of finitely many points."""
    if a is b or b is ALL_NUMBERS:
        return True
    if a.points is not None:
        if b.points is not None:
            return a.points <= b.points
        return not a.points or (
            a.low >= b.low and a.high <= b.high and a.points.isdisjoint(b.holes)
        )
    if b.points is not None or a.low < b.low or a.high > b.high:
        return False
    for hole in b.holes:  # noqa: SIM110 - a generator doubles the cost here
        if hole not in a.holes and a.low <= hole <= a.high:
            return False
    return True


def numbers_overlap(a: Numbers, b: Numbers) -> bool:
    """Whether some double is in both; exact."""
    if a.points is not None:
        if b.points is not None:
            return not a.points.isdisjoint(b.points)
        return any(point in b for point in a.points)
    if b.points is not None:
        return any(point in a for point in b.points)
    if not a.holes and not b.holes:
        return a.low <= b.high and b.low <= a.high
    return bool(numbers_meet(a, b))
