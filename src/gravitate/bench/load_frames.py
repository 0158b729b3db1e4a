"""The few MQTT 5 packets that a load generator sends, encoded ahead of time.

Independent of `wire` on purpose: the same bytes load our broker and the baseline, and a mistake
in our codec cannot hide itself here. Every PUBLISH of one load has the same size, so received
bytes become a matrix with one packet a row (see `load_sockets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

CONNACK, PUBLISH, PUBACK, SUBACK = 0x20, 0x30, 0x40, 0x90
USER_PROPERTY = 0x26
RECEIVE_MAXIMUM = 0x21
PACKET_ID_MAX = 65_535
PUBACK_BYTES = 4
DISCONNECT = b"\xe0\x00"

Bytes2D = npt.NDArray[np.uint8]


def varint(value: int) -> bytes:
    """MQTT's variable byte integer."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def text(value: str) -> bytes:
    """A length-prefixed UTF-8 string."""
    raw = value.encode()
    return len(raw).to_bytes(2, "big") + raw


def packet(first_byte: int, body: bytes) -> bytes:
    return bytes((first_byte,)) + varint(len(body)) + body


def user_properties(pairs: Mapping[str, str]) -> bytes:
    return b"".join(
        bytes((USER_PROPERTY,)) + text(name) + text(value) for name, value in pairs.items()
    )


def connect(client: str) -> bytes:
    """A clean session without keep-alive that takes as many deliveries as MQTT can number."""
    properties = bytes((RECEIVE_MAXIMUM,)) + PACKET_ID_MAX.to_bytes(2, "big")
    body = text("MQTT") + b"\x05\x02\x00\x00" + varint(len(properties)) + properties + text(client)
    return packet(0x10, body)


def subscribe(topic_filter: str, qos: int, condition: str | None = None) -> bytes:
    """One subscription; `condition` rides in the user property `$where`."""
    properties = user_properties({"$where": condition}) if condition is not None else b""
    body = b"\x00\x01" + varint(len(properties)) + properties + text(topic_filter) + bytes((qos,))
    return packet(0x82, body)


def publish(
    topic: str, payload: bytes, qos: int, properties: Mapping[str, str] | None = None
) -> bytes:
    """A PUBLISH; at QoS 1 its packet id is 1, to be overwritten at `packet_id_offset`."""
    encoded = user_properties(properties or {})
    packet_id = b"\x00\x01" if qos else b""
    body = text(topic) + packet_id + varint(len(encoded)) + encoded + payload
    return packet(PUBLISH | qos << 1, body)


def packet_id_offset(frame: bytes) -> int:
    """Where the packet id stands in a PUBLISH at QoS 1: after the topic."""
    at = 1
    while frame[at] & 0x80:
        at += 1
    at += 1
    return at + 2 + int.from_bytes(frame[at : at + 2], "big")


def packet_size(head: bytes) -> int | None:
    """Size of the packet that `head` begins with, or None while its length is incomplete."""
    length = 0
    for position, byte in enumerate(head[1:5]):
        length |= (byte & 0x7F) << (7 * position)
        if not byte & 0x80:
            return 2 + position + length
    return None


def numbered(frames: Sequence[bytes], qos: int) -> Bytes2D:
    """The frames (of one size) as a matrix; row i has packet id i + 1 at QoS 1.

    Row i also carries i in the first four bytes of its payload's last eight, so that a receiver
    recognises it: the payload must be at least eight bytes long."""
    sizes = {len(frame) for frame in frames}
    if len(sizes) != 1 or len(frames) > PACKET_ID_MAX:
        raise ValueError(f"frames must have one size and be at most {PACKET_ID_MAX}: {sizes}")
    matrix = np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1).copy()
    rows = np.arange(len(frames), dtype=">u4")
    matrix[:, -8:-4] = rows.view(np.uint8).reshape(-1, 4)
    if qos:
        at = packet_id_offset(frames[0])
        ids = (rows + 1).astype(">u2")
        matrix[:, at : at + 2] = ids.view(np.uint8).reshape(-1, 2)
    return matrix
