"""The load generator: a process of its own that loads a broker with MQTT 5 over raw sockets.

`generate` starts the process and waits for what it measured; `python -m gravitate.bench.load`
is that process, with a `Load` as JSON on standard input. It knows brokers only by their ports,
so every broker is measured alike. Its own share of a processor is part of the result: a figure
taken with a share near one is a figure of the load generator, not of the broker.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from gravitate.bench import load_frames as frames
from gravitate.bench import load_patterns as patterns
from gravitate.bench.load_patterns import Measured
from gravitate.bench.load_sockets import (
    Publisher,
    ReceiveBuffer,
    Subscriber,
    open_client,
    subscribe,
)

PAYLOAD_BYTES = 100
TOPIC = "bench/load"
GRACE_S = 30.0


class Publication(msgspec.Struct, frozen=True):
    """One publication of the ring, and the subscribers (by number) it is due to."""

    properties: dict[str, str]
    due_to: list[int]


class Load(msgspec.Struct, frozen=True):
    """What to do to a broker.

    Without `publications` all are alike and go to every subscriber; with them, they are sent
    over and over in their order, and `conditions` holds one content filter a subscriber."""

    pattern: Literal["stream", "rounds", "paced"]
    port: int
    subscriber_port: int
    host: str = "127.0.0.1"
    qos: int = 0
    publishers: int = 1
    subscribers: int = 1
    window: int = 1000
    rate_per_s: float = 0.0
    warmup_s: float = 0.3
    seconds: float = 1.0
    conditions: list[str] = []
    publications: list[Publication] = []


class LoadError(Exception):
    """The load generator failed; the message is what it said last."""


def generate(load: Load) -> Measured:
    """Run `load` in a process of its own and wait for it, at most a bounded time."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gravitate.bench.load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(
            msgspec.json.encode(load), timeout=load.warmup_s + load.seconds + GRACE_S
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"the load generator did not end in time: {load}") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise LoadError(err.decode(errors="replace").strip()[-2000:])
    return msgspec.json.decode(out, type=Measured)


def check(measured: Measured) -> None:
    """Raise unless everything due was delivered once and in its place."""
    if measured.delivered != measured.expected or measured.misplaced:
        raise LoadError(
            f"{measured.delivered} deliveries of {measured.expected}, "
            f"{measured.misplaced} reads out of place"
        )


def ring_of(load: Load) -> frames.Bytes2D:
    """The packets that a publisher sends over and over; twice the window at least."""
    payload = bytes(PAYLOAD_BYTES)
    if load.publications:
        repeats = -(-2 * load.window // len(load.publications))
        encoded = [
            frames.publish(TOPIC, payload, load.qos, p.properties) for p in load.publications
        ]
        return frames.numbered(encoded * repeats, load.qos)
    count = 2 * load.window if load.pattern == "stream" else 2
    return frames.numbered([frames.publish(TOPIC, payload, load.qos)] * count, load.qos)


def due_of(load: Load) -> Callable[[int], Sequence[int]]:
    """How many deliveries each subscriber is due of the first n publications."""
    if not load.publications:
        return lambda total: [total] * load.subscribers
    matrix = np.zeros((len(load.publications) + 1, load.subscribers), np.int64)
    for row, publication in enumerate(load.publications):
        matrix[row + 1, publication.due_to] = 1
    sums = matrix.cumsum(axis=0)

    def due(total: int) -> Sequence[int]:
        cycles, rest = divmod(total, len(load.publications))
        counts: list[int] = (cycles * sums[-1] + sums[rest]).tolist()
        return counts

    return due


def perform(load: Load) -> Measured:
    """Connect, load and measure, in this process."""
    buffer = ReceiveBuffer()
    ring = ring_of(load)
    ring_rows = len(ring) if load.pattern == "stream" and not load.publications else 0
    subscribers = []
    for number in range(load.subscribers):
        sock = open_client(load.host, load.subscriber_port, f"sub-{number}")
        condition = load.conditions[number] if load.conditions else None
        subscribe(sock, TOPIC, load.qos, condition)
        subscribers.append(Subscriber(sock, load.qos, buffer, ring_rows))
    sockets = [open_client(load.host, load.port, f"pub-{n}") for n in range(load.publishers)]
    if load.pattern == "paced":
        measured = patterns.paced(
            lambda frame: Publisher(sockets[0], frame),
            ring,
            subscribers,
            load.rate_per_s,
            load.warmup_s,
            load.seconds,
        )
    elif load.pattern == "rounds":
        measured = patterns.rounds(
            [Publisher(sock, ring) for sock in sockets],
            subscribers,
            load.qos,
            load.warmup_s,
            load.seconds,
        )
    else:
        measured = patterns.stream(
            Publisher(sockets[0], ring),
            subscribers,
            due_of(load),
            load.qos,
            load.window,
            load.warmup_s,
            load.seconds,
        )
    for sock in (*sockets, *(s.sock for s in subscribers)):
        sock.close()
    return measured


def main() -> None:
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    gc.disable()  # it lives for seconds, and a pause would be taken for the broker's
    sys.stdout.buffer.write(msgspec.json.encode(perform(load)))


if __name__ == "__main__":
    main()
