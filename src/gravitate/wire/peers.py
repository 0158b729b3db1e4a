"""Frames between brokers <-> bytes.

A frame on the wire is a length (u32, big-endian, of what follows), a kind (u8) and its content:

    kind 1   one msgpack map: every frame but `Data`
    kind 2   u32 header length, msgpack header, then the bodies of all batches end to end

The header of a `Data` frame holds its numbers and messages; each batch of publications is there
as a short array (publisher, counters, path, ...) without its bodies. Bodies delimit themselves
(each is an MQTT 5 PUBLISH): they are written as the slices they came in, and all those of a frame
are found by one scan and stay in one buffer. Nothing is done per event in Python, neither here
nor there, as long as a batch's counters are consecutive.

Owns the layout, the size limit and the refusal of malformed bytes (`PeerError`). Does not know
connections, nor what a frame means: sequence numbers and resumption are the broker's.

Invariants: `decode(encode(frame))` is the frame; a decoder fed any bytes, cut anywhere, returns
frames or raises `PeerError`, and never holds more than one frame beyond what it was fed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import lt
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from gravitate.broker.messages.frames import (
    Advertise,
    Carrying,
    Control,
    Data,
    Frame,
    MechanismMessage,
    Message,
    PlainFrame,
    Publications,
    Subscribe,
)
from gravitate.broker.messages.guests import (
    Entrusted,
    GuestAnswer,
    GuestCut,
    Natural,
    Quality,
    Reminder,
    TakeGuest,
)
from gravitate.broker.messages.tether import (
    Deliveries,
    HandedOver,
    Publishing,
    TetherAdvertise,
    TetherAttach,
    TetherWants,
)
from gravitate.errors import FilterError, LocalProtocolError, PeerError, RemoteProtocolError
from gravitate.model.canonical import taken
from gravitate.model.decoding import UNREADABLE
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.kernels import PUBLISH_0, PUBLISH_1
from gravitate.wire.mqtt.scan import Frames, Run, as_table, scan

MALFORMED: Final = "malformed-frame"
OVERSIZED: Final = "oversized-frame"

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a neighbour may send in one frame; `Data` that would be larger is split when encoded."""
HELLO_BYTES_MAX: Final = 4096
"""What a stranger may send in one frame."""

_PREFIX: Final = struct.Struct(">IB")
_DATA_PREFIX: Final = struct.Struct(">IBI")
_LENGTH: Final = struct.Struct(">I")
_WITH_PACKET_ID: Final = 1
_PAYLOAD_FIELDS: Final = 2
_FEW_BODIES: Final = 8
_PLAIN: Final = 1
_DATA: Final = 2

Buffer = bytes | bytearray | memoryview
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class _BatchHeader(msgspec.Struct, array_like=True, frozen=True):
    """One batch without its bodies; `counters` is empty when they run from `first` without gap."""

    publisher: str
    incarnation: Natural
    first: _Positive
    count: _Positive
    counters: list[_Positive]
    qos: Quality
    published_at: float
    flood: bool
    covered: tuple[str, ...]
    trace_mark: Natural
    form: Annotated[int, msgspec.Meta(ge=0, le=3)]
    """Of the bodies: `_WITH_PACKET_ID` and `_PAYLOAD_FIELDS`."""


# What carries batches, as it is in the header.


class _Publications(Publications, frozen=True, kw_only=True, tag="pub"):
    batches: list[_BatchHeader]  # type: ignore[assignment]


class _HandedOver(HandedOver, frozen=True, kw_only=True, tag="handover"):
    batches: list[_BatchHeader]  # type: ignore[assignment]


class _Deliveries(Deliveries, frozen=True, kw_only=True, tag="deliver"):
    batches: list[_BatchHeader]  # type: ignore[assignment]


class _GuestCut(GuestCut, frozen=True, kw_only=True, tag="guestcut"):
    batches: list[_BatchHeader]  # type: ignore[assignment]


_Carrying = _Publications | _HandedOver | _Deliveries | _GuestCut


class _DataHeader(msgspec.Struct, array_like=True, frozen=True):
    sequence: Natural
    acknowledged: Natural
    messages: list[Control | _Carrying]
    retained: Natural = 0


_encoder: Final = msgspec.msgpack.Encoder()
_decode_plain: Final = msgspec.msgpack.Decoder(PlainFrame).decode
_decode_data: Final = msgspec.msgpack.Decoder(_DataHeader).decode


# --- encoding -----------------------------------------------------------------------------------


def encode(frame: Frame, size_bytes_max: int = FRAME_BYTES_MAX) -> list[Buffer]:
    """The bytes of `frame` as buffers to be written one after another."""
    if type(frame) is Data:
        return _encode_data(frame, size_bytes_max)
    content = _encoder.encode(frame)
    return [_PREFIX.pack(len(content) + 1, _PLAIN) + content]


def _encode_data(frame: Data, size_bytes_max: int) -> list[Buffer]:
    bodies: list[Buffer] = []
    messages: list[Message] = []
    for message in frame.messages:
        if isinstance(message, Carrying):
            headers = []
            for batch in message.batches:
                content = batch.bodies
                if not isinstance(content, FrameBodies):
                    kind = type(content).__name__
                    raise LocalProtocolError(f"bodies of type {kind} do not travel on sockets")
                bodies += content.spans()
                headers.append(_header_of(batch, content))
            messages.append(msgspec.structs.replace(message, batches=headers))
        elif type(message) is MechanismMessage:
            messages.append(MechanismMessage(message.mechanism, bytes(message.body)))
        else:
            messages.append(message)
    header = _encoder.encode((frame.sequence, frame.acknowledged, messages, frame.retained))
    total = 5 + len(header) + sum(map(len, bodies))
    if total > size_bytes_max:
        return _encode_in_two(frame, size_bytes_max, total)
    return [_DATA_PREFIX.pack(total, _DATA, len(header)) + header, *bodies]


def _encode_in_two(frame: Data, size_bytes_max: int, total: int) -> list[Buffer]:
    half = len(frame.messages) // 2
    if not half:
        raise LocalProtocolError(
            f"message {frame.sequence} takes {total} bytes; a frame holds {size_bytes_max}"
        )
    said, kept = frame.acknowledged, frame.retained
    first = Data(frame.sequence, said, frame.messages[:half], kept)
    second = Data(frame.sequence + half, said, frame.messages[half:], kept)
    return _encode_data(first, size_bytes_max) + _encode_data(second, size_bytes_max)


def _header_of(batch: Batch, bodies: FrameBodies) -> _BatchHeader:
    counters = batch.counters
    count = len(counters)
    first = counters[0] if count else 0
    gapless = type(counters) is range or not count or counters[-1] - first + 1 == count
    return _BatchHeader(
        batch.publisher,
        batch.incarnation,
        first,
        count,
        [] if gapless else list(counters),
        batch.qos,
        batch.published_at,
        batch.flood,
        batch.covered,
        batch.trace_mark,
        (_WITH_PACKET_ID if bodies.qos else 0) | (_PAYLOAD_FIELDS if bodies.payload_fields else 0),
    )


# --- decoding -----------------------------------------------------------------------------------


class FrameDecoder:
    """Frames out of a stream of bytes that arrives in pieces.

    A frame that lies within one piece is not copied: its bodies are views of that piece, which
    must therefore never change (`bytes` from a transport do not). The first frame, which comes
    from a stranger, has a limit of its own."""

    __slots__ = ("_limit", "_pending", "_pending_bytes", "_size_bytes_max", "_wanted_bytes")

    def __init__(
        self, size_bytes_max: int = FRAME_BYTES_MAX, first_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self._size_bytes_max = size_bytes_max
        self._limit = min(first_bytes_max, size_bytes_max)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._wanted_bytes = 4

    def feed(self, data: bytes) -> list[Frame]:
        """The frames completed by `data`."""
        if self._pending:
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes < self._wanted_bytes:
                return []
            data = b"".join(self._pending)
            self._pending.clear()
        return self._frames(data)

    def _frames(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        view = memoryview(data)
        position, end = 0, len(data)
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(data, position)
            if length > self._limit:
                raise PeerError(
                    OVERSIZED, f"a frame of {length} bytes; at most {self._limit} are taken"
                )
            after = position + 4 + length
            if after > end:
                return self._keep(data, position, after - position, frames)
            frames.append(decode(view[position + 4 : after]))
            position = after
            self._limit = self._size_bytes_max
        return self._keep(data, position, 4, frames)

    def _keep(
        self, data: bytes, position: int, wanted_bytes: int, frames: list[Frame]
    ) -> list[Frame]:
        rest = data[position:] if position else data
        self._pending_bytes = len(rest)
        self._wanted_bytes = wanted_bytes
        if rest:
            self._pending.append(rest)
        return frames


def decode(content: memoryview) -> Frame:
    """One frame, from its kind to its end."""
    try:
        kind = content[0] if content else 0
        if kind == _PLAIN:
            frame: Frame = _decode_plain(content[1:])
            return frame
        if kind == _DATA:
            return _decode_data_frame(content)
    except PeerError:
        raise
    except (*UNREADABLE, RemoteProtocolError, struct.error) as error:
        raise PeerError(MALFORMED, str(error)) from error
    raise PeerError(MALFORMED, f"frame kind {kind}; known are {_PLAIN} and {_DATA}")


def _decode_data_frame(content: memoryview) -> Data:
    (header_bytes,) = _LENGTH.unpack_from(content, 1)
    position = 5 + header_bytes
    if position > len(content):
        raise PeerError(MALFORMED, f"a header of {header_bytes} bytes in {len(content)}")
    header: _DataHeader = _decode_data(content[5:position])
    bodies = _BodyReader(bytes(content[position:]))
    messages: list[Message] = []
    for message in header.messages:
        if isinstance(message, _Carrying):
            batches = [_batch_of(batch, bodies) for batch in message.batches]
            messages.append(_carried(message, batches))
        else:
            messages.append(_with_filters_checked(message))
    bodies.finish()
    return Data(header.sequence, header.acknowledged, messages, header.retained)


def _carried(message: _Carrying, batches: list[Batch]) -> Carrying:
    if type(message) is _Publications:
        return Publications(batches)
    if type(message) is _GuestCut and len(message.qos) != len(batches):
        raise PeerError(MALFORMED, f"{len(batches)} batches with the quality of {len(message.qos)}")
    kind: type[Any] = type(message).__bases__[0]
    carrying: Carrying = kind(**{**msgspec.structs.asdict(message), "batches": batches})
    return carrying


def _with_filters_checked(message: Control) -> Control:
    replace = msgspec.structs.replace
    match message:
        case Reminder():
            return replace(message, entrusted=_with_filters_checked(message.entrusted))
        case TakeGuest() | TetherWants() | Entrusted() | GuestAnswer():
            checked = [replace(one, filter=_accepted(one.filter)) for one in message.subscriptions]
            return replace(message, subscriptions=tuple(checked))
        case Subscribe() | Advertise() | TetherAdvertise():
            if message.filter is not None:
                return replace(message, filter=_accepted(message.filter))
        case TetherAttach(role=Publishing(advertisements=advertisements)):
            filters = {key: _accepted(filter) for key, filter in advertisements.items()}
            return replace(message, role=replace(message.role, advertisements=filters))
    return message


def _batch_of(header: _BatchHeader, bodies: _BodyReader) -> Batch:
    first, count = header.first, header.count
    counters: Sequence[int] = header.counters or range(first, first + count)
    if header.counters and (
        len(header.counters) != count or not all(map(lt, header.counters, header.counters[1:]))
    ):
        raise PeerError(MALFORMED, f"counters of {header.publisher!r} do not ascend")
    return Batch(
        header.publisher,
        header.incarnation,
        counters,
        bodies.take(count, header.form),
        header.qos,
        header.published_at,
        header.flood,
        header.covered,
        header.trace_mark,
    )


class _BodyReader:
    """The bodies of one frame, found by one scan, handed out batch by batch."""

    __slots__ = ("_frames", "_position", "_runs", "_source")

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._position = 0
        self._frames: Frames = []
        self._runs: list[Run] = []
        tables: list[Frames] = []
        at = known = 0
        while at < len(source):
            frames, runs, after, error = scan(source, at, V5, len(source))
            if error or after == at:
                raise PeerError(MALFORMED, f"no body at byte {at} of {len(source)}")
            for kind, start, end in runs:
                # Where one search ended and the next went on is no end of a run.
                if self._runs and start == 0 and self._runs[-1][0] == kind:
                    _, start, _ = self._runs.pop()
                    start -= known
                self._runs.append((kind, known + start, known + end))
            tables.append(frames)
            known += len(frames)
            at = after
        if tables:
            self._frames = (
                tables[0]
                if len(tables) == 1
                else np.concatenate([as_table(table) for table in tables])
            )
        self._runs.reverse()

    def take(self, count: int, form: int) -> FrameBodies:
        """The next `count` bodies, which must all be plain and of the given form."""
        start = self._position
        self._position = end = start + count
        qos = form & _WITH_PACKET_ID
        kind = PUBLISH_1 if qos else PUBLISH_0
        runs = self._runs
        while runs and runs[-1][2] <= start:
            runs.pop()
        if not count or not runs or runs[-1][0] != kind or runs[-1][2] < end:
            raise PeerError(MALFORMED, f"no {count} plain bodies of QoS {qos} in their place")
        frames = self._frames[start:end]
        if count <= _FEW_BODIES and not isinstance(frames, list):
            frames = [tuple(row) for row in frames.tolist()]
        return FrameBodies(self._source, frames, qos, bool(form & _PAYLOAD_FIELDS))

    def finish(self) -> None:
        if self._position != len(self._frames):
            left = len(self._frames) - self._position
            raise PeerError(MALFORMED, f"{left} bodies that belong to no batch")


def _accepted(filter: Filter) -> Filter:
    """A bad operand or pattern would fail later, inside the broker and far from its origin."""
    try:
        return taken(filter)
    except FilterError as error:
        raise PeerError(MALFORMED, f"a filter that cannot be meant: {error}") from None
