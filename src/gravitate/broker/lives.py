"""Whose events may come (again): publishers that are advertised, and those that were until lately.

An event comes again when a broker that had passed it on has lost its memory, or a link its last
words; that can be as long as links keep what they have for a neighbour (`link_grace_s`). Sessions
that recognise what comes again by what they have had of a publisher need not remember it longer.

Owns when the publishers ended that are not advertised any more. Does not know sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gravitate.broker.options import BrokerOptions

Life = tuple[str, int]
"""A publisher, and its incarnation."""

LIFE_BYTES: Final = 120
"""What remembering something of a life takes, its name apart."""


def size_bytes(life: Life) -> int:
    return LIFE_BYTES + len(life[0])


class Lives:
    """`is_advertised` tells whether a life has something advertised, wherever it is."""

    def __init__(self, options: BrokerOptions, is_advertised: Callable[[Life], bool]) -> None:
        self._grace_s = options.link_grace_s or float("inf")
        self._bytes_max = options.session_seen_bytes_max
        self._is_advertised = is_advertised
        self._ended_at: dict[Life, float] = {}
        """In the order of their ends."""
        self._bytes = 0
        self.forgotten = 0
        """Lives that a session, or this one, has forgotten although their events may still come."""

    def ended(self, life: Life, now: float) -> None:
        """A life is not advertised any more."""
        if self._ended_at.pop(life, None) is None:
            self._bytes += size_bytes(life)
        self._ended_at[life] = now
        self._forget(now)

    def heard(self, life: Life, now: float) -> None:
        """An event of it comes although its advertisement may have ended before this broker was."""
        if not self._is_advertised(life):
            self.ended(life, now)

    def may_come(self, life: Life) -> bool:
        return self._is_advertised(life) or life in self._ended_at

    def _forget(self, now: float) -> None:
        while self._ended_at:
            life, ended_at = next(iter(self._ended_at.items()))
            if ended_at + self._grace_s > now:
                if self._bytes <= self._bytes_max:
                    return
                self.forgotten += 1
            del self._ended_at[life]
            self._bytes -= size_bytes(life)
