"""The alternatives of a filter, compared with others all at once.

What two filters say of one attribute is compared once, however many alternatives say it. Which
alternatives are left is a number with a bit for each; an attribute takes bits away. Two filters
of 256 alternatives and few values are so compared by few regions instead of 65,536 pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gravitate.model.regions import ConjunctionRegion, Region, region_within, regions_overlap


class Alternatives:
    """Some conjunctions by attribute; bit i is conjunction i."""

    __slots__ = ("_attributes", "_every")

    def __init__(self, regions: Sequence[ConjunctionRegion]) -> None:
        self._every = (1 << len(regions)) - 1
        told: dict[str, dict[Region, int]] = {}
        for index, conjunction in enumerate(regions):
            for attribute, region in conjunction.pairs:
                masks = told.setdefault(attribute, {})
                masks[region] = masks.get(region, 0) | 1 << index
        self._attributes = [
            (attribute, self._every & ~_any(masks.values()), masks)
            for attribute, masks in told.items()
        ]
        """Attribute, the conjunctions that leave it open, and which say what of it."""

    def around(self, parts: Iterable[ConjunctionRegion]) -> Iterator[int]:
        """For each part the conjunctions that it lies within."""
        return self._masks(parts, region_within, open_fits=False)

    def meeting(self, parts: Iterable[ConjunctionRegion]) -> Iterator[int]:
        """For each part the conjunctions that may have an event in common with it."""
        return self._masks(parts, regions_overlap, open_fits=True)

    def _masks(
        self,
        parts: Iterable[ConjunctionRegion],
        fits: Callable[[Region, Region], bool],
        open_fits: bool,
    ) -> Iterator[int]:
        known: dict[tuple[str, Region], int] = {}
        for part in parts:
            left = self._every
            for attribute, silent, masks in self._attributes:
                region = part.by_attribute.get(attribute)
                if region is None:
                    if not open_fits:
                        left &= silent
                else:
                    fitting = known.get((attribute, region))
                    if fitting is None:
                        fitting = silent | _any(
                            mask
                            for other, mask in masks.items()
                            if other is region or fits(region, other)
                        )
                        known[attribute, region] = fitting
                    left &= fitting
                if not left:
                    break
            yield left


def _any(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
