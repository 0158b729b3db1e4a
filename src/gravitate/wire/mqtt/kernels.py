"""Compiled loops over received bytes: find frames, rewrite frames, read and write packet ids.

A *table* has one row a frame and the columns below; positions count from the start of the
buffer. A frame's kind is its first byte, plus `ATTENTION` where it is anything but a plain
PUBLISH (QoS 0 or 1, no flags, valid topic and properties, no `$` in front, no topic alias) or a
plain PUBACK: such a frame is left to the codec, which decides what is wrong with it, if anything.
So these loops judge only what is certainly right, and errors have one origin.

`scan` has the same scanner in Python for short reads; both give the same table.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gravitate.matching.jit import kernel
from gravitate.wire.mqtt.codes import PROPERTIES_BYTES_MAX

Bytes = NDArray[np.uint8]
Table = NDArray[np.int32]

START: Final = 0
END: Final = 1
KIND: Final = 2
TOPIC: Final = 3
"""Where the topic's text begins (its two length bytes stand before)."""
TOPIC_END: Final = 4
"""Where the topic ends and, at QoS 1, the packet id begins."""
PROPERTIES: Final = 5
"""Where the properties begin, after their length; they end where the payload begins."""
PAYLOAD: Final = 6
PACKET_ID: Final = 7
COLUMNS: Final = 8

ATTENTION: Final = 0x100
PUBLISH_0: Final = 0x30
PUBLISH_1: Final = 0x32
PUBACK: Final = 0x40

MALFORMED: Final = 0x81
TOO_LARGE: Final = 0x95


@kernel
def read_byte(data: Bytes, i: int) -> int:
    # Signed, because numba makes floats of sums of signed and unsigned integers.
    return int(np.int64(data[i]))


@kernel
def read_u16(data: Bytes, i: int) -> int:
    return int(np.int64(data[i]) << 8 | np.int64(data[i + 1]))


@kernel
def text_is_valid(data: Bytes, start: int, end: int) -> bool:
    """Whether the bytes are UTF-8 without U+0000."""
    i = start
    while i < end:
        byte = data[i]
        if byte == 0:
            return False
        if byte < 0x80:
            i += 1
            continue
        lowest, highest = 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                lowest = 0xA0
            elif byte == 0xED:
                highest = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                lowest = 0x90
            elif byte == 0xF4:
                highest = 0x8F
        else:
            return False
        if i + more >= end:
            return False
        if data[i + 1] < lowest or data[i + 1] > highest:
            return False
        for k in range(2, more + 1):
            if data[i + k] < 0x80 or data[i + k] > 0xBF:
                return False
        i += more + 1
    return True


@kernel
def has_wildcards(data: Bytes, start: int, end: int) -> bool:
    found = 0
    for i in range(start, end):
        found += data[i] == 0x2B or data[i] == 0x23
    return found > 0


@kernel
def properties_are_plain(data: Bytes, start: int, end: int) -> bool:
    """Whether these are valid properties of a PUBLISH that a client may send without aliases."""
    seen = 0
    i = start
    while i < end:
        name = data[i]
        i += 1
        if name == 0x26:
            for _ in range(2):
                if i + 2 > end:
                    return False
                size = read_u16(data, i)
                i += 2
                if i + size > end or not text_is_valid(data, i, i + size):
                    return False
                i += size
            continue
        if name == 0 or name > 9 or seen >> name & 1:
            return False
        seen |= 1 << name
        if name == 1:
            if i >= end or data[i] > 1:
                return False
            i += 1
        elif name == 2:
            i += 4
        elif name == 3 or name == 8 or name == 9:
            if i + 2 > end:
                return False
            size = read_u16(data, i)
            i += 2
            if i + size > end or (name != 9 and not text_is_valid(data, i, i + size)):
                return False
            if name == 8 and has_wildcards(data, i, i + size):
                return False
            i += size
        else:
            return False
    return i == end


@kernel
def publish_is_plain(data: Bytes, body: int, end: int, version: int, row: Table) -> bool:
    """Whether a PUBLISH of QoS 0 or 1 is plain; fills its row either way."""
    if body + 2 > end:
        return False
    topic = body + 2
    i = topic + read_u16(data, body)
    if i > end or i == topic or data[topic] == 0x24:
        return False
    if has_wildcards(data, topic, i) or not text_is_valid(data, topic, i):
        return False
    row[TOPIC] = topic
    row[TOPIC_END] = i
    if row[KIND] == PUBLISH_1:
        if i + 2 > end:
            return False
        row[PACKET_ID] = read_u16(data, i)
        if row[PACKET_ID] == 0:
            return False
        i += 2
    if version >= 5:
        size = 0
        shift = 0
        while True:
            if i >= end or shift > 21:
                return False
            byte = read_byte(data, i)
            i += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift > 0:
                    return False
                break
            shift += 7
        if i + size > end or size > PROPERTIES_BYTES_MAX:
            return False
        if not properties_are_plain(data, i, i + size):
            return False
        row[PROPERTIES] = i
        i += size
    else:
        row[PROPERTIES] = i
    row[PAYLOAD] = i
    return True


@kernel
def scan_frames(
    data: Bytes, position: int, version: int, size_max: int, table: Table, runs: Table
) -> tuple[int, int, int, int]:
    """Find the complete frames from `position` on, as many as the table holds.

    Returns how many frames and how many runs (kind, first row, row after the last) were found,
    where the first byte not consumed is, and the reason code of an unreadable header or 0."""
    size = data.size
    frames = 0
    found = 0
    error = 0
    while frames < table.shape[0]:
        length = 0
        i = position + 1
        complete = False
        for k in range(4):
            if i >= size:
                break
            byte = read_byte(data, i)
            i += 1
            length |= (byte & 0x7F) << (7 * k)
            if byte < 0x80:
                complete = True
                if byte == 0 and k > 0:
                    error = MALFORMED
                break
            if k == 3:
                error = MALFORMED
        if error != 0 or not complete:
            break
        end = i + length
        if end - position > size_max:
            error = TOO_LARGE
            break
        if end > size:
            break
        row = table[frames]
        for k in range(COLUMNS):
            row[k] = 0
        kind = read_byte(data, position)
        row[START] = position
        row[END] = end
        row[KIND] = kind
        if kind in (PUBLISH_0, PUBLISH_1):
            plain = publish_is_plain(data, i, end, version, row)
        elif kind == PUBACK and length == 2:
            row[PACKET_ID] = read_u16(data, i)
            plain = row[PACKET_ID] != 0
        else:
            plain = False
        if not plain:
            kind |= ATTENTION
            row[KIND] = kind
            for k in range(TOPIC, COLUMNS):
                row[k] = 0
        if found > 0 and runs[found - 1, 0] == kind:
            runs[found - 1, 2] = frames + 1
        else:
            runs[found, 0] = kind
            runs[found, 1] = frames
            runs[found, 2] = frames + 1
            found += 1
        frames += 1
        position = end
    return frames, found, position, error


@kernel
def is_contiguous(table: Table) -> bool:
    """Whether the frames lie one after the other in the buffer."""
    gaps = 0
    for i in range(1, table.shape[0]):
        gaps += table[i, START] != table[i - 1, END]
    return gaps == 0


@kernel
def total_bytes(table: Table) -> int:
    """What the frames take together."""
    total = 0
    for i in range(table.shape[0]):
        total += table[i, END] - table[i, START]
    return total


@kernel
def topic_changes(data: Bytes, table: Table, changes: Table) -> int:
    """Write the rows whose topic differs from the row before (row 0 does); how many there are."""
    count = 0
    for i in range(table.shape[0]):
        same = i > 0
        if same:
            here, before = table[i, TOPIC], table[i - 1, TOPIC]
            size = table[i, TOPIC_END] - here
            same = size == table[i - 1, TOPIC_END] - before
            k = 0
            while same and k < size:
                same = data[here + k] == data[before + k]
                k += 1
        if not same:
            changes[count] = i
            count += 1
    return count


@kernel
def number_frames(out: Bytes, table: Table, offset: int, first_packet_id: int) -> None:
    """Write consecutive packet ids into frames of QoS 1 copied as they lie, `offset` less."""
    packet_id = first_packet_id
    for i in range(table.shape[0]):
        at = table[i, TOPIC_END] - offset
        out[at] = packet_id >> 8
        out[at + 1] = packet_id & 0xFF
        packet_id = packet_id % 65535 + 1


@kernel
def gather_frames(data: Bytes, table: Table, first_packet_id: int, out: Bytes) -> int:
    """Copy frames as they are, one after the other; number them unless `first_packet_id` is 0."""
    o = 0
    packet_id = first_packet_id
    for i in range(table.shape[0]):
        start = table[i, START]
        for k in range(table[i, END] - start):
            out[o + k] = data[start + k]
        if first_packet_id > 0:
            at = o + table[i, TOPIC_END] - start
            out[at] = packet_id >> 8
            out[at + 1] = packet_id & 0xFF
            packet_id = packet_id % 65535 + 1
        o += table[i, END] - start
    return o


@kernel
def write_length(out: Bytes, o: int, value: int) -> int:
    """Write a variable byte integer; where it ends."""
    while value >= 0x80:
        out[o] = value & 0x7F | 0x80
        value >>= 7
        o += 1
    out[o] = value
    return o + 1


@kernel
def length_size(value: int) -> int:
    """How many bytes a variable byte integer takes."""
    return 1 if value < 0x80 else 2 if value < 0x4000 else 3 if value < 0x200000 else 4


@kernel
def frame_sizes(table: Table, version: int, qos: int, sizes: Table) -> None:
    """What each frame weighs when written for `version` at `qos`."""
    for i in range(table.shape[0]):
        length = 2 + table[i, TOPIC_END] - table[i, TOPIC] + table[i, END] - table[i, PAYLOAD]
        if qos > 0:
            length += 2
        if version >= 5:
            size = table[i, PAYLOAD] - table[i, PROPERTIES]
            length += size + length_size(size)
        sizes[i] = 1 + length_size(length) + length


@kernel
def rewrite_frames(
    data: Bytes, table: Table, version: int, qos: int, first_packet_id: int, out: Bytes, rows: Table
) -> int:
    """Write the frames anew for `version` at `qos`, numbered from `first_packet_id`.

    Fills `rows` with the table of what was written; returns how many bytes that is."""
    o = 0
    packet_id = first_packet_id
    for i in range(table.shape[0]):
        topic, topic_end = table[i, TOPIC], table[i, TOPIC_END]
        properties, payload = table[i, PROPERTIES], table[i, PAYLOAD]
        length = 2 + topic_end - topic + table[i, END] - payload
        if qos > 0:
            length += 2
        if version >= 5:
            length += payload - properties + length_size(payload - properties)
        rows[i, START] = o
        rows[i, KIND] = PUBLISH_1 if qos > 0 else PUBLISH_0
        out[o] = rows[i, KIND]
        o = write_length(out, o + 1, length)
        rows[i, TOPIC] = o + 2
        for k in range(topic - 2, topic_end):
            out[o] = data[k]
            o += 1
        rows[i, TOPIC_END] = o
        rows[i, PACKET_ID] = 0
        if qos > 0:
            rows[i, PACKET_ID] = packet_id
            out[o] = packet_id >> 8
            out[o + 1] = packet_id & 0xFF
            packet_id = packet_id % 65535 + 1
            o += 2
        if version >= 5:
            o = write_length(out, o, payload - properties)
            rows[i, PROPERTIES] = o
            for k in range(properties, payload):
                out[o] = data[k]
                o += 1
        else:
            rows[i, PROPERTIES] = o
        rows[i, PAYLOAD] = o
        for k in range(payload, table[i, END]):
            out[o] = data[k]
            o += 1
        rows[i, END] = o
    return o


@kernel
def write_pubacks(table: Table, out: Bytes) -> None:
    """One PUBACK (success) a frame."""
    for i in range(table.shape[0]):
        packet_id = table[i, PACKET_ID]
        out[4 * i] = PUBACK
        out[4 * i + 1] = 2
        out[4 * i + 2] = packet_id >> 8
        out[4 * i + 3] = packet_id & 0xFF


@kernel
def acknowledged_in_order(table: Table, expected: int) -> int:
    """How many of the PUBACKs, from the first on, carry the ids `expected`, its successor, …"""
    for i in range(table.shape[0]):
        if table[i, PACKET_ID] != expected:
            return i
        expected = expected % 65535 + 1
    return len(table)
