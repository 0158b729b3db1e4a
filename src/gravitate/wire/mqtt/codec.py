"""One packet at a time: the way in and out of MQTT for everything that is not a hot path.

`encode` and `decode` convert single packets; `PacketReader` cuts a stream of received bytes into
packets, for clients and tests. The broker's listener uses `scan`, which takes a whole read at
once, and comes here only for packets that ask for a decision.
"""

from __future__ import annotations

from gravitate.errors import MqttError
from gravitate.wire.mqtt.codes import REMAINING_LENGTH_MAX, V5, ReasonCode
from gravitate.wire.mqtt.decoder import decode
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.packets import Packet
from gravitate.wire.mqtt.primitives import malformed

__all__ = ["PacketReader", "decode", "encode", "frame_end"]


def frame_end(data: bytes, start: int, size_max: int) -> tuple[int, int]:
    """Where the body of the packet at `start` begins and where it ends.

    The end is 0 while the fixed header is incomplete; it may lie past the end of `data`."""
    length = 0
    for index in range(4):
        at = start + 1 + index
        if at >= len(data):
            return 0, 0
        byte = data[at]
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if byte == 0 and index:
                raise malformed("the remaining length is not in its shortest form")
            end = at + 1 + length
            if end - start > size_max:
                raise MqttError(
                    f"a packet of {end - start} bytes, at most {size_max} are accepted",
                    ReasonCode.PACKET_TOO_LARGE,
                )
            return at + 1, end
    raise malformed("the remaining length has more than four bytes")


class PacketReader:
    """Received bytes in, packets out; keeps what is incomplete."""

    def __init__(self, version: int = V5, size_max: int = REMAINING_LENGTH_MAX + 5) -> None:
        self.version = version
        self.size_max = size_max
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 2

    def feed(self, data: bytes) -> list[Packet]:
        """All packets that `data` completes."""
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return []
        buffer = data if len(self._chunks) == 1 else b"".join(self._chunks)
        packets: list[Packet] = []
        start = 0
        while True:
            body, end = frame_end(buffer, start, self.size_max)
            if not end or end > len(buffer):
                break
            packets.append(decode(buffer[start], buffer[body:end], self.version))
            start = end
        rest = buffer[start:]
        self._chunks = [rest] if rest else []
        self._held = len(rest)
        self._needed = end - start if end else self._held + 1
        return packets
