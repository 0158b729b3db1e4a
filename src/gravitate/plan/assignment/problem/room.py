"""How many subscribers brokers may have while some of them move: what a bound says.

A broker that has too many may lose some, and takes nobody in until it is below its bound.

Owns the counting. Invariant: whoever comes to a broker finds room there, so from places where that
holds every answer has no broker with more than its bound or than it had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs

Bools = NDArray[np.bool_]


class Room:
    """Places of subscribers, by broker, within capacities."""

    def __init__(self, home: Ints, capacity: Longs, is_counted: Bools | None = None) -> None:
        self._home = home
        self._is_counted = np.ones(len(home), np.bool_) if is_counted is None else is_counted
        self._capacity = capacity

    def _free(self, places: Ints) -> Longs:
        """How many more each broker may have; below 0 where it has too many."""
        counted = places[self._is_counted]
        return self._capacity - np.bincount(counted, minlength=len(self._capacity))

    def excess(self, places: Ints) -> int:
        """How many are where they are too many."""
        return -int(np.minimum(self._free(places), 0).sum())

    def kept(self, after: Ints, worth: Floats) -> Ints:
        """The same without the least worthy moves to brokers that would have too many."""
        found = after.copy()
        while True:
            free = self._free(found)
            is_too_many = (found != self._home) & self._is_counted & (free[found] < 0)
            if not is_too_many.any():
                return found
            for broker in np.unique(found[is_too_many]).tolist():
                came = np.flatnonzero(is_too_many & (found == broker))
                least = came[np.argsort(worth[came], kind="stable")[: -free[broker]]]
                found[least] = self._home[least]

    def relieved(
        self, here: Ints, target: Ints, worth: Floats, moves_max: int | None = None
    ) -> Ints:
        """The same with as many gone to their target as were too many at home, the worthiest
        first, as far as there is room and moves are allowed."""
        found = here.copy()
        free = self._free(found)
        may = np.flatnonzero((here == self._home) & (target != self._home) & self._is_counted)
        left = len(may) if moves_max is None else moves_max
        for subscriber in may[np.argsort(-worth[may], kind="stable")].tolist():
            is_too_many = free[found[subscriber]] < 0
            if left and is_too_many and self._go(subscriber, int(target[subscriber]), found, free):
                left -= 1
        return found

    def back(self, after: Ints, subscribers: Longs) -> Ints:
        """Some subscribers at home again, in their order, as far as there is room."""
        found = after.copy()
        free = self._free(after)
        for subscriber in subscribers.tolist():
            self._go(subscriber, int(self._home[subscriber]), found, free)
        return found

    def best(self, after: Ints, worth: Floats, moves_max: int) -> Ints:
        """Everybody at home but for some moves: of those who are too many there, then the
        worthiest first as far as there is room.

        A move that finds none is tried again when others have made some."""
        found = self.relieved(self._home, after, worth, moves_max)
        free = self._free(found)
        moved = np.flatnonzero(after != found)
        waiting = moved[np.argsort(-worth[moved], kind="stable")].tolist()
        left = moves_max - int((found != self._home).sum())
        while left:
            still = []
            for subscriber in waiting:
                if left and self._go(subscriber, int(after[subscriber]), found, free):
                    left -= 1
                else:
                    still.append(subscriber)
            if len(still) == len(waiting):
                break
            waiting = still
        return found

    def steps(self, here: Ints, subscribers: Longs, savings: Floats) -> Longs:
        """Rows of a subscriber and the broker it should go to next, those that save most first:
        each to where it saves most of the brokers with room. `savings` has a row for each of the
        subscribers that may go."""
        places = here.copy()
        free = self._free(here)
        found = []
        most = savings.max(axis=1, initial=0.0)
        for row in np.argsort(-most, kind="stable")[: np.count_nonzero(most > 0)].tolist():
            subscriber, own = int(subscribers[row]), savings[row]
            for broker in np.argsort(-own, kind="stable").tolist():
                if own[broker] <= 0:
                    break
                if self._go(subscriber, broker, places, free):
                    found.append((subscriber, broker))
                    break
        return np.array(found, dtype=np.int64).reshape(len(found), 2)

    def _go(self, subscriber: int, broker: int, places: Ints, free: Longs) -> bool:
        """Put a subscriber somewhere else if there is room; whether there was."""
        if self._is_counted[subscriber]:
            if free[broker] <= 0:
                return False
            free[broker] -= 1
            free[places[subscriber]] += 1
        places[subscriber] = broker
        return True
