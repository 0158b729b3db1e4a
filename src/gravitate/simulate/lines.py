"""Links of a simulated world: lines that can be cut, and the connections that run over them.

Owns what is in flight between two brokers: latency, bandwidth with its queue, first-in first-out
order, and what becomes of frames when a connection ends. It does not know brokers beyond their
hosts' names, nor when anything is delivered: the world asks for an arrival time and schedules.

Invariants: frames of one direction of a connection never overtake each other, whatever happens to
the line's latency; a pipe that was closed never opens again.
"""

from __future__ import annotations

from gravitate.broker.messages.frames import Frame
from gravitate.simulate.models import frame_bytes
from gravitate.wire.peers import FrameDecoder, encode


class Line:
    """One link of the overlay: what it costs now, and whether it can be used."""

    __slots__ = ("a", "b", "bandwidth_bytes_per_s", "extra_s", "latency_s", "pipes", "up")

    def __init__(
        self, a: str, b: str, latency_s: float, bandwidth_bytes_per_s: float = 0.0
    ) -> None:
        self.a = a
        self.b = b
        self.latency_s = latency_s
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.extra_s = 0.0
        self.up = True
        self.pipes: list[Pipe] = []
        """Both directions of every connection that has not been closed."""

    def delay_s(self) -> float:
        return self.latency_s + self.extra_s


class Pipe:
    """One direction of one connection."""

    __slots__ = ("_free_at", "_last_arrival", "line", "number", "open", "source", "target", "twin")

    def __init__(self, line: Line, number: int, source: str, target: str) -> None:
        self.line = line
        self.number = number
        self.source = source
        self.target = target
        self.open = True
        """Whether what arrives is still received."""
        self.twin: Pipe = self
        self._free_at = 0.0
        self._last_arrival = 0.0

    def arrival(self, frame: Frame | None, now: float) -> float:
        """When a frame sent now arrives; None is the end of the stream, which weighs nothing."""
        line = self.line
        arrival = now + line.latency_s + line.extra_s
        if line.bandwidth_bytes_per_s and frame is not None:
            start = self._free_at if self._free_at > now else now
            self._free_at = start + frame_bytes(frame) / line.bandwidth_bytes_per_s
            arrival += self._free_at - now
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        return arrival


def connect(line: Line, number: int, source: str, target: str) -> tuple[Pipe, Pipe]:
    """A new connection over `line`: the pipe from `source` and the one back."""
    there = Pipe(line, number, source, target)
    back = Pipe(line, number, target, source)
    there.twin, back.twin = back, there
    line.pipes += (there, back)
    return there, back


def as_sent(frame: Frame) -> list[Frame]:
    """A frame as it is read at the other end of a socket; one that is large, in several."""
    return FrameDecoder().feed(b"".join(map(bytes, encode(frame))))


def disconnect(pipe: Pipe) -> None:
    """Both directions receive nothing more, and what is in flight is lost."""
    pipe.open = pipe.twin.open = False
    pipe.line.pipes = [p for p in pipe.line.pipes if p is not pipe and p is not pipe.twin]
