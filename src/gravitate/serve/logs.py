"""The log of a process with brokers. It is bounded too: so many lines of a kind a minute, the
others are counted.

A kind is a place in the code that logs. Whoever makes a broker complain, by sending nonsense
without end, would otherwise fill its disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 30
EVERY_S: Final = 60.0


def set_up(level: int) -> None:
    """Log to the standard error output, from this level on."""
    handler = logging.StreamHandler()
    handler.addFilter(Throttle())
    logging.basicConfig(
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[handler],
    )


class Throttle(logging.Filter):
    """For a handler; only warnings and worse are held back, who asks for more wants it all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, int], _Kind] = {}
        """By file and line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now = self._clock()
        kind = self._kinds.setdefault((record.pathname, record.lineno), _Kind(now))
        if now >= kind.since + EVERY_S:
            held_back, kind.since, kind.lines, kind.held_back = kind.held_back, now, 0, 0
            if held_back:
                record.msg = f"{record.getMessage()} ({held_back} like it were not logged)"
                record.args = ()
        kind.lines += 1
        if kind.lines > LINES_MAX:
            kind.held_back += 1
            return False
        return True


class _Kind:
    __slots__ = ("held_back", "lines", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.lines = 0
        self.held_back = 0
