"""The matcher: which destinations want an event.

Owns the live set of filters of one table. It does not know what a destination is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gravitate.model.events import Attributes
from gravitate.model.filters import Filter
from gravitate.model.semantics import compile_filter


class Matcher:
    """A set of (key, filter, destination); answers the destinations of events."""

    def __init__(self) -> None:
        self.version = 0
        self._live: dict[int, tuple[Filter, int, Callable[[Attributes], bool]]] = {}

    def __len__(self) -> int:
        return len(self._live)

    @property
    def attributes(self) -> frozenset[str]:
        """The names some live filter refers to."""
        return frozenset(
            predicate.attribute
            for filter, _, _ in self._live.values()
            for conjunction in filter.conjunctions
            for predicate in conjunction
        )

    def add(self, key: int, filter: Filter, destination: int) -> None:
        assert key not in self._live, f"key {key} is taken"
        self._live[key] = (filter, destination, compile_filter(filter))
        self.version += 1

    def remove(self, key: int) -> None:
        del self._live[key]
        self.version += 1

    def match(self, events: Sequence[Attributes]) -> list[tuple[int, ...]]:
        """Per event the destinations of the filters it matches, ascending, each once."""
        return [
            tuple(sorted({to for _, to, matches in self._live.values() if matches(event)}))
            for event in events
        ]
