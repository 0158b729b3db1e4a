"""Which of the subscriptions a neighbour could be told it really is told: the covering rule.

A frontier holds the subscriptions eligible for one neighbour. Told are the
maximal ones: a subscription is left out when another member covers it; among members that cover
each other the smallest id is told. This is a function of the live set alone, never of the order
in which subscriptions came and went, because covering is a partial order: whoever finds a
coverer finds, by transitivity, a told one.

Kept per distinct filter, since many clients ask for the same: a told filter, or a *parent* that
is told and covers it. Filters that may cover or be covered are found among the told ones by what
they fix (`candidates`), so that a table of them is not scanned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

from gravitate.matching.candidates import Candidates
from gravitate.model.covering import covers, is_empty
from gravitate.model.filters import NOTHING, Filter


class Change(NamedTuple):
    """What follows from a member that comes or goes."""

    told: list[str]
    """Ids newly told, sorted."""
    untold: list[str]
    """Ids no longer told, sorted."""
    moved: list[Filter]
    """Filters for whose members another told id may stand than before."""


_NO_CHANGE = Change([], [], [])


class Frontier:
    """Members by id."""

    def __init__(self) -> None:
        self._ids: dict[Filter, list[str]] = {}
        self._parent: dict[Filter, Filter] = {}
        self._children: dict[Filter, dict[Filter, None]] = {}
        """Of every told filter: the filters left out in its favour."""
        self._told = Candidates()
        """The told filters."""

    def representative(self, filter: Filter) -> str:
        """The told id that stands for members with this filter."""
        return self._ids[self._parent.get(filter, filter)][0]

    def add(self, id: str, filter: Filter) -> Change:
        ids = self._ids.get(filter)
        if ids is None:
            self._ids[filter] = [id]
            return self._net([filter], None)
        smallest = ids[0]
        insort(ids, id)
        return _NO_CHANGE if ids[0] == smallest else self._renamed(filter, smallest)

    def remove(self, id: str, filter: Filter) -> Change:
        ids = self._ids[filter]
        del ids[bisect_left(ids, id)]
        if not ids:
            told = filter in self._children
            orphans = self._leave(filter)
            del self._ids[filter]
            return self._net(orphans, id if told else None)
        return self._renamed(filter, id) if id < ids[0] else _NO_CHANGE

    def _renamed(self, filter: Filter, old: str) -> Change:
        """The smallest id of a filter changed from `old`: who is told may change with it."""
        told = filter in self._children
        return self._net([filter, *self._leave(filter)], old if told else None)

    def _net(self, entering: list[Filter], withdrawn: str | None) -> Change:
        """Place filters one after the other; what is told and no longer told in the end."""
        told: dict[str, None] = {}
        untold: dict[str, None] = {} if withdrawn is None else {withdrawn: None}
        moved = dict.fromkeys(entering)
        for filter in entering:
            ceased = self._enter(filter, moved)
            if ceased is None:
                continue
            for id, gains, losses in (
                (self._ids[filter][0], told, untold),
                *((self._ids[other][0], untold, told) for other in ceased),
            ):
                if id in losses:
                    del losses[id]
                else:
                    gains[id] = None
        return Change(sorted(told), sorted(untold), list(moved))

    def _enter(self, filter: Filter, moved: dict[Filter, None]) -> list[Filter] | None:
        """Place a filter; None when it is covered, else the filters that cease to be told."""
        smallest = self._ids[filter][0]
        near = self._told.may_intersect(filter)
        # What matches nothing is covered by any.
        for other in list(self._children) if is_empty(filter) else near:
            if covers(other, filter) and (
                self._ids[other][0] < smallest or not covers(filter, other)
            ):
                self._parent[filter] = other
                self._children[other][filter] = None
                return None
        if NOTHING in self._children:
            near[NOTHING] = None
        covered = [other for other in near if covers(filter, other)]
        children: dict[Filter, None] = {}
        for other in covered:
            children[other] = None
            children.update(self._children.pop(other))
            self._told.discard(other)
        self._parent.update(dict.fromkeys(children, filter))
        moved.update(children)
        self._children[filter] = children
        self._told.add(filter)
        return covered

    def _leave(self, filter: Filter) -> list[Filter]:
        """Take a filter out of its place; the filters that have lost their parent with it."""
        parent = self._parent.pop(filter, None)
        if parent is not None:
            self._children[parent].pop(filter, None)
            return []
        self._told.discard(filter)
        orphans = self._children.pop(filter)
        for orphan in orphans:
            del self._parent[orphan]
        return sorted(orphans, key=lambda f: self._ids[f][0])
