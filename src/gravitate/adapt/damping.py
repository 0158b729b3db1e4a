"""Damping: a publisher does not go to and fro.

Selections look at the recent past, and the past differs from one to the next: where two brokers
are about equally good, or traffic alternates, each selection may prefer another one. A publisher
therefore moves only when

- several selections in a row agree: it goes as far as their paths have in common, so that targets
  which differ send it to the broker where they part, and opposite ones nowhere; and
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
    """Selections in a row that must agree before a publisher moves."""
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

    __slots__ = ("_agreed", "_parameters", "_past", "_resting_until", "_selections")

    def __init__(self, parameters: DampingParameters, past: Past, now: float) -> None:
        self._parameters = parameters
        self._past = past
        self._resting_until = now + past.pause_s
        self._agreed: tuple[str, ...] = ()
        """The path that the last selections have in common, and how many these are."""
        self._selections = 0

    def is_resting(self, now: float) -> bool:
        """Whether the publisher is to be left alone."""
        return now < self._resting_until

    def selected(self, path: tuple[str, ...], now: float) -> tuple[str, ...]:
        """The path that the publisher is to go, after a selection that has found the end of
        `path` (just the current broker, if it should stay); empty: it does not move yet."""
        common = common_start(self._agreed, path)
        if len(common) > 1:
            self._agreed = common
            self._selections += 1
        else:
            self._agreed, self._selections = path, 1
        has_agreed = self._selections >= self._parameters.confirmations and len(self._agreed) > 1
        return self._agreed if has_agreed and not self.is_resting(now) else ()

    def failed(self, now: float) -> None:
        """A move was refused or rolled back: what stood in its way may take a while to go."""
        self._agreed, self._selections = (), 0
        self._resting_until = now + self._parameters.pause_s

    def left(self, source: str, target: str) -> Past:
        """What the broker `target` must know of a publisher that came to it from `source`."""
        returns = self._past.visited.count(target)
        visited = (*self._past.visited, source)[-VISITED_MAX:]
        return Past(visited, self._parameters.pause_s * 2 ** min(returns, DOUBLINGS_MAX))


def common_start(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """What two paths have in common from their beginning."""
    length = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        length += 1
    return one[:length]
