"""What has been received from a client and is not a whole packet yet.

A packet that comes in many reads is put together once, when its last byte is there, however large
it is.
"""

from __future__ import annotations

from gravitate.wire.mqtt.codec import frame_end


class Inbox:
    """The beginning of a packet, between reads."""

    __slots__ = ("_held_bytes", "_needed_bytes", "chunks")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        """What is held, empty between packets."""
        self._held_bytes = 0
        self._needed_bytes = 0

    def joined(self, data: bytes) -> bytes:
        """A read with what was held before it; empty while the packet it continues is not whole."""
        if not self.chunks:
            return data
        self.chunks.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._needed_bytes:
            return b""
        whole = b"".join(self.chunks)
        self.chunks = []
        return whole

    def keep(self, data: bytes, position: int, size_max: int) -> None:
        """The packet that begins at `position` is not whole; raises when it never may be."""
        _, end = frame_end(data, position, size_max)
        self.chunks = [data[position:] if position else data]
        self._held_bytes = len(data) - position
        self._needed_bytes = end - position if end else self._held_bytes + 1

    def clear(self) -> None:
        self.chunks = []
