"""What has been received from a client and not been taken yet.

That is the beginning of a packet that is not whole, or what is behind a request that is taken in
parts. A packet that comes in many reads is put together once, when its last byte is there, however
large it is. What is held counts at the desk, which may have no room.
"""

from __future__ import annotations

from typing import Final

from gravitate.serve.mqtt.desk import Desk
from gravitate.wire.mqtt.codec import frame_end

_CHUNK_BYTES: Final = 64
"""What a chunk takes beside its content: many small ones count for what they are."""


class Inbox:
    """Received bytes, between reads."""

    __slots__ = ("_counted_bytes", "_desk", "_needed_bytes", "chunks", "held_bytes")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.chunks: list[bytes] = []
        """What is held, empty between packets."""
        self.held_bytes = 0
        self._needed_bytes = 0
        self._counted_bytes = 0

    def joined(self, data: bytes) -> bytes:
        """A read with what was held before it; empty while the packet it continues is not whole."""
        if not self.chunks:
            return data
        self.add(data)
        if self.held_bytes < self._needed_bytes:
            return b""
        return self.taken_back()

    def keep(self, data: bytes, position: int, size_max: int) -> None:
        """The packet that begins at `position` is not whole; raises when it never may be."""
        _, end = frame_end(data, position, size_max)
        self.put_back(data, position)
        self._needed_bytes = end - position if end else self.held_bytes + 1

    def put_back(self, data: bytes, position: int, at_work_bytes: int = 0) -> None:
        """What begins at `position` is to be read later; so many bytes before it are at work."""
        self.clear()
        if position < len(data):
            self.add(data[position:] if position else data)
        self._count(at_work_bytes)

    def add(self, data: bytes) -> None:
        """A read behind what is held."""
        self._count(len(data) + _CHUNK_BYTES)
        self.chunks.append(data)
        self.held_bytes += len(data)

    def taken_back(self) -> bytes:
        """All that is held, which is then not held any more."""
        whole = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        self.clear()
        return whole

    def clear(self) -> None:
        self.chunks = []
        self.held_bytes = self._needed_bytes = 0
        self._count(-self._counted_bytes)

    def _count(self, change_bytes: int) -> None:
        self._desk.hold(change_bytes)
        self._counted_bytes += change_bytes
