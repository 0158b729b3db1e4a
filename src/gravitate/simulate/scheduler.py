"""The virtual clock: a heap of what happens when.

Owns the order of everything in a simulated world and nothing else: it does not know brokers,
links or clients. An entry is `(time, priority, sequence, action, argument)`; ties are broken by
priority and then by the order of scheduling, so a run is the same every time.

Invariants: time never goes back; an action may schedule at the present time and is then run
after everything of the same priority that was scheduled before it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

FIRST: Final = -1
"""Priority of what changes the world (faults) before anybody acts at the same instant."""
NORMAL: Final = 0

Action = Callable[[Any], None]


class Scheduler:
    """Run actions in time order. `now` is in seconds."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self, start_s: float = 0.0) -> None:
        self.now = start_s
        self._heap: list[tuple[float, int, int, Action, Any]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time: float, action: Action, argument: Any, priority: int = NORMAL) -> None:
        """Run `action(argument)` at `time`; a time that has passed means now."""
        if time < self.now:
            time = self.now
        self._sequence += 1
        heappush(self._heap, (time, priority, self._sequence, action, argument))

    def after(self, delay_s: float, action: Action, argument: Any, priority: int = NORMAL) -> None:
        """Run `action(argument)` once `delay_s` has passed."""
        self.at(self.now + delay_s, action, argument, priority)

    def run(self, until_s: float = float("inf"), actions_max: int | None = None) -> int:
        """Run what is due up to and including `until_s`; the number of actions run.

        The clock ends at `until_s` if that is finite and the actions were not cut short by
        `actions_max`, else at the last action."""
        heap = self._heap
        done = 0
        limit = actions_max if actions_max is not None else -1
        while heap and heap[0][0] <= until_s:
            if done == limit:
                return done
            self.now, _, _, action, argument = heappop(heap)
            action(argument)
            done += 1
        if until_s != float("inf") and until_s > self.now:
            self.now = until_s
        return done
