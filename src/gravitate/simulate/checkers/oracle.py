"""Which live subscriptions an event matches, as the checkers see it.

Two answers to one question: `ScanOracle` evaluates every filter by the definition and so checks
the matching engine too; `MatcherOracle` asks the engine once an event and is for large worlds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from gravitate.matching.matcher import Matcher
from gravitate.model.events import Attributes
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches


class Oracle(Protocol):
    """Filters under numbers that are never used twice."""

    def add(self, key: int, filter: Filter) -> None: ...

    def remove(self, key: int) -> None: ...

    def match(self, events: Sequence[Attributes]) -> Sequence[Collection[int]]:
        """Per event, the keys of the filters it matches, in no particular order."""
        ...


class ScanOracle:
    """By the definition, one filter after the other."""

    def __init__(self) -> None:
        self._filters: dict[int, Filter] = {}

    def add(self, key: int, filter: Filter) -> None:
        self._filters[key] = filter

    def remove(self, key: int) -> None:
        del self._filters[key]

    def match(self, events: Sequence[Attributes]) -> Sequence[Collection[int]]:
        return [
            [key for key, filter in self._filters.items() if matches(filter, event)]
            for event in events
        ]


class MatcherOracle:
    """By the matching engine."""

    def __init__(self) -> None:
        self._matcher = Matcher()

    def add(self, key: int, filter: Filter) -> None:
        self._matcher.add(key, filter, key)

    def remove(self, key: int) -> None:
        self._matcher.remove(key)

    def match(self, events: Sequence[Attributes]) -> Sequence[Collection[int]]:
        return self._matcher.match(events)
