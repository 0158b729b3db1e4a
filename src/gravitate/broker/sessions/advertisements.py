"""What one publisher advertises: filters by key, and whether something lies within them.

Many publishers advertise a topic or two, some thousands: where there are many they are found by
what they fix (`matching.candidates`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from gravitate.matching.candidates import Candidates
from gravitate.model.covering import intersects
from gravitate.model.filters import Filter

INDEXED_FROM: Final = 16
"""More filters than this are found by an index, fewer are compared one by one."""


class Advertisements(Mapping[str, Filter]):
    """By key; changed by `put` and `take` alone."""

    __slots__ = ("_by_key", "_candidates", "_counts")

    def __init__(self, of: Mapping[str, Filter] | None = None) -> None:
        self._by_key: dict[str, Filter] = dict(of or {})
        self._candidates: Candidates | None = None
        """The filters, once there are many."""
        self._counts: Counter[Filter] = Counter()
        """How many keys have each of them."""

    def __getitem__(self, key: str) -> Filter:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def put(self, key: str, filter: Filter) -> None:
        """Advertise under a key, whatever that meant before."""
        self.take(key)
        self._by_key[key] = filter
        if self._candidates is not None:
            self._enter(self._candidates, filter)

    def take(self, key: str) -> Filter | None:
        """End what is advertised under a key, if anything is."""
        filter = self._by_key.pop(key, None)
        if filter is not None and self._candidates is not None:
            self._counts[filter] -= 1
            if not self._counts[filter]:
                del self._counts[filter]
                self._candidates.discard(filter)
        return filter

    def meet(self, filter: Filter) -> bool:
        """Whether something advertised intersects a filter."""
        if self._candidates is None and len(self._by_key) > INDEXED_FROM:
            self._candidates = Candidates()
            for one in self._by_key.values():
                self._enter(self._candidates, one)
        if self._candidates is None:
            return any(intersects(one, filter) for one in self._by_key.values())
        return any(intersects(one, filter) for one in self._candidates.may_intersect(filter))

    def _enter(self, candidates: Candidates, filter: Filter) -> None:
        self._counts[filter] += 1
        if self._counts[filter] == 1:
            candidates.add(filter)
