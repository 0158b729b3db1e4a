"""Which of the subscriptions a neighbour could be told it really is told: the covering rule.

A frontier holds the subscriptions eligible for one neighbour under one anchor. Told are the
maximal ones: a subscription is left out when another member covers it; among members that cover
each other the smallest id is told. This is a function of the live set alone, never of the order
in which subscriptions came and went, because covering is a partial order: whoever finds a
coverer finds, by transitivity, a told one.

Kept per distinct filter, since many clients ask for the same: a told filter, or a *parent* that
is told and covers it. Candidates for covering are found by the values a filter fixes, so that a
table of equality filters is not scanned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from gravitate.model.covering import covers
from gravitate.model.events import Value
from gravitate.model.filters import Conjunction, Filter, Op
from gravitate.model.semantics import value_number, value_truth

Key = tuple[str, Value]


class Frontier:
    """Members by id; `add` and `remove` answer (ids newly told, ids no longer told)."""

    def __init__(self) -> None:
        self._ids: dict[Filter, list[str]] = {}
        self._parent: dict[Filter, Filter] = {}
        self._children: dict[Filter, set[Filter]] = {}
        """Of every told filter: the filters left out in its favour."""
        self._told = _ToldFilters()

    def __len__(self) -> int:
        return sum(map(len, self._ids.values()))

    def told(self) -> list[str]:
        """The ids the neighbour is told, sorted."""
        return sorted(self._ids[f][0] for f in self._children)

    def representative(self, filter: Filter) -> str:
        """The told id that stands for members with this filter."""
        return self._ids[self._parent.get(filter, filter)][0]

    def add(self, id: str, filter: Filter) -> tuple[list[str], list[str]]:
        ids = self._ids.get(filter)
        if ids is None:
            self._ids[filter] = [id]
            return self._net(self._enter(filter), [])
        smallest = ids[0]
        insort(ids, id)
        if ids[0] == smallest:
            return [], []
        return self._renamed(filter, smallest)

    def remove(self, id: str, filter: Filter) -> tuple[list[str], list[str]]:
        ids = self._ids[filter]
        del ids[bisect_left(ids, id)]
        if not ids:
            told = filter in self._children
            orphans = self._leave(filter)
            del self._ids[filter]
            entered = [change for orphan in orphans for change in self._enter(orphan)]
            return self._net(entered, [id] if told else [])
        return self._renamed(filter, id) if id < ids[0] else ([], [])

    def _renamed(self, filter: Filter, old: str) -> tuple[list[str], list[str]]:
        """The smallest id of a filter changed from `old`: who is told may change with it."""
        told = filter in self._children
        changes: list[tuple[Filter, bool]] = []
        for member in (filter, *self._leave(filter)):
            changes += self._enter(member)
        return self._net(changes, [old] if told else [])

    def _enter(self, filter: Filter) -> list[tuple[Filter, bool]]:
        """Place a filter; the filters that become (True) or cease (False) to be told."""
        smallest = self._ids[filter][0]
        for other in self._told.may_cover(filter):
            if covers(other, filter) and (
                self._ids[other][0] < smallest or not covers(filter, other)
            ):
                self._parent[filter] = other
                self._children[other].add(filter)
                return []
        covered = [g for g in self._told.may_be_covered_by(filter) if covers(filter, g)]
        children: set[Filter] = set()
        for other in covered:
            children.add(other)
            children |= self._children.pop(other)
            self._told.discard(other)
        for child in children:
            self._parent[child] = filter
        self._children[filter] = children
        self._told.add(filter)
        return [(filter, True), *((other, False) for other in covered)]

    def _leave(self, filter: Filter) -> list[Filter]:
        """Take a filter out of its place; the filters that have lost their parent with it."""
        parent = self._parent.pop(filter, None)
        if parent is not None:
            self._children[parent].discard(filter)
            return []
        self._told.discard(filter)
        orphans = self._children.pop(filter)
        for orphan in orphans:
            del self._parent[orphan]
        return sorted(orphans, key=lambda f: self._ids[f][0])

    def _net(
        self, changes: Iterable[tuple[Filter, bool]], withdrawn: list[str]
    ) -> tuple[list[str], list[str]]:
        """Successive changes as what is told and no longer told in the end."""
        told: dict[str, None] = {}
        untold = dict.fromkeys(withdrawn)
        for filter, is_told in changes:
            id = self._ids[filter][0]
            gains, losses = (told, untold) if is_told else (untold, told)
            if id in losses:
                del losses[id]
            else:
                gains[id] = None
        return sorted(told), sorted(untold)


class _ToldFilters:
    """The told filters, found by the values they fix.

    A filter is *keyed* when each of its conjunctions fixes an attribute to one value. A keyed
    filter can only cover what fixes the same value."""

    def __init__(self) -> None:
        self._keyed: dict[Key, dict[Filter, None]] = {}
        self._unkeyed: dict[Filter, None] = {}
        self._fixing: dict[Key, dict[Filter, None]] = {}
        """By every value that a filter's first conjunction fixes."""

    def add(self, filter: Filter) -> None:
        keys = _keys(filter)
        if keys is None:
            self._unkeyed[filter] = None
        else:
            for key in keys:
                self._keyed.setdefault(key, {})[filter] = None
        for key in _first_fixed(filter):
            self._fixing.setdefault(key, {})[filter] = None

    def discard(self, filter: Filter) -> None:
        keys = _keys(filter)
        if keys is None:
            self._unkeyed.pop(filter, None)
        else:
            for key in keys:
                _discard(self._keyed, key, filter)
        for key in _first_fixed(filter):
            _discard(self._fixing, key, filter)

    def may_cover(self, filter: Filter) -> Iterator[Filter]:
        for key in _first_fixed(filter):
            yield from self._keyed.get(key, ())
        yield from self._unkeyed

    def may_be_covered_by(self, filter: Filter) -> Iterable[Filter]:
        keys = _keys(filter)
        if keys is None or not self._all_have_conjunctions():
            return dict.fromkeys([*self._unkeyed, *(f for b in self._keyed.values() for f in b)])
        return dict.fromkeys(f for key in keys for f in self._fixing.get(key, ()))

    def _all_have_conjunctions(self) -> bool:
        return Filter(()) not in self._unkeyed


def _discard(index: dict[Key, dict[Filter, None]], key: Key, filter: Filter) -> None:
    bucket = index.get(key)
    if bucket is not None:
        bucket.pop(filter, None)
        if not bucket:
            del index[key]


_fixed_of: dict[Conjunction, tuple[Key, ...]] = {}
"""Values a conjunction fixes. Never invalid: conjunctions are immutable; bounded by clearing."""


def _fixed(conjunction: Conjunction) -> tuple[Key, ...]:
    known = _fixed_of.get(conjunction)
    if known is None:
        if len(_fixed_of) > 100_000:
            _fixed_of.clear()
        known = tuple(
            (p.attribute, _reading(p.operand))
            for p in conjunction
            if p.op is Op.EQ and isinstance(p.operand, (str, float, int))
        )
        _fixed_of[conjunction] = known
    return known


def _reading(value: Value) -> Value:
    """What a value reads as, so that `x = '10'` is found under `x = 10`, which covers it."""
    for reads_as in (value_number(value), value_truth(value)):
        if reads_as is not None:
            return reads_as
    return value


def _keys(filter: Filter) -> list[Key] | None:
    """One fixed value for each conjunction, or None when some conjunction fixes none."""
    keys: list[Key] = []
    for conjunction in filter.conjunctions:
        fixed = _fixed(conjunction)
        if not fixed:
            return None
        keys.append(fixed[0])
    return keys or None


def _first_fixed(filter: Filter) -> tuple[Key, ...]:
    return _fixed(filter.conjunctions[0]) if filter.conjunctions else ()
