"""What all parts of one broker share: its name, its options, its observers, whose events may come,
and this call."""

from __future__ import annotations

from collections.abc import Sequence

from gravitate.broker.interface.effects import Effect
from gravitate.broker.lives import Lives
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions


class Context:
    """`now` and `effects` belong to the `handle` call under way, the `step`."""

    __slots__ = (
        "broker_id", "effects", "lives", "now", "observers", "options", "step",
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

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)
