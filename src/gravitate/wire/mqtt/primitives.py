"""The data types that MQTT packets are made of: integers, texts, binary data.

`Reader` walks over the bytes of one packet and raises `MqttError` with the reason code to answer
with; the writing functions raise `LocalProtocolError` on a value that does not fit.
"""

from __future__ import annotations

from gravitate.errors import LocalProtocolError, MqttError
from gravitate.wire.mqtt.codes import REMAINING_LENGTH_MAX, ReasonCode


def malformed(message: str) -> MqttError:
    return MqttError(message, ReasonCode.MALFORMED_PACKET)


def protocol_error(message: str) -> MqttError:
    return MqttError(message, ReasonCode.PROTOCOL_ERROR)


class Reader:
    """A position in the bytes of one packet; never reads past `end`."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    def _advance(self, count: int, what: str) -> int:
        start = self.position
        if start + count > self.end:
            raise malformed(f"the packet ends in the middle of {what}")
        self.position = start + count
        return start

    def left(self) -> int:
        return self.end - self.position

    def byte(self, what: str) -> int:
        return self.data[self._advance(1, what)]

    def u16(self, what: str) -> int:
        start = self._advance(2, what)
        return int.from_bytes(self.data[start : start + 2], "big")

    def u32(self, what: str) -> int:
        start = self._advance(4, what)
        return int.from_bytes(self.data[start : start + 4], "big")

    def varint(self, what: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise malformed(f"{what} is not in its shortest form")
                return value
        raise malformed(f"{what} has more than four bytes")

    def binary(self, what: str) -> bytes:
        size = self.u16(what)
        start = self._advance(size, what)
        return self.data[start : start + size]

    def text(self, what: str) -> str:
        raw = self.binary(what)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise malformed(f"{what} is not valid UTF-8: {raw[:40]!r}") from None
        if "\0" in text:
            raise malformed(f"{what} contains U+0000: {text[:40]!r}")
        return text

    def rest(self) -> bytes:
        start, self.position = self.position, self.end
        return self.data[start : self.end]

    def finish(self, what: str) -> None:
        if self.position != self.end:
            raise malformed(f"{self.left()} bytes too many at the end of {what}")


def write_u16(value: int) -> bytes:
    if not 0 <= value <= 0xFFFF:
        raise LocalProtocolError(f"{value} does not fit in two bytes")
    return value.to_bytes(2, "big")


def write_u32(value: int) -> bytes:
    if not 0 <= value <= 0xFFFF_FFFF:
        raise LocalProtocolError(f"{value} does not fit in four bytes")
    return value.to_bytes(4, "big")


def write_varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return value.to_bytes(1, "big")
    if not 0 <= value <= REMAINING_LENGTH_MAX:
        raise LocalProtocolError(
            f"{value} is not a variable byte integer (0 to {REMAINING_LENGTH_MAX})"
        )
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_binary(value: bytes) -> bytes:
    if len(value) > 0xFFFF:
        raise LocalProtocolError(f"{len(value)} bytes do not fit in a field of at most 65535")
    return len(value).to_bytes(2, "big") + value


def write_text(value: str) -> bytes:
    if "\0" in value:
        raise LocalProtocolError(f"U+0000 is not allowed in a text: {value[:40]!r}")
    try:
        return write_binary(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise LocalProtocolError(f"not a valid Unicode text: {value[:40]!r}") from None
