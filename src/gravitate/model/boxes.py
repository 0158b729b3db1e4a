"""The bounding box of a conjunction in chosen dimensions: what subscriber assignment works on.

An event's coordinate in a dimension is the number that the attribute is or reads as. The box
holds every matching event in the dimensions where the event has a coordinate. A dimension that
the conjunction leaves open, or constrains only to values without a coordinate (`symbol = 'YHOO'`, a
truth value, missing), is unbounded: such a constraint says nothing about where the events are.
`symbol = '10'` has a coordinate and bounds the dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from gravitate.model.intervals import Numbers
from gravitate.model.regions import ConjunctionRegion, Region
from gravitate.model.semantics import text_number


class Box(msgspec.Struct, frozen=True):
    """A closed box; infinite where it has no bound."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def joined(self, other: Box) -> Box:
        """The smallest box around both."""
        return Box(tuple(map(min, self.lows, other.lows)), tuple(map(max, self.highs, other.highs)))


def _extent(region: Region | None) -> tuple[float, float]:
    """The lowest and highest coordinate in a region, infinite when it has none."""
    if region is None:
        return -math.inf, math.inf
    parts: list[Numbers] = [region.numbers]
    if region.open_texts is not None:
        parts.append(region.open_texts.numbers)
    readings = [number for text in region.texts if (number := text_number(text)) is not None]
    lows = [*(part.low for part in parts if part), *readings]
    highs = [*(part.high for part in parts if part), *readings]
    return (min(lows), max(highs)) if lows else (-math.inf, math.inf)


def conjunction_box(conjunction: ConjunctionRegion, dimensions: Sequence[str]) -> Box:
    """The smallest box known to hold all events of a conjunction."""
    extents = [_extent(conjunction.by_attribute.get(dimension)) for dimension in dimensions]
    return Box(tuple(low for low, _ in extents), tuple(high for _, high in extents))
