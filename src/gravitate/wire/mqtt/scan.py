"""Find the frames in everything that a read delivered.

`scan` gives the table that `kernels` describes, as a list of tuples for short reads (a call into
compiled code would cost more than it saves) and as an array for long ones, and the *runs* of
equal kind in it. It judges nothing but the fixed headers; see `kernels` for what is left to the
codec. The first call into compiled code loads it, or compiles it: `warm` does that ahead.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt.codes import PROPERTIES_BYTES_MAX, V5

Row = tuple[int, int, int, int, int, int, int, int]
"""start, end, kind, topic, topic end, properties, payload, packet id"""
Frames = list[Row] | k.Table
Run = tuple[int, int, int]
"""kind, first row, row after the last"""
Scan = tuple[Frames, list[Run], int, int]
"""frames, runs, first byte not consumed, reason code of an unreadable header (0: none)"""

SHORT_READ_BYTES: Final = 600
SHORT_ACKNOWLEDGEMENTS_BYTES: Final = 32
FRAMES_MAX: Final = 16384
"""Frames found by one call; what a read has beyond them is found by the next call."""

_table: Final = np.zeros((FRAMES_MAX, k.COLUMNS), dtype=np.int32)
_runs: Final = np.zeros((FRAMES_MAX, 3), dtype=np.int32)


def scan(data: bytes, position: int, version: int, size_max: int) -> Scan:
    """The complete frames of `data` from `position` on (at most `FRAMES_MAX` of them)."""
    size = len(data) - position
    if 2 < size <= 0x80 and data[position + 1] == size - 2 and size <= size_max:
        # One short publication and nothing else: what a quiet client's read looks like.
        kind = data[position]
        if kind == k.PUBLISH_0 or kind == k.PUBLISH_1:
            row = _plain_publish(data, position, position + 2, position + size, kind, version)
            if row is not None:
                return [row], [(kind, 0, 1)], position + size, 0
    if size <= SHORT_READ_BYTES and (
        size <= SHORT_ACKNOWLEDGEMENTS_BYTES or data[position] != k.PUBACK
    ):
        return scan_short(data, position, version, size_max)
    return scan_long(data, position, version, size_max)


def scan_long(data: bytes, position: int, version: int, size_max: int) -> Scan:
    """`scan` in compiled code."""
    array = np.frombuffer(data, dtype=np.uint8)
    count, runs, position, error = k.scan_frames(array, position, version, size_max, _table, _runs)
    found = [(run[0], run[1], run[2]) for run in _runs[:runs].tolist()]
    return _table[:count].copy(), found, position, error


def scan_short(data: bytes, position: int, version: int, size_max: int) -> Scan:
    """`scan` in Python."""
    rows: list[Row] = []
    runs: list[Run] = []
    size = len(data)
    run_kind = -1
    run_start = 0
    error = 0
    while position + 2 <= size and len(rows) < FRAMES_MAX:
        length = data[position + 1]
        body = position + 2
        if length >= 0x80:
            length, body = _long_length(data, position + 1)
            if length < 0:
                error = k.MALFORMED if body else 0
                break
        end = body + length
        if end - position > size_max:
            error = k.TOO_LARGE
            break
        if end > size:
            break
        kind = data[position]
        row: Row | None = None
        if kind == k.PUBLISH_0 or kind == k.PUBLISH_1:
            row = _plain_publish(data, position, body, end, kind, version)
        elif kind == k.PUBACK and length == 2:
            packet_id = data[body] << 8 | data[body + 1]
            if packet_id:
                row = (position, end, kind, 0, 0, 0, 0, packet_id)
        if row is None:
            kind |= k.ATTENTION
            row = (position, end, kind, 0, 0, 0, 0, 0)
        if kind != run_kind:
            if rows:
                runs.append((run_kind, run_start, len(rows)))
            run_kind, run_start = kind, len(rows)
        rows.append(row)
        position = end
    if rows:
        runs.append((run_kind, run_start, len(rows)))
    return rows, runs, position, error


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    """A remaining length of several bytes, and where it ends; -1 if incomplete (0) or wrong (1)."""
    length = 0
    for shift in (0, 7, 14, 21):
        if at >= len(data):
            return -1, 0
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (length, at) if byte else (-1, 1)
    return -1, 1


def _plain_publish(
    data: bytes, start: int, body: int, end: int, kind: int, version: int
) -> Row | None:
    topic = body + 2
    if topic >= end:
        return None
    topic_end = topic + (data[body] << 8 | data[body + 1])
    if topic_end > end or not _topic_is_plain(data[topic:topic_end]):
        return None
    at = topic_end
    packet_id = 0
    if kind == k.PUBLISH_1:
        at += 2
        if at > end:
            return None
        packet_id = data[at - 2] << 8 | data[at - 1]
        if not packet_id:
            return None
    properties = at
    if version >= V5:
        if at >= end:
            return None
        size = data[at]
        properties = at = at + 1
        if size:
            if size >= 0x80:
                size, properties = _long_length(data[:end], at - 1)
                if size < 0 or size > PROPERTIES_BYTES_MAX:
                    return None
            at = properties + size
            if at > end or not _properties_are_plain(data[properties:at]):
                return None
    return start, end, kind, topic, topic_end, properties, at, packet_id


@lru_cache(maxsize=4096)
def _topic_is_plain(topic: bytes) -> bool:
    if not topic or topic[0] == 0x24 or b"+" in topic or b"#" in topic:
        return False
    return _text_is_valid(topic)


def _text_is_valid(text: bytes) -> bool:
    if 0 in text:
        return False
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _properties_are_plain(data: bytes) -> bool:
    seen = 0
    i, end = 0, len(data)
    while i < end:
        name = data[i]
        i += 1
        if name == 0x26:
            for _ in (0, 1):
                if i + 2 > end:
                    return False
                text = i + 2
                i = text + (data[i] << 8 | data[i + 1])
                if i > end or not _text_is_valid(data[text:i]):
                    return False
            continue
        if seen >> name & 1:
            return False
        seen |= 1 << name
        if name == 1:
            if i >= end or data[i] > 1:
                return False
            i += 1
        elif name == 2:
            i += 4
        elif name in (3, 8, 9):
            if i + 2 > end:
                return False
            text = i + 2
            i = text + (data[i] << 8 | data[i + 1])
            if i > end or (name != 9 and not _text_is_valid(data[text:i])):
                return False
            if name == 8 and (b"+" in data[text:i] or b"#" in data[text:i]):
                return False
        else:
            return False
    return i == end


def as_table(frames: Frames) -> k.Table:
    """The frames as an array."""
    if isinstance(frames, list):
        return np.array(frames, dtype=np.int32).reshape(len(frames), k.COLUMNS)
    return frames
