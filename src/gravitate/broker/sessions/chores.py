"""Chores: what a client leaves behind is undone in portions, so that nobody else waits for it.

A chore is a row of small pieces of work. So many of them are done in one step of the broker, those
of the same step together; the rest has steps of its own, one after the other, which a timer brings
about. Most chores are done before the step that brings them is over.

Does not know what a piece does. Whoever adds one must not care when it is done, nor what is asked
for meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from gravitate.broker.context import Context
from gravitate.broker.interface.timers import ChoresLeft

Piece = Callable[[], None]


class Chores:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.waiting: deque[Iterator[Piece]] = deque()
        """What is left to do."""
        self._left = 0
        """Pieces that may still be done in this step."""
        self._step = 0
        """The one that these are of."""

    def add(self, pieces: Iterable[Piece]) -> None:
        """Do these now, or as many as may be, and the rest later."""
        self.waiting.append(iter(pieces))
        if len(self.waiting) == 1:
            self._do()

    def go_on(self) -> None:
        """The step ends: use what is left of it, and see to it that there is another."""
        self._do()
        if self.waiting:
            self._context.set_timer(ChoresLeft(), self._context.now)

    def _do(self) -> None:
        if self._step != self._context.step:
            self._step = self._context.step
            self._left = self._context.options.portion_max
        while self.waiting and self._left:
            piece = next(self.waiting[0], None)
            if piece is None:
                self.waiting.popleft()
            else:
                self._left -= 1
                piece()
