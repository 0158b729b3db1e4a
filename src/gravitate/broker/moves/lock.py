"""Locks for moves: every broker owns one lock, and nobody ever waits for it.

A move asks for shared or exclusive use with a lease and is refused at once when it cannot have
it. A lease that runs out frees the lock, so that a broker that vanished holds up nobody.
"""

from __future__ import annotations


class MoveLock:
    """The lock of one broker."""

    def __init__(self) -> None:
        self._holders: dict[str, tuple[bool, float]] = {}
        """Move -> (exclusive, when its lease ends)."""

    def is_free(self, exclusive: bool, now: float, move: str = "") -> bool:
        """Whether a move, if it has a name, could have the lock."""
        others = [held for holder, held in self._held(now).items() if holder != move]
        return not any(exclusive or other_is_exclusive for other_is_exclusive, _ in others)

    def request(self, move: str, exclusive: bool, lease_s: float, now: float) -> bool:
        """Whether `move` now has the lock; asking again renews or changes its use."""
        if not self.is_free(exclusive, now, move):
            return False
        self._holders[move] = (exclusive, now + lease_s)
        return True

    def release(self, move: str) -> None:
        self._holders.pop(move, None)

    def holders(self, now: float) -> list[str]:
        """The moves that hold the lock."""
        return sorted(self._held(now))

    def next_end(self, now: float) -> float | None:
        """When the next lease ends; None: nobody holds the lock."""
        return min((ends for _, ends in self._held(now).values()), default=None)

    def _held(self, now: float) -> dict[str, tuple[bool, float]]:
        self._holders = {move: held for move, held in self._holders.items() if held[1] > now}
        return self._holders
