"""A trie over the levels of topics, and which of many patterns a topic matches.

The cost of a look-up depends on how many patterns fit the topic's beginning, not on how many
there are. Knows patterns and the cells they stand for; what a valid pattern is, `topics` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class Level(Generic[T]):
    """What lies under the same topic levels."""

    __slots__ = ("below", "place")

    def __init__(self) -> None:
        self.below: dict[str, Level[T]] = _NOTHING_BELOW
        self.place: T | None = None
        """What is filed under the pattern that ends here."""

    def entered(self, path: Sequence[str]) -> Level[T]:
        """The level at the end of a path, made if there is none."""
        level = self
        for name in path:
            following = level.below.get(name)
            if following is None:
                if level.below is _NOTHING_BELOW:
                    level.below = {}
                following = level.below[name] = Level()
            level = following
        return level

    def prune(self, path: Sequence[str]) -> None:
        """Levels along a path that lead nowhere go."""
        way = [self]
        for name in path:
            way.append(way[-1].below[name])
        for name in reversed(path):
            last = way.pop()
            if last.below or last.place is not None:
                return
            del way[-1].below[name]

    def all_below(self) -> Iterator[Level[T]]:
        """This one and every level below it, the latest first."""
        waiting = [reversed((self,))]
        while waiting:
            level = next(waiting[-1], None)
            if level is None:
                waiting.pop()
                continue
            yield level
            if level.below:
                waiting.append(reversed(level.below.values()))


_NOTHING_BELOW: Final[dict[str, Any]] = {}
"""Of every level that is a last one; there are many, and it never changes."""


class TopicIndex:
    """Topic patterns with wildcards, each with its cell."""

    def __init__(self) -> None:
        self._root: Level[int] = Level()

    def add(self, pattern: str, cell: int) -> None:
        self._root.entered(pattern.split("/")).place = cell

    def remove(self, pattern: str) -> None:
        levels = pattern.split("/")
        self._root.entered(levels).place = None
        self._root.prune(levels)

    def cells(self, topic: str) -> list[int]:
        """The cells of the patterns that the topic matches; one may come twice."""
        found: list[int | None] = []
        front = [self._root]
        # A pattern that starts with a wildcard does not see topics that start with `$`.
        sees_all = not topic.startswith("$")
        for name in topic.split("/"):
            following = []
            for level in front:
                below = level.below
                if name in below and name != "+":
                    following.append(below[name])
                if sees_all:
                    if "#" in below:
                        found.append(below["#"].place)
                    if "+" in below:
                        following.append(below["+"])
            front = following
            sees_all = True
        for level in front:
            found.append(level.place)
            if "#" in level.below:
                found.append(level.below["#"].place)
        return [cell for cell in found if cell is not None]
