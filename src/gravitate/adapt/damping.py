"""Damping: a publisher does not go to and fro.

Selections look at the recent past, and the past differs from one to the next: where two brokers
are about equally good, or traffic alternates, each selection may prefer another one. A publisher
therefore moves only when

- the same better broker was selected several times in a row, and
- it has been where it is for a while: after a move (and after one that failed) it is left alone,
  and each time it goes back to a broker where it has been before, it is left alone twice as long.

Owns these two rules for one publisher. What is better, and how a publisher moves, is not known
here. What a publisher's next broker must know of it is a `Past`.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from gravitate.errors import InputError

VISITED_MAX: Final = 16
"""Brokers a publisher's past remembers, the latest ones."""
DOUBLINGS_MAX: Final = 10


class DampingParameters(msgspec.Struct, frozen=True):
    """What can be set."""

    confirmations: int = 2
    """Selections in a row that must agree on a target before a publisher moves."""
    pause_s: float = 60.0
    """How long a publisher is left alone after a move."""

    def __post_init__(self) -> None:
        if self.confirmations < 1:
            raise InputError(
                f"{self.confirmations} confirmations are not accepted: write a whole number from 1"
            )
        if not 0 <= self.pause_s < math.inf:
            raise InputError(f"a pause of {self.pause_s} s is not accepted: write 0 or more")


class Past(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher brings along: where it has been, and how long it is to be left alone."""

    visited: tuple[str, ...] = ()
    """The broker it comes from is the last."""
    pause_s: float = 0.0


NO_PAST: Final = Past()


class Damping:
    """The damping of one publisher at its broker."""

    __slots__ = ("_agreed", "_parameters", "_past", "_resting_until", "_target")

    def __init__(self, parameters: DampingParameters, past: Past, now: float) -> None:
        self._parameters = parameters
        self._past = past
        self._resting_until = now + past.pause_s
        self._target = ""
        self._agreed = 0

    def is_resting(self, now: float) -> bool:
        """Whether the publisher is to be left alone."""
        return now < self._resting_until

    def selected(self, target: str, now: float) -> bool:
        """Whether the publisher is to go to the broker that a selection has found; one that
        prefers the current broker gives the empty name."""
        if target != self._target:
            self._target, self._agreed = target, 0
        self._agreed += 1
        return bool(target) and (
            self._agreed >= self._parameters.confirmations and not self.is_resting(now)
        )

    def failed(self, now: float) -> None:
        """A move was refused or rolled back: what stood in its way may take a while to go."""
        self._target, self._agreed = "", 0
        self._resting_until = now + self._parameters.pause_s

    def left(self, source: str, target: str) -> Past:
        """What the broker `target` must know of a publisher that came to it from `source`."""
        returns = self._past.visited.count(target)
        visited = (*self._past.visited, source)[-VISITED_MAX:]
        return Past(visited, self._parameters.pause_s * 2 ** min(returns, DOUBLINGS_MAX))
