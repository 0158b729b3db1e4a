"""Messages in parcels: what one carries, what goes together, and what it weighs.

Nothing that a link queues may be larger than a frame, and frames of a long queue are small enough
to be sent and acknowledged one by one. A batch is never divided: it comes from one read of a client
or from one frame of a peer, and both are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gravitate.broker.guest_messages import Deliveries, GuestCut, GuestWants, TakeGuest
from gravitate.broker.messages import (
    Advertise,
    MechanismMessage,
    Message,
    Publications,
    Subscribe,
    TetherAdvertise,
    TetherAttach,
)
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

FRAME_MESSAGES_MAX: Final = 24
FRAME_BYTES_MAX: Final = 1024 * 1024
"""Of a long queue, one larger message apart. A frame that takes longer than the heartbeat allows
would be cut off, and be sent again, for ever."""

_MESSAGE_BYTES: Final = 200
_SEEN_BYTES: Final = 50
"""What a message takes at least, and what a publisher in one does, about."""


def publications(batches: Iterable[Batch]) -> Iterator[Publications]:
    """Batches in messages of a frame each, or of one batch that is larger."""
    part: list[Batch] = []
    part_bytes = 0
    for batch in batches:
        size_bytes = batch.size_bytes()
        if part and part_bytes + size_bytes > FRAME_BYTES_MAX:
            yield Publications(part)
            part, part_bytes = [], 0
        part.append(batch)
        part_bytes += size_bytes
    if part:
        yield Publications(part)


def framed(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages in frames."""
    frame: list[Message] = []
    frame_bytes = 0
    for message in messages:
        size_bytes = weight_bytes(message)
        if frame and (
            len(frame) == FRAME_MESSAGES_MAX or frame_bytes + size_bytes > FRAME_BYTES_MAX
        ):
            yield frame
            frame, frame_bytes = [], 0
        frame.append(message)
        frame_bytes += size_bytes
    if frame:
        yield frame


def weight_bytes(message: Message) -> int:
    """What a message takes in a frame, about."""
    match message:
        case Publications() | Deliveries():
            return _carried_bytes(message.batches)
        case GuestCut():
            return _carried_bytes(message.batches) + _SEEN_BYTES * len(message.seen)
        case Subscribe() | Advertise() | TetherAdvertise():
            return _MESSAGE_BYTES + _filter_bytes(message.filter)
        case TakeGuest() | GuestWants():
            return sum(_MESSAGE_BYTES + _filter_bytes(one.filter) for one in message.subscriptions)
        case TetherAttach():
            filters = message.advertisements.values()
            return sum(_MESSAGE_BYTES + _filter_bytes(filter) for filter in filters)
        case MechanismMessage():
            return _MESSAGE_BYTES + len(message.body)
    return _MESSAGE_BYTES


def _carried_bytes(batches: Iterable[Batch]) -> int:
    return sum([batch.bodies.size_bytes() for batch in batches])


def _filter_bytes(filter: Filter) -> int:
    return sum(
        len(predicate.attribute) + len(repr(predicate.operand))
        for conjunction in filter.conjunctions
        for predicate in conjunction
    )
