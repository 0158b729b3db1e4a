"""The timers of a node: by key, the time each is wanted for; the latest wish counts.

Brokers put most of their timers off again and again. Putting one off costs nothing here: the loop
looks at it when it was first wanted, and then again when it is wanted now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

EARLY_S: Final = 0.0005
"""The loop's clock ticks in milliseconds: half of one early is on time."""


class Timers:
    """`now` is the clock that times are told by, `fired` is called with the key."""

    def __init__(self, now: Callable[[], float], fired: Callable[[str], None]) -> None:
        self._now = now
        self._fired = fired
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, _Timer] = {}

    def set(self, key: str, at: float) -> None:
        """Fire at `at`; a timer of the same key is replaced."""
        timer = self._timers.get(key)
        if timer is not None:
            timer.at = at
            if timer.armed_for <= at:
                # It fires too early and is then armed again: cheaper than cancelling each time.
                return
            timer.handle.cancel()
        else:
            timer = self._timers[key] = _Timer(at)
        self._arm(key, timer)

    def cancel(self) -> None:
        """None of them fires any more."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def _arm(self, key: str, timer: _Timer) -> None:
        timer.armed_for = timer.at
        timer.handle = self._loop.call_later(max(0.0, timer.at - self._now()), self._fire, key)

    def _fire(self, key: str) -> None:
        timer = self._timers[key]
        if timer.at > self._now() + EARLY_S:
            self._arm(key, timer)
            return
        del self._timers[key]
        self._fired(key)


class _Timer:
    """When a timer is wanted, and when the loop will look at it (never later)."""

    __slots__ = ("armed_for", "at", "handle")

    handle: asyncio.TimerHandle

    def __init__(self, at: float) -> None:
        self.at = at
        self.armed_for = at
