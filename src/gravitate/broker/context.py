"""What all parts of one broker share: its name, its options, its observers, whose events may come,
and this call."""

from __future__ import annotations

from collections.abc import Sequence

from gravitate.broker.interface.effects import Effect, SetTimer
from gravitate.broker.interface.inputs import TimerFired
from gravitate.broker.interface.timers import Timer
from gravitate.broker.lives import Lives
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions


class Context:
    """`now` and `effects` belong to the `handle` call under way, the `step`."""

    __slots__ = (
        "_due", "broker_id", "effects", "lives", "now", "observers", "options", "step",
    )  # fmt: skip

    def __init__(
        self,
        broker_id: str,
        options: BrokerOptions,
        observers: Sequence[Observer],
        lives: Lives,
    ) -> None:
        self.broker_id = broker_id
        self.options = options
        self.lives = lives
        self.observers = tuple(observers)
        self.now = 0.0
        self.step = 0
        self.effects: list[Effect] = []
        self._due: dict[Timer, float] = {}
        """When timers are wanted."""

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def set_timer(self, timer: Timer, at: float) -> None:
        self._due[timer] = at
        self.effects.append(SetTimer(timer, at))

    def fires(self, input: TimerFired) -> bool:
        """Whether a timer has not been set anew since it was due. It is never early: where the
        clock of a driver is a little behind, its time counts."""
        if self._due.get(input.timer, input.due_at) > input.due_at:
            return False
        self._due.pop(input.timer, None)
        self.now = max(self.now, input.due_at)
        return True
