"""What is to be written to one client: buffered, then written at once.

Owns the write side: emission for the client's version, its Maximum Packet Size, packet ids and
their acknowledgement. A delivery that is too large for the client is left out as if it had been
sent and acknowledged, as the specification demands.
"""

from __future__ import annotations

import asyncio

from gravitate.errors import LocalProtocolError
from gravitate.model.events import Bodies, PlainBodies
from gravitate.serve.mqtt.windows import DeliveryWindow
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.emit import emit, frame_sizes, packet_id


class Outbox:
    """Buffers between flushes; the node flushes once after all effects of a batch."""

    __slots__ = (
        "_size_max",
        "_told",
        "_transport",
        "_version",
        "chunks",
        "window",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._version = V5
        self._size_max = 0
        self.chunks: list[bytes | memoryview] = []
        self._told = 0
        self.window = DeliveryWindow()

    def agree(self, version: int, size_max: int) -> None:
        """The client's version and its Maximum Packet Size (0: any)."""
        self._version = version
        self._size_max = size_max

    def write(self, *chunks: bytes) -> None:
        self.chunks += chunks

    def flush(self) -> None:
        chunks = self.chunks
        if chunks:
            self.chunks = []
            self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def deliver(self, bodies: Bodies, qos: int, sequence: int) -> bool:
        """Buffer deliveries; whether some were settled on the spot because they are too large."""
        frames = bodies if type(bodies) is FrameBodies else as_frames(bodies)
        if qos:
            self.window.delivered = sequence + len(frames.frames) - 1
        if self._size_max:
            fitting = self._fitting(frames, qos)
            if len(fitting) < len(frames):
                self._deliver_some(frames, fitting, qos, sequence)
                return bool(qos)
        self.chunks += emit(frames, self._version, qos, packet_id(sequence) if qos else 0)
        return False

    def newly_acknowledged(self) -> int:
        """How far all deliveries are acknowledged, or 0 when that was told before."""
        sequence = self.window.acknowledged
        if sequence == self._told:
            return 0
        self._told = sequence
        return sequence

    def _fitting(self, frames: FrameBodies, qos: int) -> list[int]:
        sizes = frame_sizes(frames, self._version, qos)
        return [i for i, size in enumerate(sizes) if size <= self._size_max]

    def _deliver_some(
        self, frames: FrameBodies, fitting: list[int], qos: int, sequence: int
    ) -> None:
        chosen = set(fitting)
        for index in range(len(frames)):
            if index in chosen:
                number = packet_id(sequence + index) if qos else 0
                self.chunks += emit(frames.select([index]), self._version, qos, number)
            elif qos:
                self.window.settle(sequence + index)


def as_frames(bodies: Bodies) -> FrameBodies:
    """Bodies of any kind as frames."""
    if isinstance(bodies, FrameBodies):
        return bodies
    if isinstance(bodies, PlainBodies):
        return FrameBodies.from_events(bodies.events)
    raise LocalProtocolError(f"{type(bodies).__name__} cannot be written as MQTT")
