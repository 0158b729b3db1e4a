"""What all parts of one broker share: its name, its options, its observers, whose events may come,
and this call."""

from __future__ import annotations

from dataclasses import dataclass, field

from gravitate.broker.interface.effects import Effect, SetTimer
from gravitate.broker.interface.inputs import TimerFired
from gravitate.broker.interface.timers import Timer
from gravitate.broker.lives import Lives
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions


@dataclass(slots=True, eq=False)
class Context:
    """`now` and `effects` belong to the `handle` call under way, the `step`."""

    broker_id: str
    options: BrokerOptions
    observers: tuple[Observer, ...]
    lives: Lives
    now: float = 0.0
    step: int = 0
    effects: list[Effect] = field(default_factory=list)
    _due: dict[Timer, float] = field(default_factory=dict)
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
