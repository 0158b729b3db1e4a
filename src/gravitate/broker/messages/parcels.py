"""Messages in parcels: what one carries, what goes together, and what it weighs.

Nothing that a link queues may be larger than a frame, and frames of a long queue are small enough
to be sent and acknowledged one by one. A batch is divided by the number of its events alone: it
comes from one read of a client or from one frame of a peer, and those are bounded in bytes, a
single large event apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from gravitate.broker.messages import frames, guests, tether
from gravitate.broker.messages.frames import Carrying, Message, Publications
from gravitate.broker.messages.tether import Deliveries, HandedOver
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

T = TypeVar("T")

FRAME_MESSAGES_MAX: Final = 24

_MESSAGE_BYTES: Final = 200
_SEEN_BYTES: Final = 50
"""What a message takes at least, and what a publisher in one does, about."""


def publications(
    batches: Iterable[Batch], events_max: int, bytes_max: int
) -> Iterator[Publications]:
    """Batches in messages of a frame each, or of one event that is larger."""
    weighed = (
        (batch, len(batch.counters), batch.size_bytes()) for batch in divided(batches, events_max)
    )
    return map(Publications, parts(weighed, events_max, bytes_max))


def divided(batches: Iterable[Batch], events_max: int) -> Iterator[Batch]:
    """Batches of so many events at most."""
    for batch in batches:
        count = len(batch.counters)
        if count <= events_max:
            yield batch
        else:
            for start in range(0, count, events_max):
                yield batch.select(range(start, min(start + events_max, count)))


def framed(messages: Iterable[Message], events_max: int, bytes_max: int) -> Iterator[list[Message]]:
    """Messages in frames of so much, or of one message that is larger."""
    weighed = ((one, _carried_events(one), weight_bytes(one)) for one in messages)
    return parts(weighed, events_max, bytes_max, FRAME_MESSAGES_MAX)


def parts(
    weighed: Iterable[tuple[T, int, int]],
    events_max: int,
    bytes_max: int,
    count_max: int | None = None,
) -> Iterator[list[T]]:
    """What is given with its events and bytes, in parts of so much, or of one that is larger."""
    part: list[T] = []
    events = size_bytes = 0
    for one, its_events, its_bytes in weighed:
        events += its_events
        size_bytes += its_bytes
        if part and (events > events_max or size_bytes > bytes_max or len(part) == count_max):
            yield part
            part, events, size_bytes = [], its_events, its_bytes
        part.append(one)
    if part:
        yield part


def weight_bytes(message: Message) -> int:
    """What a message takes in a frame, about."""
    match message:
        case Publications() | HandedOver() | Deliveries():
            return _carried_bytes(message.batches)
        case frames.Subscribe() | frames.Advertise() | tether.TetherAdvertise():
            return _filters_bytes((message.filter,) if message.filter is not None else ())
        case frames.Settled() | frames.Unsubscribe() | frames.Unadvertise():
            return _MESSAGE_BYTES  # as all that are not named; these are frequent
        case guests.GuestCut():
            return _carried_bytes(message.batches) + _SEEN_BYTES * len(message.seen)
        case guests.TakeGuest() | guests.GuestAnswer() | guests.Entrusted() | tether.TetherWants():
            return _filters_bytes(one.filter for one in message.subscriptions)
        case guests.Reminder():
            return weight_bytes(message.entrusted)
        case tether.TetherAttach(role=tether.Publishing(advertisements)):
            return _filters_bytes(advertisements.values())
        case frames.Congested():
            return _MESSAGE_BYTES + _SEEN_BYTES * len(message.publishers)
        case frames.MechanismMessage():
            return _MESSAGE_BYTES + len(message.body)
    return _MESSAGE_BYTES


def _carried_events(message: Message) -> int:
    if not isinstance(message, Carrying):
        return 0
    return sum([len(batch.counters) for batch in message.batches])


def _carried_bytes(batches: Iterable[Batch]) -> int:
    return sum([batch.bodies.size_bytes() for batch in batches])


def _filters_bytes(filters: Iterable[Filter]) -> int:
    weight_bytes = 0
    for filter in filters:
        weight_bytes += _MESSAGE_BYTES
        for predicate in chain.from_iterable(filter.conjunctions):
            weight_bytes += len(predicate.attribute) + len(repr(predicate.operand))
    return weight_bytes or _MESSAGE_BYTES
