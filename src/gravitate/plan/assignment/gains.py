"""Which of the moves of an assignment are worth making, by what recorded events really do.

    after, gains = worthwhile(home, target, measure, capacity)

An assignment is chosen by boxes, which only approximate what filters let pass, and it does not
know where subscribers are now. So every move is held against the recorded events: `measure` says
how many links they cross before and after, by how many fewer if a subscriber alone moved
(`alone`), and by how many more if it alone stayed (`joint`). Moves without which no more links are
crossed are given up, all at once, and the rest is asked again, until nothing changes.

Giving up a move must not break the bound on load: a subscriber stays only where there is room, or
where nobody more is than was before. The result never crosses more links than before; when all
that was chosen would, nobody moves.

Owns that choice. It knows neither filters nor how links are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem import Floats, Ints, Longs

ROUNDS_MAX: Final = 8
"""Each round is a pass over the recorded events."""

Bools = NDArray[np.bool_]


class Gains(msgspec.Struct, frozen=True, eq=False):
    """What some moves change, in links crossed by the recorded events."""

    before: float
    after: float
    alone: Floats
    """For each subscriber, fewer when it alone moves."""
    joint: Floats
    """For each subscriber, more when all move and it alone stays."""


Measure = Callable[[Ints, Ints], Gains]
"""From where subscribers are and where they would be."""


def worthwhile(
    home: Ints,
    target: Ints,
    measure: Measure,
    capacity: Longs,
    moves_max: int | None = None,
    is_counted: Bools | None = None,
) -> tuple[Ints, Gains]:
    """Where subscribers should be, given where an assignment would have them, and the gains.

    `capacity` is how many subscribers each broker may have; only those that are counted count.
    With `moves_max` those moves are made without which most would be crossed."""
    counted = np.ones(len(home), dtype=np.bool_) if is_counted is None else is_counted
    room = _Room(home, capacity, counted)
    found = measure(home, target)
    on_their_own = np.where(found.alone > 0, target, home)
    for start, worth in ((target, found.joint), (on_their_own, found.alone)):
        after = room.kept(start, worth)
        gains = found if (after == target).all() else measure(home, after)
        after, gains = _without_idle_moves(home, after, gains, measure, room)
        if moves_max is not None and (after != home).sum() > moves_max:
            after = room.best(after, gains.joint, moves_max)
            gains = measure(home, after)
            after, gains = _without_idle_moves(home, after, gains, measure, room)
        if gains.after <= gains.before and (after != home).any():
            return after, gains
    return home.copy(), measure(home, home)


def _without_idle_moves(
    home: Ints, after: Ints, gains: Gains, measure: Measure, room: _Room
) -> tuple[Ints, Gains]:
    """As many of the moves to `after` as bring something, given their gains."""
    for _ in range(ROUNDS_MAX):
        idle = np.flatnonzero((after != home) & (gains.joint <= 0))
        back = room.back(after, idle[np.argsort(gains.joint[idle], kind="stable")])
        if (back == after).all():
            break
        trial = measure(home, back)
        if trial.after > gains.after:
            break
        after, gains = back, trial
    return after, gains


class _Room:
    """How many subscribers brokers may have: what the bound says, or as many as they have."""

    def __init__(self, home: Ints, capacity: Longs, is_counted: Bools) -> None:
        self._home = home
        self._is_counted = is_counted
        self._brokers = len(capacity)
        self._most = np.maximum(capacity, self._loads(home))

    def _loads(self, places: Ints) -> Longs:
        counted = places[self._is_counted]
        return np.bincount(counted, minlength=self._brokers).astype(np.int64)

    def back(self, after: Ints, subscribers: Longs) -> Ints:
        """Some subscribers at home again, in their order, as far as there is room."""
        found = after.copy()
        free = self._most - self._loads(after)
        for subscriber in subscribers.tolist():
            broker = self._home[subscriber]
            if free[broker] > 0 or not self._is_counted[subscriber]:
                found[subscriber] = broker
                free[broker] -= 1
                free[after[subscriber]] += 1
        return found

    def kept(self, after: Ints, worth: Floats) -> Ints:
        """The same without the least worthy moves to brokers that would have too many."""
        found = after.copy()
        while True:
            over = self._loads(found) - self._most
            full = np.flatnonzero(over > 0)
            if not len(full):
                return found
            for broker in full.tolist():
                came = np.flatnonzero((found == broker) & (self._home != broker) & self._is_counted)
                least = came[np.argsort(worth[came], kind="stable")[: over[broker]]]
                found[least] = self._home[least]

    def best(self, after: Ints, worth: Floats, moves_max: int) -> Ints:
        """Everybody at home but for some moves, the worthiest first as far as there is room.

        A move that finds none is tried again when others have made some."""
        found = self._home.copy()
        free = self._most - self._loads(found)
        moved = np.flatnonzero(after != self._home)
        waiting = moved[np.argsort(-worth[moved], kind="stable")].tolist()
        left = moves_max
        is_changed = True
        while is_changed and left:
            is_changed = False
            for subscriber in tuple(waiting):
                source, target = self._home[subscriber], after[subscriber]
                if left and (free[target] > 0 or not self._is_counted[subscriber]):
                    found[subscriber] = target
                    free[target] -= 1
                    free[source] += 1
                    waiting.remove(subscriber)
                    left -= 1
                    is_changed = True
        return found
