"""Filters that may intersect a filter, found by what they fix instead of by comparing all.

A filter is filed under its topics, level by level; filters under the same topics that have become
many are filed further by the values of an attribute that most of them fix. Whoever asks walks down
the same way: along its own topics, and where it fixes the attribute, to its own values. What fixes
nothing is found by everybody.

`may_intersect` names every filter that intersects the one asked for, and some that do not:
`covering.intersects` is the judge. A filter that covers another intersects it too, so both
questions of routing are answered here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from gravitate.matching.topic_index import Level
from gravitate.model.filters import Filter
from gravitate.model.fixed import Fixed, FixedValue, Path, fixed

_CROWD: Final = 16
"""Filters in one place before it is tried to divide them."""
_VALUES_MIN: Final = 4
"""An attribute divides filters if they have at least so many different values of it."""
_DIVISIONS_MAX: Final = 4
"""How often filters of the same topics are divided, each time by another attribute."""

Found = dict[Filter, None]


class Candidates:
    """A set of filters. Those that match nothing are never found."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: Level[_Place | Filter] = Level()

    def __bool__(self) -> bool:
        """Whether any can be found."""
        return self._root.place is not None or bool(self._root.below)

    def add(self, filter: Filter) -> None:
        what = fixed(filter)
        for path in what.paths:
            level = self._root.entered(path)
            level.place = _with(level.place, filter, what, ())

    def discard(self, filter: Filter) -> None:
        what = fixed(filter)
        for path in what.paths:
            level = self._root.entered(path)
            level.place = _without(level.place, filter, what)
            self._root.prune(path)

    def may_intersect(self, filter: Filter) -> Found:
        """Every filter of the set that may intersect this one."""
        found: Found = {}
        what = fixed(filter)
        for path in what.paths:
            for level in self._levels(path):
                _collect(level.place, what, found)
        return found

    def first_that(self, filter: Filter, judge: Callable[[Filter], bool]) -> Filter | None:
        """One of the same that `judge` is right for, the latest first; no others are looked at."""
        what = fixed(filter)
        for path in what.paths:
            for level in self._levels(path):
                found: Found = {}
                _collect(level.place, what, found)
                for one in reversed(found):
                    if judge(one):
                        return one
        return None

    def _levels(self, path: Path) -> Iterator[Level[_Place | Filter]]:
        """The levels whose filters have a topic on the path."""
        levels = [self._root]
        for name in path:
            if name == "#":
                for level in levels:
                    yield from level.all_below()
                return
            following: list[Level[_Place | Filter]] = []
            for level in levels:
                below = level.below
                if not below:
                    continue
                if (rest := below.get("#")) is not None:
                    yield rest
                if name == "+":
                    following += [one for other, one in below.items() if other != "#"]
                    continue
                if (same := below.get(name)) is not None:
                    following.append(same)
                if (any_level := below.get("+")) is not None:
                    following.append(any_level)
            if not following:
                return
            levels = following
        for level in levels:
            yield level
            if (rest := level.below.get("#")) is not None:
                yield rest


class _Place:
    """Several filters of the same topics, divided by the values of attributes once they are many.

    A filter is in the first division, by age, whose attribute it fixes, once for each of its
    values; one that fixes none of these attributes is among `members`."""

    __slots__ = ("_divided_at", "_divided_by", "divisions", "members")

    def __init__(self, divided_by: tuple[str, ...]) -> None:
        self.members: Found = {}
        self.divisions: dict[str, dict[FixedValue, _Place | Filter]] = {}
        self._divided_by = divided_by
        """Attributes whose values all filters here share."""
        self._divided_at = _CROWD

    def add(self, filter: Filter, what: Fixed) -> None:
        for attribute, places in self.divisions.items():
            if attribute in what.values:
                self._add_to(attribute, places, filter, what)
                return
        self.members[filter] = None
        if len(self.members) > self._divided_at:
            self._divide()

    def _add_to(
        self,
        attribute: str,
        places: dict[FixedValue, _Place | Filter],
        filter: Filter,
        what: Fixed,
    ) -> None:
        divided_by = (*self._divided_by, attribute)
        for value in what.values[attribute]:
            places[value] = _with(places.get(value), filter, what, divided_by)

    def _divide(self) -> None:
        attribute = self._best_attribute()
        if attribute is None:
            self._divided_at *= 2
            return
        places = self.divisions[attribute] = {}
        staying: Found = {}
        for filter in self.members:
            what = fixed(filter)
            if attribute in what.values:
                self._add_to(attribute, places, filter, what)
            else:
                staying[filter] = None
        self.members = staying

    def _best_attribute(self) -> str | None:
        """The attribute that divides the members most finely, if one does."""
        if len(self._divided_by) == _DIVISIONS_MAX:
            return None
        values: dict[str, set[FixedValue]] = {}
        fixing: Counter[str] = Counter()
        for filter in self.members:
            for attribute, those in fixed(filter).values.items():
                if attribute not in self._divided_by:
                    values.setdefault(attribute, set()).update(those)
                    fixing[attribute] += 1
        enough = [
            attribute
            for attribute, those in values.items()
            if len(those) >= _VALUES_MIN and 2 * fixing[attribute] > len(self.members)
        ]
        return max(enough, key=lambda attribute: len(values[attribute]), default=None)

    def discard(self, filter: Filter, what: Fixed) -> None:
        for attribute, places in self.divisions.items():
            if attribute in what.values:
                for value in what.values[attribute]:
                    left = _without(places.pop(value, None), filter, what)
                    if left is not None:
                        places[value] = left
                if not places:
                    del self.divisions[attribute]
                return
        self.members.pop(filter, None)

    def collect(self, what: Fixed, found: Found) -> None:
        found.update(self.members)
        for attribute, places in self.divisions.items():
            values = what.values.get(attribute)
            if values is None:
                for place in places.values():
                    _collect(place, what, found)
            else:
                for value in values:
                    _collect(places.get(value), what, found)


# A place with one filter is that filter: most are, and there may be a million of them.


def _with(
    place: _Place | Filter | None, filter: Filter, what: Fixed, divided_by: tuple[str, ...]
) -> _Place | Filter:
    if place is None or place == filter:
        return filter
    if isinstance(place, Filter):
        first, place = place, _Place(divided_by)
        place.add(first, fixed(first))
    place.add(filter, what)
    return place


def _without(place: _Place | Filter | None, filter: Filter, what: Fixed) -> _Place | Filter | None:
    if isinstance(place, _Place):
        place.discard(filter, what)
        return place if place.members or place.divisions else None
    return None if place == filter else place


def _collect(place: _Place | Filter | None, what: Fixed, found: Found) -> None:
    if isinstance(place, _Place):
        place.collect(what, found)
    elif place is not None:
        found[place] = None
