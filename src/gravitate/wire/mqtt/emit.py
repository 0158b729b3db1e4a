"""Bodies -> the bytes that a client is sent.

At QoS 0 to MQTT 5 clients the received bytes go out as they are. At QoS 1 they are copied and
numbered; a lower QoS or MQTT 3.1.1 has them rewritten. Packet ids follow the session's sequence
numbers: `packet_id`. The last result of each way is kept with the bodies, so that the many
receivers of one batch share it.
"""

from __future__ import annotations

import numpy as np

from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt.bodies import FrameBodies, gathered
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.primitives import write_varint
from gravitate.wire.mqtt.scan import Frames, Row, as_table

PACKET_IDS = 65535
"""How many packet ids there are: 1 to 65535."""


def packet_id(sequence: int) -> int:
    """The packet id of a session's delivery `sequence` (from 1)."""
    return (sequence - 1) % PACKET_IDS + 1


def emit(
    bodies: FrameBodies, version: int, qos: int, first_packet_id: int = 0
) -> list[bytes | memoryview]:
    """The frames for a client of `version` at `qos`, numbered from `first_packet_id` at QoS 1."""
    if len(bodies.frames) == 0:
        return []
    kept = bodies.emitted
    if kept is None:
        kept = bodies.emitted = {}
    else:
        last = kept.get((version, qos))
        if last is not None and last[0] == first_packet_id:
            return last[1]
    if version < V5 or qos != bodies.qos:
        made = _rewritten(bodies, version, qos, first_packet_id)
    elif qos:
        made = [_numbered(bodies, first_packet_id)]
    else:
        made = _as_received(bodies)
    kept[version, qos] = (first_packet_id, made)
    return made


def frame_sizes(bodies: FrameBodies, version: int, qos: int) -> list[int]:
    """What each frame weighs when it is emitted."""
    sizes = np.empty(len(bodies), dtype=np.int32)
    k.frame_sizes(as_table(bodies.frames), version, qos, sizes)
    return sizes.tolist()


def upgrade(data: bytes, frames: Frames, qos: int, payload_fields: bool) -> FrameBodies:
    """Plain publications of MQTT 3.1.1 as bodies."""
    if isinstance(frames, list):
        parts = [_rewrite_one(data, row, V5, qos, 1) for row in frames]
        rows: list[Row] = []
        start = 0
        for row, part in zip(frames, parts, strict=True):
            end = start + len(part)
            payload = end - (row[1] - row[6])
            # Nothing but the empty property length stands between packet id and payload.
            topic_end = payload - 1 - 2 * qos
            topic = topic_end - (row[4] - row[3])
            rows.append((start, end, row[2], topic, topic_end, payload, payload, 1 if qos else 0))
            start = end
        return FrameBodies(b"".join(parts), rows, qos, payload_fields)
    out, table, size = _rewrite(data, frames, V5, qos, 1)
    return FrameBodies(out[:size].tobytes(), table, qos, payload_fields)


def _as_received(bodies: FrameBodies) -> list[bytes | memoryview]:
    frames, buffer = bodies.frames, bodies.buffer
    if len(frames) == 1 and isinstance(frames, list):
        start, end = frames[0][0], frames[0][1]
        return [buffer if end - start == len(buffer) else buffer[start:end]]
    return [*bodies.spans()]


def _numbered(bodies: FrameBodies, first_packet_id: int) -> bytes | memoryview:
    frames, buffer = bodies.frames, bodies.buffer
    if isinstance(frames, list):
        parts: list[bytes] = []
        number = first_packet_id
        for row in frames:
            slot = row[4]
            parts += (buffer[row[0] : slot], number.to_bytes(2, "big"), buffer[slot + 2 : row[1]])
            number = number % PACKET_IDS + 1
        return b"".join(parts)
    if not k.is_contiguous(frames):
        return gathered(buffer, frames, first_packet_id)
    start = int(frames[0, k.START])
    out = np.frombuffer(buffer, dtype=np.uint8)[start : int(frames[-1, k.END])].copy()
    k.number_frames(out, frames, start, first_packet_id)
    return out.data


def _rewritten(
    bodies: FrameBodies, version: int, qos: int, first_packet_id: int
) -> list[bytes | memoryview]:
    frames, number = bodies.frames, first_packet_id
    if isinstance(frames, list):
        parts: list[bytes | memoryview] = []
        for row in frames:
            parts.append(_rewrite_one(bodies.buffer, row, version, qos, number))
            number = number % PACKET_IDS + 1
        return parts
    out, _, size = _rewrite(bodies.buffer, frames, version, qos, first_packet_id)
    return [out[:size].data]


def _rewrite(
    buffer: bytes, frames: k.Table, version: int, qos: int, first_packet_id: int
) -> tuple[k.Bytes, k.Table, int]:
    # A frame grows by at most a packet id, two empty lengths and one byte of its own length.
    room = int((frames[:, k.END] - frames[:, k.START]).sum()) + 8 * len(frames)
    out = np.empty(room, dtype=np.uint8)
    rows = np.empty((len(frames), k.COLUMNS), dtype=np.int32)
    data = np.frombuffer(buffer, dtype=np.uint8)
    size = k.rewrite_frames(data, frames, version, qos, first_packet_id, out, rows)
    return out, rows, size


def _rewrite_one(buffer: bytes, row: Row, version: int, qos: int, number: int) -> bytes:
    _, end, _, topic, topic_end, properties, payload, _ = row
    head = buffer[topic - 2 : topic_end]
    if qos:
        head += number.to_bytes(2, "big")
    if version >= V5:
        head += write_varint(payload - properties) + buffer[properties:payload]
    length = write_varint(len(head) + end - payload)
    return b"".join((b"\x32" if qos else b"0", length, head, buffer[payload:end]))
