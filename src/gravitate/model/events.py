"""Events and batches of them: what clients publish and brokers carry.

An event is identified by its publisher, the publisher's incarnation and a counter that is
consecutive per publisher. Brokers never carry events one by one: they carry a `Batch`, the
events of one publisher in counter order, with one header for all and bodies that are sliced
and passed on, never rebuilt. What a body looks like is not known here: `Bodies` is the
interface, `PlainBodies` the implementation for simulators and tests, `wire` has the one over
received bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

Value = float | int | str | bool
"""An attribute's value. Text that reads as a number also compares as one (see `semantics`)."""

Attributes = Mapping[str, Value]

TOPIC = "topic"
"""The attribute that holds an event's topic."""


class EventId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Network-wide name of one event."""

    publisher: str
    incarnation: int
    counter: int


class Event(msgspec.Struct, frozen=True):
    """One event in the open: attributes (the topic among them) and an opaque payload."""

    attributes: dict[str, Value]
    payload: bytes = b""


class Bodies(Protocol):
    """The bodies of a batch's events, in order; immutable."""

    def __len__(self) -> int: ...

    def select(self, indices: Sequence[int]) -> Bodies:
        """The bodies at `indices` (ascending), sharing the underlying bytes."""
        ...

    def topics(self) -> Sequence[str | bytes]:
        """One hashable key a body that determines its topic; cheap."""
        ...

    def attributes(self, wanted: frozenset[str]) -> Sequence[Attributes]:
        """One mapping a body, holding at least the `wanted` attributes that the body has.

        Parsing is lazy: what is not wanted need not be parsed."""
        ...

    def every_attribute(self) -> Sequence[Attributes]:
        """One mapping a body, holding all that it has without looking into its payload."""
        ...

    def size_bytes(self) -> int:
        """What the bodies weigh on a link; cheap, once asked."""
        ...

    def compacted(self) -> Bodies:
        """The same in no more memory than they need, if they share much more with others: for
        those that are kept for longer."""
        ...


class PlainBodies:
    """Bodies that are `Event` objects: for simulators, tests and clients of the core."""

    __slots__ = ("_size_bytes", "events")

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self._size_bytes = -1

    def __len__(self) -> int:
        return len(self.events)

    def select(self, indices: Sequence[int]) -> PlainBodies:
        events = self.events
        return PlainBodies([events[i] for i in indices])

    def topics(self) -> Sequence[str | bytes]:
        return [str(event.attributes.get(TOPIC, "")) for event in self.events]

    def attributes(self, wanted: frozenset[str]) -> Sequence[Attributes]:
        return [event.attributes for event in self.events]

    def every_attribute(self) -> Sequence[Attributes]:
        return [event.attributes for event in self.events]

    def size_bytes(self) -> int:
        if self._size_bytes < 0:
            self._size_bytes = sum(32 * len(e.attributes) + len(e.payload) for e in self.events)
        return self._size_bytes

    def compacted(self) -> PlainBodies:
        return self


class Batch(msgspec.Struct, eq=False, gc=False):
    """Events of one publisher in counter order, under one header that each hop may rewrite.

    `counters` ascends; it is a `range` while nothing was left out. All events of a batch have
    the same quality of service. `covered` is the primary path it has come along (the first broker
    first), `published_at` when the first broker took it in, in seconds. One that floods follows
    every link: nobody on its way may know any more who wants it.
    """

    publisher: str
    incarnation: int
    counters: Sequence[int]
    bodies: Bodies
    qos: int = 0
    published_at: float = 0.0
    flood: bool = False
    covered: tuple[str, ...] = ()
    trace_mark: int = 0

    def __len__(self) -> int:
        return len(self.counters)

    @property
    def stream(self) -> tuple[str, int]:
        """What is ordered, and recognised when it comes again, together: all that one life of a
        publisher publishes."""
        return self.publisher, self.incarnation

    def size_bytes(self) -> int:
        """What its events weigh on a link."""
        return self.bodies.size_bytes()

    def compacted(self) -> Batch:
        """The same events in no more memory than they need."""
        bodies = self.bodies.compacted()
        return self if bodies is self.bodies else msgspec.structs.replace(self, bodies=bodies)

    def __repr__(self) -> str:
        return (
            f"Batch({self.publisher!r}#{self.incarnation}, counters={list(self.counters)}, "
            f"qos={self.qos}, covered={self.covered})"
        )

    def select(self, indices: Sequence[int]) -> Batch:
        """The events at `indices` (ascending) under the same header."""
        if len(indices) == len(self.counters):
            return self
        counters = self.counters
        return Batch(
            self.publisher,
            self.incarnation,
            [counters[i] for i in indices],
            self.bodies.select(indices),
            self.qos,
            self.published_at,
            self.flood,
            self.covered,
            self.trace_mark,
        )

    def stepped(self, broker: str) -> Batch:
        """The same events with `broker` added to the path covered."""
        return Batch(
            self.publisher,
            self.incarnation,
            self.counters,
            self.bodies,
            self.qos,
            self.published_at,
            self.flood,
            (*self.covered, broker),
            self.trace_mark,
        )

    def flooding(self) -> Batch:
        """The same events, to follow every link."""
        return msgspec.structs.replace(self, flood=True)

    def hops_at(self, broker: str) -> int:
        """The links behind the events at `broker`, whether or not it has stepped them yet."""
        covered = self.covered
        return len(covered) - 1 if covered and covered[-1] == broker else len(covered)
