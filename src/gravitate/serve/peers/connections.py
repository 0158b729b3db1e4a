"""One connection to a peer broker: bytes in, frames out, and back.

Owns a socket's read and write side: decoding, the first-frame check, batched writes, the
emulated latency and the write buffer. Does not know the broker; `PeerLinks` decides who is let
in and is told every frame. A connection fails by itself: whatever it reads, others go on.

Invariants: frames are written in the order of `send`, with latency emulated or not; nothing is
reported after `closed`; exactly one `closed` follows every connection that was made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

from gravitate.broker.messages.frames import Frame, Hello, Refusal
from gravitate.errors import PeerError
from gravitate.wire.peers import HELLO_BYTES_MAX, Buffer, FrameDecoder, encode

WRITE_BYTES_HIGH = 4 * 1024 * 1024
WRITE_BYTES_LOW = 1024 * 1024
LINGER_S = 1.0
HELLO_EXPECTED = "hello-expected"


class Keeper(Protocol):
    """What a connection reports to."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        """The first frame came; raises `PeerError` to refuse it."""
        ...

    def heard(self, connection: PeerConnection) -> None:
        """Part of a frame came."""
        ...

    def received(self, connection: PeerConnection, frames: list[Frame]) -> None: ...

    def refused(self, connection: PeerConnection, refusal: Refusal) -> None:
        """The peer has told why it is going to close."""
        ...

    def failed(self, connection: PeerConnection, error: PeerError) -> None:
        """The peer broke the protocol; it has been told, the connection is closing."""
        ...

    def connected(self, connection: PeerConnection) -> None: ...

    def closed(self, connection: PeerConnection) -> None: ...


class PeerConnection(asyncio.Protocol):
    """`peer` is known from the start where this side dialled, else from the first frame on."""

    def __init__(self, keeper: Keeper, number: int, peer: str = "") -> None:
        self.number = number
        self.peer = peer
        self.claimed = ""
        self.dialled = bool(peer)
        self.origin = peer or "?"
        self.latency_s = 0.0
        self.incarnation = 0
        self.told_heard_at = 0.0
        self.bytes_in = 0
        self.bytes_out = 0
        self._keeper = keeper
        self._decoder = FrameDecoder(first_bytes_max=HELLO_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[Buffer] = []
        self._held: list[Buffer] = []
        self._delayed: deque[tuple[float, list[Buffer] | None]] = deque()
        self._paused = False
        self._closing = False
        self._loop = asyncio.get_running_loop()

    @property
    def greeted(self) -> bool:
        return self.incarnation > 0

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "not connected"
        return self._transport

    @property
    def queued_bytes(self) -> int:
        """What was sent and has not been taken by the operating system."""
        waiting = sum(map(len, self._held))
        waiting += sum(sum(map(len, buffers)) for _, buffers in self._delayed if buffers)
        transport = self._transport
        return waiting + (transport.get_write_buffer_size() if transport else 0)

    # --- reading --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's without being instances of them.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH, low=WRITE_BYTES_LOW)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.origin = f"{host}:{port}"
        self._keeper.connected(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self.bytes_in += len(data)
        try:
            frames = self._decoder.feed(data)
            if not frames:
                if self.greeted:
                    self._keeper.heard(self)
                return
            if not self.greeted:
                frames = self._greet(frames)
            elif any(type(frame) is Hello for frame in frames):
                raise PeerError(HELLO_EXPECTED, "a second hello on one connection")
        except PeerError as error:
            self.fail(error)
            return
        last = frames[-1] if frames else None
        if type(last) is Refusal and not self.peer:
            self._keeper.refused(self, last)
            self.close()
        elif frames:
            self._keeper.received(self, frames)

    def _greet(self, frames: list[Frame]) -> list[Frame]:
        first = frames[0]
        if type(first) is Refusal:
            return frames[:1]
        if type(first) is not Hello:
            raise PeerError(HELLO_EXPECTED, f"the first frame is {type(first).__name__}")
        self.claimed = first.broker
        self._keeper.greeted(self, first)
        if self._closing:
            return []
        self.incarnation = first.incarnation
        return frames

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._transport = None
        self._delayed.clear()
        self._held.clear()
        self._out.clear()
        self._keeper.closed(self)

    # --- writing --------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Written with everything else sent until `flush`."""
        if self._closing:
            return
        self._out += encode(frame)

    def flush(self) -> None:
        if not self._out:
            return
        buffers, self._out = self._out, []
        if self.latency_s or self._delayed:
            self._delay(buffers)
        else:
            self._write(buffers)

    def _write(self, buffers: list[Buffer]) -> None:
        if self._transport is None:
            return
        if self._paused:
            self._held += buffers
            return
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        self.bytes_out += len(data)
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._held:
            held, self._held = self._held, []
            self._write(held)

    # --- emulated latency -----------------------------------------------------------------------

    def _delay(self, buffers: list[Buffer] | None) -> None:
        self._delayed.append((self._loop.time() + self.latency_s, buffers))
        if len(self._delayed) == 1:
            self._loop.call_at(self._delayed[0][0], self._release)

    def _release(self) -> None:
        delayed = self._delayed
        # The loop's clock ticks in milliseconds: half of one early is on time.
        due = self._loop.time() + 0.0005
        while delayed and delayed[0][0] <= due:
            _, buffers = delayed.popleft()
            if buffers is None:
                self._shut()
                return
            self._write(buffers)
        if delayed:
            self._loop.call_at(delayed[0][0], self._release)

    # --- closing --------------------------------------------------------------------------------

    def fail(self, error: PeerError) -> None:
        """Tell the peer what it did and close."""
        self._keeper.failed(self, error)
        self.send(Refusal(error.name, str(error)))
        self.close()

    def close(self) -> None:
        """Close once everything sent so far is written."""
        if self._closing:
            return
        self.flush()
        self._closing = True
        # A peer that does not read must not keep the connection for ever.
        self._loop.call_later(self.latency_s + LINGER_S, self.abort)
        if self._delayed:
            self._delay(None)
        else:
            self._shut()

    def abort(self) -> None:
        """Close now, whatever is still to be written."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _shut(self) -> None:
        if self._transport is not None:
            if self._held:
                self._transport.write(b"".join(self._held))
                self._held.clear()
            self._transport.close()
