"""Mechanisms: what watches the traffic through a broker and proposes moves.

A mechanism is an observer with messages, timers and proposals of its own. It sees everything
that happens at its broker, not samples of it, and acts only through its `Post`. The protocols
that carry moves out belong to the broker; what decides on them lives in `adapt/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from gravitate.broker.observers import Observer
from gravitate.model.events import Batch
from gravitate.model.moves import Move


class Post(Protocol):
    """A mechanism's place at its broker."""

    broker_id: str

    def neighbours(self) -> list[str]:
        """Brokers with a primary link to this one, sorted."""
        ...

    def rtt_s(self, peer: str) -> float:
        """Round-trip time to a neighbour as heartbeats have it, smoothed; 0 while unknown."""
        ...

    def may_move(self, publisher: str) -> bool:
        """Whether a client of this broker could be relocated if it were asked to now."""
        ...

    def ping(self, publisher: str, brokers: Sequence[str]) -> None:
        """Ask a publisher of this broker how far `brokers` are from it; `on_pinged` has the
        answer. One that cannot measure, or would stay connected where it is, answers at once, and
        with nothing. One that leaves or is silent does not answer; a later request of the same
        mechanism for the same publisher takes the place of an earlier one."""
        ...

    def send(self, peer: str, body: bytes) -> None:
        """A message to the same mechanism at a neighbour; arrives once and in order, unless the
        link is reset or given up meanwhile, which is observed as `on_link`."""
        ...

    def set_timer(self, key: str, at: float) -> None: ...

    def propose(self, move: Move) -> None:
        """Ask the broker to carry out a move; its end is observed as `on_move`."""
        ...


class Mechanism(Observer):
    """Base of all mechanisms: override what you need."""

    name: ClassVar[str]

    def attach(self, post: Post, now: float) -> None:
        """Called once, when the broker starts."""

    def mark(self, batch: Batch, now: float) -> int:
        """The trace mark for a batch that its first broker takes in; 0: none. It stays with every
        part of the batch, at all brokers."""
        return 0

    def is_idle(self) -> bool:
        """Whether nothing is under way; true of every mechanism some time after its traffic."""
        return True

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        """A message from the same mechanism at a neighbour."""

    def on_timer(self, key: str, now: float) -> None:
        """A timer of this mechanism."""

    def on_pinged(self, publisher: str, round_trips_s: dict[str, float], now: float) -> None:
        """The answer to `ping`; brokers that the publisher had no answer from are missing."""
