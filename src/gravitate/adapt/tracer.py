"""Tracing: answers about marked publications come together on their way back to the first broker.

A publication spreads over a tree of brokers; what became of it comes back along the same links.
A broker that has passed it on owes its upstream neighbour an answer and waits for those of the
neighbours downstream: a *gathering*. It ends complete, or is given up because a neighbour was
lost or took too long. Nobody counts what is missing as nothing.

Owns the name of a trace and the table of gatherings. Knows neither what is answered nor messages.

Invariants: a gathering ends once, by exactly one of `complete` and `given_up`, unless it is
forgotten; none outlives its patience, so an idle table is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """What is traced: publications of one publisher, by the mark that their batches carry."""

    publisher: str
    incarnation: int
    mark: int


class Gathering(Generic[T]):
    """One answer in the making."""

    __slots__ = ("awaited", "own", "parts", "until", "upstream")

    def __init__(self, upstream: str | None, own: T, awaited: Iterable[str], until: float) -> None:
        self.upstream = upstream
        """Whom the answer is for; None at the first broker."""
        self.own = own
        """What this broker itself has to say."""
        self.awaited = set(awaited)
        self.parts: dict[str, T] = {}
        """What neighbours have said, in the order they did."""
        self.until = until


Ended = Callable[[Trace, "Gathering[T]", float], None]
"""Called with a gathering that is over, and the time."""


class Gatherings(Generic[T]):
    """All gatherings of one mechanism at one broker."""

    def __init__(self, patience_s: float, complete: Ended[T], given_up: Ended[T]) -> None:
        self._patience_s = patience_s
        self._complete = complete
        self._given_up = given_up
        self._open: dict[Trace, Gathering[T]] = {}
        """Oldest first, so those whose time has come are in front."""

    def __len__(self) -> int:
        return len(self._open)

    def next_at(self) -> float | None:
        """When the first of them is given up; None: there is none."""
        return next((gathering.until for gathering in self._open.values()), None)

    def open(
        self, trace: Trace, upstream: str | None, own: T, awaited: Iterable[str], now: float
    ) -> None:
        """Wait for the neighbours `awaited`; with none the answer is complete at once.

        A trace that is open already begins anew."""
        gathering = Gathering(upstream, own, awaited, now + self._patience_s)
        self._open.pop(trace, None)
        if gathering.awaited:
            self._open[trace] = gathering
        else:
            self._complete(trace, gathering, now)

    def answered(self, trace: Trace, peer: str, part: T, now: float) -> None:
        """A neighbour has answered; one that was not asked is not listened to."""
        gathering = self._open.get(trace)
        if gathering is None or peer not in gathering.awaited:
            return
        gathering.awaited.remove(peer)
        gathering.parts[peer] = part
        if not gathering.awaited:
            del self._open[trace]
            self._complete(trace, gathering, now)

    def refused(self, trace: Trace, peer: str, now: float) -> None:
        """A neighbour has no answer."""
        gathering = self._open.get(trace)
        if gathering is not None and peer in gathering.awaited:
            self._give_up([trace], now)

    def lost(self, peer: str, now: float) -> None:
        """The link to `peer` has forgotten what was under way on it."""
        for trace in [t for t, gathering in self._open.items() if gathering.upstream == peer]:
            del self._open[trace]
        self._give_up([t for t, g in self._open.items() if peer in g.awaited], now)

    def expire(self, now: float) -> None:
        """Give up what has waited long enough."""
        late = []
        for trace, gathering in self._open.items():
            if gathering.until > now:
                break
            late.append(trace)
        self._give_up(late, now)

    def forget(self, publisher: str) -> None:
        """Drop everything about a publisher; nobody is told."""
        for trace in [trace for trace in self._open if trace.publisher == publisher]:
            del self._open[trace]

    def _give_up(self, traces: list[Trace], now: float) -> None:
        for trace in traces:
            gathering = self._open.pop(trace, None)
            if gathering is not None:
                self._given_up(trace, gathering, now)
