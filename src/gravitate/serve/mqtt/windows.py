"""What is under way between a client and its session at QoS 1, in both directions.

Inbound, the PUBACKs are written down when publications come in and handed out, in order, as the
broker accepts them. Outbound, packet ids follow the session's sequence numbers, PUBACKs may come
in any order, and the broker is told how far everything is acknowledged without a gap.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt.emit import PACKET_IDS
from gravitate.wire.mqtt.scan import Frames


class AcceptQueue:
    """PUBACKs that the client is owed once its publications are accepted."""

    __slots__ = ("_chunks", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        """Publications that have not been accepted."""
        self._chunks: deque[bytes] = deque()

    def received(self, frames: Frames) -> None:
        """Publications at QoS 1 came in."""
        count = len(frames)
        if not isinstance(frames, list):
            out = np.empty(4 * count, dtype=np.uint8)
            k.write_pubacks(frames, out)
            self._chunks.append(out.tobytes())
        elif count == 1:
            self._chunks.append((0x4002_0000 | frames[0][7]).to_bytes(4, "big"))
        else:
            acks = [(0x4002_0000 | row[7]).to_bytes(4, "big") for row in frames]
            self._chunks.append(b"".join(acks))
        self.waiting += count

    def accepted(self, count: int) -> list[bytes]:
        """The PUBACKs of the next `count` publications."""
        self.waiting -= count
        assert self.waiting >= 0, "more publications accepted than came in"
        chunks = self._chunks
        size = 4 * count
        out: list[bytes] = []
        while size:
            chunk = chunks[0]
            if len(chunk) <= size:
                chunks.popleft()
            else:
                chunks[0] = chunk[size:]
                chunk = chunk[:size]
            out.append(chunk)
            size -= len(chunk)
        return out


class DeliveryWindow:
    """Deliveries at QoS 1 and their acknowledgements.

    Invariant: everything up to `acknowledged` is, `acknowledged + 1` is not."""

    __slots__ = ("_early", "acknowledged", "delivered")

    def __init__(self) -> None:
        self.acknowledged = 0
        self.delivered = 0
        self._early: set[int] = set()

    def settle_frames(self, frames: Frames) -> None:
        """A run of PUBACKs came in."""
        start = 0
        if not isinstance(frames, list):
            if not self._early:
                start = k.acknowledged_in_order(frames, self.acknowledged % PACKET_IDS + 1)
                start = min(start, self.delivered - self.acknowledged)
                self.acknowledged += start
            for packet_id in frames[start:, k.PACKET_ID].tolist():
                self.settle_packet(packet_id)
        else:
            for row in frames:
                self.settle_packet(row[7])

    def settle_packet(self, packet_id: int) -> None:
        """One PUBACK; an id that is not under way changes nothing."""
        ahead = (packet_id - 1 - self.acknowledged) % PACKET_IDS
        self.settle(self.acknowledged + 1 + ahead)

    def settle(self, sequence: int) -> None:
        """The delivery needs no acknowledgement any more."""
        if sequence > self.delivered:
            return
        if sequence != self.acknowledged + 1:
            self._early.add(sequence)
            return
        early = self._early
        while sequence + 1 in early:
            sequence += 1
            early.remove(sequence)
        self.acknowledged = sequence
