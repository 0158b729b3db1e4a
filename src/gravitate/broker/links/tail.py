"""Numbered items kept until they are acknowledged: the tail of a link or of a session.

Numbers start at 1 and are consecutive; an item may stand for several of them (a batch of
events). Acknowledgement is cumulative. Invariant: an item is held while any of its numbers is not
acknowledged, unless it was forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Tail(Generic[T]):
    __slots__ = ("_items", "acknowledged", "last")

    def __init__(self) -> None:
        self._items: deque[tuple[int, T]] = deque()
        """(last number of the item, item), ascending."""
        self.acknowledged = 0
        self.last = 0

    def __len__(self) -> int:
        """Numbers not yet acknowledged."""
        return self.last - self.acknowledged

    def push(self, item: T, count: int = 1) -> int:
        """Append an item that stands for `count` numbers; the first of them."""
        first = self.last + 1
        self.last += count
        self._items.append((self.last, item))
        return first

    def acknowledge(self, number: int) -> list[T]:
        """Everything up to `number` has arrived; the items that are wholly covered by it."""
        if number <= self.acknowledged:
            return []
        assert number <= self.last, f"acknowledged {number}, only {self.last} were sent"
        self.acknowledged = number
        items = self._items
        released = []
        while items and items[0][0] <= number:
            released.append(items.popleft()[1])
        return released

    def retain(self, is_kept: Callable[[T], bool]) -> None:
        """Forget items; those that stay stand for the numbers of what was forgotten before them."""
        self._items = deque(item for item in self._items if is_kept(item[1]))

    def after(self, number: int, until: int | None = None) -> list[T]:
        """The items that end above a number, and not above `until`, in order."""
        items: list[T] = []
        for last, item in reversed(self._items):
            if last <= number:
                break
            if until is None or last <= until:
                items.append(item)
        items.reverse()
        return items

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items)
