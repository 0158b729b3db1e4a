"""Non-blocking MQTT clients of a load generator: they count packets, they do not parse them.

After the handshake every packet in one direction has the same size, so what was received is
reshaped to one packet a row: counting is a division and packet ids are two columns. Nothing
here knows patterns of load or clocks.
"""

from __future__ import annotations

import socket
import struct

import numpy as np

from gravitate.bench import load_frames as frames

RECEIVE_BUFFER_BYTES = 1 << 20
HANDSHAKE_S_MAX = 10.0
WAIT_US = 50_000
STAMP = slice(-16, -8)
"""Where in a packet the time stamp of paced loads stands, in nanoseconds, big-endian."""


class HandshakeError(Exception):
    """The broker did not answer CONNECT or SUBSCRIBE as it should."""


def _read_packet(sock: socket.socket) -> bytes:
    data = b""
    while (size := frames.packet_size(data)) is None or len(data) < size:
        wanted = 1 if size is None else size - len(data)
        piece = sock.recv(wanted)
        if not piece:
            raise HandshakeError(f"the broker closed the connection after {data!r}")
        data += piece
    return data


def open_client(host: str, port: int, client: str) -> socket.socket:
    """A connected and accepted client, still blocking."""
    sock = socket.create_connection((host, port), timeout=HANDSHAKE_S_MAX)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(frames.connect(client))
    answer = _read_packet(sock)
    if answer[0] != frames.CONNACK or answer[3] != 0:
        raise HandshakeError(f"CONNECT of {client} was answered with {answer!r}")
    return sock


def subscribe(sock: socket.socket, topic_filter: str, qos: int, condition: str | None) -> None:
    """Subscribe and wait for the acknowledgement."""
    sock.sendall(frames.subscribe(topic_filter, qos, condition))
    answer = _read_packet(sock)
    if answer[0] != frames.SUBACK or answer[-1] != qos:
        raise HandshakeError(f"SUBSCRIBE to {topic_filter} was answered with {answer!r}")


class _Outgoing:
    """Bytes that a full socket did not take yet."""

    __slots__ = ("pending", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pending = b""

    def write(self, data: bytes) -> None:
        if self.pending:
            data = self.pending + data
        try:
            taken = self.sock.send(data)
        except BlockingIOError:
            taken = 0
        self.pending = data[taken:]


class ReceiveBuffer:
    """One buffer for all subscribers of a process, so that it stays in the processor's cache."""

    __slots__ = ("array", "view")

    def __init__(self) -> None:
        self.array = np.empty(RECEIVE_BUFFER_BYTES, np.uint8)
        self.view = self.array.data


class Subscriber:
    """Counts deliveries, acknowledges them at QoS 1, and keeps their time stamps when asked to.

    With `ring_rows` it is due every row of the publisher's ring in turn, and `misplaced` counts
    the reads that ended with another row than they should: loss, duplicates or disorder."""

    __slots__ = (
        "_acks",
        "_buffer",
        "_id_at",
        "_outgoing",
        "_rest",
        "_ring_rows",
        "_size",
        "_waits",
        "misplaced",
        "received",
        "sock",
        "stamps",
    )

    def __init__(
        self, sock: socket.socket, qos: int, buffer: ReceiveBuffer, ring_rows: int = 0
    ) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.received = 0
        self.misplaced = 0
        self._ring_rows = ring_rows
        self.stamps: list[int] | None = None
        self._buffer = buffer
        self._rest = b""
        self._size = 0
        self._waits = False
        self._id_at = -1
        self._outgoing = _Outgoing(sock)
        self._acks = np.zeros((1 if qos else 0, frames.PUBACK_BYTES), np.uint8)

    def _learn_size(self, head: bytes) -> bool:
        size = frames.packet_size(head)
        if size is None or len(head) < size:
            return False
        if head[0] & 0xF0 != frames.PUBLISH:
            raise HandshakeError(f"expected a PUBLISH, got {head[:16]!r}")
        self._size = size
        if len(self._acks):
            self._id_at = frames.packet_id_offset(head)
            self._acks = np.zeros((RECEIVE_BUFFER_BYTES // size + 1, frames.PUBACK_BYTES), np.uint8)
            self._acks[:, 0] = frames.PUBACK
            self._acks[:, 1] = 2
        return True

    def wait_for(self, packets: int) -> int:
        """Take so many deliveries, or what has arrived after a while; how many were completed.

        Waits in the operating system, which copies what arrives without waking the process."""
        if not self._waits:
            self._waits = True
            wait = struct.pack("@ll", 0, WAIT_US)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        self.sock.setblocking(True)
        try:
            if not self._size:
                return self.read()
            return self.read(packets * self._size - len(self._rest), socket.MSG_WAITALL)
        finally:
            self.sock.setblocking(False)

    def read(self, bytes_max: int = 0, flags: int = 0) -> int:
        """Take what has arrived; returns how many deliveries were completed by it."""
        view, rest = self._buffer.view, self._rest
        before = len(rest)
        try:
            got = self.sock.recv_into(view[before:], bytes_max, flags)
        except BlockingIOError:
            return 0
        if not got:
            raise HandshakeError("the broker closed a subscriber's connection")
        if before:
            view[:before] = rest
        filled = before + got
        if not self._size and not self._learn_size(bytes(view[: min(filled, 4096)])):
            self._rest = bytes(view[:filled])
            return 0
        size = self._size
        count = filled // size
        used = count * size
        self._rest = bytes(view[used:filled]) if used < filled else b""
        if not count:
            return 0
        self.received += count
        if self._ring_rows:
            row = int.from_bytes(view[used - 8 : used - 4], "big")
            self.misplaced += row != (self.received - 1) % self._ring_rows
        if len(self._acks) or self.stamps is not None:
            self._look_into(self._buffer.array[:used].reshape(count, size))
        return count

    def _look_into(self, rows: frames.Bytes2D) -> None:
        if len(self._acks):
            acks = self._acks[: len(rows)]
            acks[:, 2:] = rows[:, self._id_at : self._id_at + 2]
            self._outgoing.write(acks.tobytes())
        if self.stamps is not None:
            stamps = np.ascontiguousarray(rows[:, STAMP]).view(">u8")
            self.stamps.extend(stamps.reshape(-1).tolist())

    def flush(self) -> None:
        """Write acknowledgements that the socket did not take before."""
        if self._outgoing.pending:
            self._outgoing.write(b"")


class Publisher:
    """Sends rows of a ring of encoded packets, and counts acknowledgements at QoS 1."""

    __slots__ = (
        "_ack_bytes",
        "_ack_size",
        "_acks",
        "_ring",
        "_ring_bytes",
        "_sent_bytes",
        "_size",
        "acknowledged",
        "sock",
    )

    def __init__(self, sock: socket.socket, ring: frames.Bytes2D) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.acknowledged = 0
        self._ring = ring.reshape(-1).data
        self._ring_bytes = int(ring.size)
        self._size = int(ring.shape[1])
        self._sent_bytes = 0
        self._ack_bytes = 0
        self._ack_size = 0
        self._acks = bytearray(1 << 18)

    @property
    def published(self) -> int:
        """Packets of which at least the first byte was written."""
        return -(-self._sent_bytes // self._size)

    @property
    def mid_packet(self) -> bool:
        return self._sent_bytes % self._size != 0

    def send_up_to(self, total: int) -> None:
        """Write until `total` packets have been sent since the beginning, or the socket is full."""
        target = total * self._size
        while self._sent_bytes < target:
            start = self._sent_bytes % self._ring_bytes
            stop = min(self._ring_bytes, start + target - self._sent_bytes)
            try:
                taken = self.sock.send(self._ring[start:stop])
            except BlockingIOError:
                return
            self._sent_bytes += taken
            if taken < stop - start:
                return

    def read(self) -> int:
        """Count acknowledgements; returns how many arrived."""
        try:
            got = self.sock.recv_into(self._acks)
        except BlockingIOError:
            return 0
        if not got:
            raise HandshakeError("the broker closed a publisher's connection")
        if not self._ack_size:
            self._ack_size = 2 + self._acks[1]
        self._ack_bytes += got
        before = self.acknowledged
        self.acknowledged = self._ack_bytes // self._ack_size
        return self.acknowledged - before
