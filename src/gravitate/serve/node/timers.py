"""The timers of a node: the time each is wanted for; the latest wish counts.

Brokers put most of their timers off again and again. Putting one off costs nothing here: the loop
looks at it when it was first wanted, and then again when it is wanted now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gravitate.broker.interface.timers import Timer

EARLY_S: Final = 0.0005
"""The loop's clock ticks in milliseconds: half of one early is on time."""


class Timers:
    """`now` is the clock that times are told by, `fired` is called with the timer and
    the time it was wanted for."""

    def __init__(self, now: Callable[[], float], fired: Callable[[Timer, float], None]) -> None:
        self._now = now
        self._fired = fired
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Timer, _Setting] = {}

    def set(self, timer: Timer, at: float) -> None:
        """Fire at `at`; an equal timer is replaced."""
        setting = self._timers.get(timer)
        if setting is not None:
            setting.at = at
            if setting.armed_for <= at:
                # It fires too early and is then armed again: cheaper than cancelling each time.
                return
            setting.handle.cancel()
        else:
            setting = self._timers[timer] = _Setting(at)
        self._arm(timer, setting)

    def cancel(self) -> None:
        """None of them fires any more."""
        for setting in self._timers.values():
            setting.handle.cancel()
        self._timers.clear()

    def _arm(self, timer: Timer, setting: _Setting) -> None:
        setting.armed_for = setting.at
        delay_s = max(0.0, setting.at - self._now())
        setting.handle = self._loop.call_later(delay_s, self._fire, timer)

    def _fire(self, timer: Timer) -> None:
        setting = self._timers[timer]
        if setting.at > self._now() + EARLY_S:
            self._arm(timer, setting)
            return
        del self._timers[timer]
        self._fired(timer, setting.at)


class _Setting:
    """When a timer is wanted, and when the loop will look at it (never later)."""

    __slots__ = ("armed_for", "at", "handle")

    handle: asyncio.TimerHandle

    def __init__(self, at: float) -> None:
        self.at = at
        self.armed_for = at
