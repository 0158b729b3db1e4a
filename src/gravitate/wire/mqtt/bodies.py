"""`FrameBodies`: the bodies of events as the MQTT frames they came in.

A body is one MQTT 5 PUBLISH packet inside a buffer that is shared by everything that was received
with it. All frames of one `FrameBodies` have the same QoS; at QoS 1 they have room for a packet
id, whose content means nothing. DUP and RETAIN are clear, the topic is whole (no alias), topic
and properties are valid: the scanner lets nothing else through.

Nothing is parsed before somebody asks: topics, then single properties by name, then the payload
as JSON when a wanted name starts with `payload.` and the listener it came through allows it.
Few frames are described by tuples, many by an array; see `scan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from gravitate.errors import MqttError
from gravitate.model.events import TOPIC, Attributes, Event, Value
from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt.codes import REMAINING_LENGTH_MAX, V5, ReasonCode
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.packets import Publish
from gravitate.wire.mqtt.properties import Properties, Property
from gravitate.wire.mqtt.scan import Frames, Row, as_table, scan

PAYLOAD_PREFIX: Final = "payload."
"""How a condition names a field of a JSON payload: `payload.reading.celsius`."""

ANY_SIZE: Final = REMAINING_LENGTH_MAX + 5

_FEW = 8
_LARGE_BYTES = 16 * 1024
_BALLAST = 8
_BALLAST_KEPT = 2
"""How many times as large as its frames a buffer may be, of a selection and of what is kept."""
_KEPT_TOPIC_BYTES = 256


class FrameBodies(msgspec.Struct, eq=False, gc=False):
    """Events as slices of received bytes; implements `gravitate.model.events.Bodies`."""

    buffer: bytes
    frames: Frames
    qos: int
    payload_fields: bool = True
    emitted: dict[tuple[int, int], tuple[int, list[bytes | memoryview]]] | None = None
    """What `emit` made of these bodies last, for the next receiver of the same."""
    topics_found: list[bytes] | None = None
    """What `topics` answers, once asked."""
    size_found: int = -1
    """What `size_bytes` answers, once asked."""
    compacted_once: FrameBodies | None = None
    """What `compacted` answers, for the next who asks."""

    def __len__(self) -> int:
        return len(self.frames)

    def select(self, indices: Sequence[int]) -> FrameBodies:
        frames = self.frames
        if len(indices) == len(frames):
            return self
        chosen: Frames
        if isinstance(indices, range) and indices.step == 1:
            chosen = frames[indices.start : indices.stop]
        elif isinstance(frames, list):
            chosen = [frames[i] for i in indices]
        elif len(indices) <= _FEW:
            chosen = [tuple(frames[i].tolist()) for i in indices]
        else:
            chosen = frames[np.asarray(indices)]
        buffer = self.buffer
        if len(buffer) > _LARGE_BYTES:
            buffer, chosen = _without_ballast(buffer, chosen, _BALLAST)
        return FrameBodies(buffer, chosen, self.qos, self.payload_fields)

    def compacted(self) -> FrameBodies:
        if len(self.buffer) <= _BALLAST_KEPT * self.size_bytes():
            return self
        if self.compacted_once is None:
            buffer, frames = _without_ballast(self.buffer, self.frames, _BALLAST_KEPT)
            self.compacted_once = FrameBodies(buffer, frames, self.qos, self.payload_fields)
        return self.compacted_once

    def topics(self) -> Sequence[bytes]:
        topics = self.topics_found
        if topics is None:
            topics = self.topics_found = self._find_topics()
        return topics

    def _find_topics(self) -> list[bytes]:
        buffer, frames = self.buffer, self.frames
        if isinstance(frames, list):
            if len(frames) == 1:
                row = frames[0]
                return [buffer[row[3] : row[4]]]
            return [buffer[row[3] : row[4]] for row in frames]
        changes = np.empty(len(frames), dtype=np.int32)
        count = k.topic_changes(np.frombuffer(buffer, dtype=np.uint8), frames, changes)
        starts = changes[:count].tolist()
        topics: list[bytes] = []
        for first, after in pairwise([*starts, len(frames)]):
            start, end = frames[first, k.TOPIC], frames[first, k.TOPIC_END]
            topics += [buffer[start:end]] * (after - first)
        return topics

    def attributes(self, wanted: frozenset[str]) -> Sequence[Attributes]:
        names, paths = _wanted(wanted, self.payload_fields)
        buffer = self.buffer
        found: list[dict[str, Value]] = []
        for row in self._rows():
            attributes: dict[str, Value] = {}
            if names and row[5] != row[6]:
                _read_user_properties(buffer, row[5], row[6], names, attributes)
            if paths:
                _read_payload(buffer[row[6] : row[1]], paths, attributes)
            attributes[TOPIC] = _topic_text(buffer[row[3] : row[4]])
            found.append(attributes)
        return found

    def every_attribute(self) -> Sequence[Attributes]:
        buffer = self.buffer
        found: list[dict[str, Value]] = []
        for row in self._rows():
            attributes: dict[str, Value] = {}
            if row[5] != row[6]:
                _read_user_properties(buffer, row[5], row[6], None, attributes)
            attributes[TOPIC] = _topic_text(buffer[row[3] : row[4]])
            found.append(attributes)
        return found

    def size_bytes(self) -> int:
        size = self.size_found
        if size < 0:
            frames = self.frames
            if not isinstance(frames, list):
                size = k.total_bytes(frames)
            elif len(frames) == 1:
                size = frames[0][1] - frames[0][0]
            else:
                size = sum([row[1] - row[0] for row in frames])
            self.size_found = size
        return size

    def payloads(self) -> list[bytes]:
        """The payloads as they were published."""
        return [self.buffer[row[6] : row[1]] for row in self._rows()]

    @classmethod
    def from_events(
        cls, events: Iterable[Event], qos: int = 0, payload_fields: bool = True
    ) -> FrameBodies:
        """Events in the open as frames: attributes other than the topic become user properties."""
        data = b"".join(encode(publish_of(event, qos), V5) for event in events)
        return cls(data, scan_plain(data, 0, qos), qos, payload_fields)

    def spans(self) -> list[memoryview]:
        """The frames, those that lie one after the other as one slice of the buffer."""
        view = memoryview(self.buffer)
        frames = self.frames
        if len(frames) == 0:
            return []
        if not isinstance(frames, list):
            if k.is_contiguous(frames):
                return [view[frames[0, k.START] : frames[-1, k.END]]]
            # Many small slices would cost more than a copy.
            return [gathered(self.buffer, frames, 0)]
        spans: list[memoryview] = []
        rows = self._rows()
        start, end = rows[0][0], rows[0][1]
        for row in rows:
            if row[0] != end and row[0] != start:
                spans.append(view[start:end])
                start = row[0]
            end = row[1]
        spans.append(view[start:end])
        return spans

    def _rows(self) -> Sequence[Row]:
        frames = self.frames
        return frames if isinstance(frames, list) else frames.tolist()


def _without_ballast(buffer: bytes, frames: Frames, ballast: int) -> tuple[bytes, Frames]:
    """A part of a buffer that is more than `ballast` times as large as a buffer of its own.

    Selections wait in sessions and on links; a few events must not keep a whole read alive."""
    if isinstance(frames, list):
        if ballast * sum(row[1] - row[0] for row in frames) >= len(buffer):
            return buffer, frames
        rows: list[Row] = []
        at = 0
        for start, end, kind, topic, topic_end, properties, payload, number in frames:
            by = at - start
            rows.append(
                (
                    at,
                    end + by,
                    kind,
                    topic + by,
                    topic_end + by,
                    properties + by,
                    payload + by,
                    number,
                )
            )
            at += end - start
        return b"".join([buffer[row[0] : row[1]] for row in frames]), rows
    sizes = frames[:, k.END] - frames[:, k.START]
    if ballast * int(sizes.sum()) >= len(buffer):
        return buffer, frames
    moved = frames.copy()
    by_row = np.cumsum(sizes) - sizes - frames[:, k.START]
    for column in (k.START, k.END, k.TOPIC, k.TOPIC_END, k.PROPERTIES, k.PAYLOAD):
        moved[:, column] += by_row
    return bytes(gathered(buffer, frames, 0)), moved


def by_payload(frames: Frames, bytes_max: int) -> list[tuple[Frames, bool]]:
    """Frames cut where payloads up to a size, and larger ones, follow one another."""
    if isinstance(frames, list):
        large = [row[1] - row[6] > bytes_max for row in frames]
        has_large = True in large
    else:
        beyond = frames[:, k.END] - frames[:, k.PAYLOAD] > bytes_max
        has_large = bool(beyond.any())
        large = beyond.tolist() if has_large else []
    if not has_large:
        return [(frames, True)]
    cuts = [i for i in range(1, len(large)) if large[i] != large[i - 1]]
    return [
        (frames[first:after], not large[first]) for first, after in pairwise([0, *cuts, len(large)])
    ]


def gathered(buffer: bytes, frames: k.Table, first_packet_id: int) -> memoryview:
    """A copy of the frames, one after the other; numbered unless `first_packet_id` is 0."""
    size = int((frames[:, k.END] - frames[:, k.START]).sum())
    out = np.empty(size, dtype=np.uint8)
    k.gather_frames(np.frombuffer(buffer, dtype=np.uint8), frames, first_packet_id, out)
    return out.data


def scan_plain(data: bytes, position: int, qos: int) -> Frames:
    """The table of a buffer that holds whole plain frames of one QoS and nothing else."""
    parts: list[Frames] = []
    while position < len(data):
        frames, runs, position, error = scan(data, position, V5, ANY_SIZE)
        if error or len(runs) != 1 or runs[0][0] != (k.PUBLISH_1 if qos else k.PUBLISH_0):
            raise MqttError(
                f"bodies that are not plain PUBLISH packets of QoS {qos}",
                ReasonCode.MALFORMED_PACKET,
            )
        parts.append(frames)
    if not parts:
        return []
    return parts[0] if len(parts) == 1 else np.concatenate([as_table(part) for part in parts])


def publish_of(event: Event, qos: int) -> Publish:
    """An event in the open as a PUBLISH; the packet id only holds the place."""
    attributes = event.attributes
    pairs = tuple((name, as_text(attributes[name])) for name in attributes if name != TOPIC)
    properties: Properties = {Property.USER_PROPERTY: pairs} if pairs else {}
    topic = as_text(attributes.get(TOPIC, ""))
    return Publish(topic, event.payload, qos, 1 if qos else 0, properties=properties)


def as_text(value: Value) -> str:
    """A value as the text of a user property."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def payload_fields(payload: bytes, wanted: frozenset[str]) -> dict[str, Value]:
    """The wanted `payload.x` fields that a JSON payload has."""
    found: dict[str, Value] = {}
    _, paths = _wanted(wanted, True)
    if paths:
        _read_payload(payload, paths, found)
    return found


@lru_cache(maxsize=4096)
def _known_topic_text(topic: bytes) -> str:
    return topic.decode()


def _topic_text(topic: bytes) -> str:
    # Long topics are not kept: strangers would choose how much memory that takes.
    return _known_topic_text(topic) if len(topic) <= _KEPT_TOPIC_BYTES else topic.decode()


@lru_cache(maxsize=256)
def _wanted(
    wanted: frozenset[str], payload_fields: bool
) -> tuple[dict[bytes, str], tuple[tuple[str, tuple[str, ...]], ...]]:
    """The wanted names as user properties are spelled, and the wanted paths into the payload."""
    paths = sorted(name for name in wanted if payload_fields and name.startswith(PAYLOAD_PREFIX))
    names = {name.encode(): name for name in wanted - {TOPIC} - set(paths)}
    return names, tuple((name, tuple(name.split(".")[1:])) for name in paths)


def _read_user_properties(
    data: bytes, i: int, end: int, names: dict[bytes, str] | None, into: dict[str, Value]
) -> None:
    """Put the user properties with the given names (None: all) into `into`; the last one wins."""
    while i < end:
        kind = data[i]
        if kind == 0x26:
            name_end = i + 3 + (data[i + 1] << 8 | data[i + 2])
            value_end = name_end + 2 + (data[name_end] << 8 | data[name_end + 1])
            key = data[i + 3 : name_end]
            name = key.decode() if names is None else names.get(key)
            if name is not None:
                into[name] = data[name_end + 2 : value_end].decode()
            i = value_end
        elif kind == 1:
            i += 2
        elif kind == 2:
            i += 5
        else:
            i += 3 + (data[i + 1] << 8 | data[i + 2])


def _read_payload(
    payload: bytes, paths: tuple[tuple[str, tuple[str, ...]], ...], into: dict[str, Value]
) -> None:
    """Put the wanted fields of a JSON payload into `into`; what is not JSON has no fields."""
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for name, path in paths:
        value = document
        for step in path:
            if not isinstance(value, dict) or step not in value:
                break
            value = value[step]
        else:
            if isinstance(value, (bool, int, float, str)):
                into[name] = value
