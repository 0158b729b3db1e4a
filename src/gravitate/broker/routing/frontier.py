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
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from gravitate.model.covering import covers
from gravitate.model.events import Value
from gravitate.model.filters import NOTHING, Conjunction, Filter, Op
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

    def __contains__(self, filter: Filter) -> bool:
        """Whether some member has this filter."""
        return filter in self._ids

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
    filter can only cover what fixes the same value, be it by several predicates together
    (*narrowed*: `x >= 1 AND x <= 1`), or what matches nothing at all (*void*)."""

    def __init__(self) -> None:
        self._keyed: dict[Key, dict[Filter, None]] = {}
        self._keyed_on: dict[str, dict[Filter, None]] = {}
        """The keyed filters by the attributes of their keys."""
        self._unkeyed: dict[Filter, None] = {}
        self._fixing: dict[Key, dict[Filter, None]] = {}
        """By every value that a filter's first conjunction fixes."""
        self._narrowing: dict[str, dict[Filter, None]] = {}
        """By every attribute that a filter's first conjunction narrows."""
        self._void: dict[Filter, None] = {}
        """Filters whose first conjunction matches nothing."""

    def add(self, filter: Filter) -> None:
        keys = _keys(filter)
        if keys is None:
            self._unkeyed[filter] = None
        else:
            for key in keys:
                self._keyed.setdefault(key, {})[filter] = None
                self._keyed_on.setdefault(key[0], {})[filter] = None
        first = _first_shape(filter)
        if first.is_void:
            self._void[filter] = None
        for key in first.fixed:
            self._fixing.setdefault(key, {})[filter] = None
        for attribute in first.narrowed:
            self._narrowing.setdefault(attribute, {})[filter] = None

    def discard(self, filter: Filter) -> None:
        keys = _keys(filter)
        if keys is None:
            self._unkeyed.pop(filter, None)
        else:
            for key in keys:
                _discard(self._keyed, key, filter)
                _discard(self._keyed_on, key[0], filter)
        first = _first_shape(filter)
        self._void.pop(filter, None)
        for key in first.fixed:
            _discard(self._fixing, key, filter)
        for attribute in first.narrowed:
            _discard(self._narrowing, attribute, filter)

    def may_cover(self, filter: Filter) -> Iterator[Filter]:
        first = _first_shape(filter)
        if first.is_void:
            yield from self._all()
            return
        for key in first.fixed:
            yield from self._keyed.get(key, ())
        for attribute in first.narrowed:
            yield from self._keyed_on.get(attribute, ())
        yield from self._unkeyed

    def may_be_covered_by(self, filter: Filter) -> Iterable[Filter]:
        keys = _keys(filter)
        if keys is None:
            return self._all()
        found = dict(self._void)
        for key in keys:
            found.update(self._fixing.get(key, {}))
            found.update(self._narrowing.get(key[0], {}))
        return found

    def _all(self) -> Iterable[Filter]:
        return dict.fromkeys([*self._unkeyed, *(f for b in self._keyed.values() for f in b)])


K = TypeVar("K", Key, str)


def _discard(index: dict[K, dict[Filter, None]], key: K, filter: Filter) -> None:
    bucket = index.get(key)
    if bucket is not None:
        bucket.pop(filter, None)
        if not bucket:
            del index[key]


class _Shape(NamedTuple):
    """What a conjunction is found by."""

    fixed: tuple[Key, ...]
    """Values of its equality predicates."""
    narrowed: tuple[str, ...]
    """Attributes with several predicates, which may leave one value between them."""
    is_void: bool


_VOID = _Shape((), (), True)

_shape_of: dict[Conjunction, _Shape] = {}
"""Never invalid: conjunctions are immutable; bounded by clearing."""


def _shape(conjunction: Conjunction) -> _Shape:
    known = _shape_of.get(conjunction)
    if known is None:
        if len(_shape_of) > 100_000:
            _shape_of.clear()
        fixed = tuple(
            (p.attribute, _reading(p.operand))
            for p in conjunction
            if p.op is Op.EQ and isinstance(p.operand, (str, float, int))
        )
        attributes = Counter(p.attribute for p in conjunction)
        narrowed = tuple(attribute for attribute, count in attributes.items() if count > 1)
        is_void = bool(narrowed) and covers(NOTHING, Filter((conjunction,)))
        known = _shape_of[conjunction] = _Shape(fixed, narrowed, is_void)
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
        fixed = _shape(conjunction).fixed
        if not fixed:
            return None
        keys.append(fixed[0])
    return keys or None


def _first_shape(filter: Filter) -> _Shape:
    return _shape(filter.conjunctions[0]) if filter.conjunctions else _VOID
