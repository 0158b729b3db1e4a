"""How many subscribers brokers may have while some of them move: what a bound says, or as many as
they have now, so that nobody must go who is there.

Owns the counting. Invariant: from places that keep to it every answer keeps to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem import Floats, Ints, Longs

Bools = NDArray[np.bool_]


class Room:
    """Places of subscribers, by broker, within capacities."""

    def __init__(self, home: Ints, capacity: Longs, is_counted: Bools | None = None) -> None:
        self._home = home
        self._is_counted = np.ones(len(home), np.bool_) if is_counted is None else is_counted
        self._brokers = len(capacity)
        self._most = np.maximum(capacity, self._loads(home))

    def _loads(self, places: Ints) -> Longs:
        counted = places[self._is_counted]
        return np.bincount(counted, minlength=self._brokers).astype(np.int64)

    def _free(self, places: Ints) -> Longs:
        return self._most - self._loads(places)

    def kept(self, after: Ints, worth: Floats) -> Ints:
        """The same without the least worthy moves to brokers that would have too many."""
        found = after.copy()
        while True:
            free = self._free(found)
            full = np.flatnonzero(free < 0)
            if not len(full):
                return found
            for broker in full.tolist():
                came = np.flatnonzero((found == broker) & (self._home != broker) & self._is_counted)
                least = came[np.argsort(worth[came], kind="stable")[: -free[broker]]]
                found[least] = self._home[least]

    def back(self, after: Ints, subscribers: Longs) -> Ints:
        """Some subscribers at home again, in their order, as far as there is room."""
        found = after.copy()
        free = self._free(after)
        for subscriber in subscribers.tolist():
            self._go(subscriber, int(self._home[subscriber]), found, free)
        return found

    def best(self, after: Ints, worth: Floats, moves_max: int) -> Ints:
        """Everybody at home but for some moves, the worthiest first as far as there is room.

        A move that finds none is tried again when others have made some."""
        found = self._home.copy()
        free = self._free(found)
        moved = np.flatnonzero(after != self._home)
        waiting = moved[np.argsort(-worth[moved], kind="stable")].tolist()
        left = moves_max
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
