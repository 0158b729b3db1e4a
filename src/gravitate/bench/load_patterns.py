"""Patterns of load: a stream within a window, rounds, and a paced flow for delays.

All are bounded in time, and none sends more than the broker has shown to digest, the paced one
excepted, whose rate is fixed. `stream` lets at most `window` publications be outstanding,
counted at the slowest subscriber (and by PUBACK at QoS 1); `rounds` lets every publisher send
one and waits until all have arrived and are acknowledged; `paced` sends at a constant rate,
whatever comes back, and measures each delivery from the moment before its write.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from gravitate.bench.load_frames import Bytes2D
from gravitate.bench.load_sockets import STAMP, Publisher, Subscriber

DRAIN_S_MAX = 5.0
WAIT_S = 0.05
PACKETS_PER_READ_MIN = 16
GATHER_S = 0.0005
"""A stream whose reads bring few packets waits this long for more: a broker that writes one by
one would otherwise be limited by how fast the load generator can wake up. The window covers it.
"""


class Measured(msgspec.Struct, frozen=True):
    """What one run measured; rates are taken between the end of the warm-up and the stop."""

    published_per_s: float
    delivered_per_s: float
    published: int
    delivered: int
    expected: int
    """Deliveries due for everything published, warm-up and drain included."""
    misplaced: int
    """Reads that showed loss, duplicates or disorder."""
    load_cpu_share: float
    """Processor time of the load generator over wall-clock time, of the measured part."""
    delays_ms: list[float] = []


class _Meter:
    """Marks the end of the warm-up and of the measured part."""

    def __init__(self, warmup_s: float, seconds: float) -> None:
        self.begin = time.monotonic() + warmup_s
        self.end = self.begin + seconds
        self._marks: list[tuple[float, float, int]] = []

    def mark(self, subscribers: Sequence[Subscriber]) -> None:
        delivered = sum(subscriber.received for subscriber in subscribers)
        self._marks.append((time.monotonic(), time.process_time(), delivered))

    @property
    def warm(self) -> bool:
        return bool(self._marks)

    def measured(
        self,
        published: int,
        expected: int,
        subscribers: Sequence[Subscriber],
        delays_ms: list[float] | None = None,
    ) -> Measured:
        """The publication rate follows from the deliveries: those are counted as they arrive."""
        (t0, cpu0, delivered0), (t1, cpu1, delivered1) = self._marks
        delivered_per_s = (delivered1 - delivered0) / (t1 - t0)
        return Measured(
            published_per_s=delivered_per_s * published / max(1, expected),
            delivered_per_s=delivered_per_s,
            published=published,
            delivered=sum(subscriber.received for subscriber in subscribers),
            expected=expected,
            misplaced=sum(subscriber.misplaced for subscriber in subscribers),
            load_cpu_share=(cpu1 - cpu0) / (t1 - t0),
            delays_ms=delays_ms or [],
        )


def _reader(
    publishers: Sequence[Publisher], subscribers: Sequence[Subscriber]
) -> tuple[select.epoll, dict[int, Callable[[], int]]]:
    poll = select.epoll()
    readers: dict[int, Callable[[], int]] = {}
    clients: list[Publisher | Subscriber] = [*publishers, *subscribers]
    for client in clients:
        poll.register(client.sock.fileno(), select.EPOLLIN)
        readers[client.sock.fileno()] = client.read
    return poll, readers


def stream(
    publisher: Publisher,
    subscribers: Sequence[Subscriber],
    due: Callable[[int], Sequence[int]],
    qos: int,
    window: int,
    warmup_s: float,
    seconds: float,
) -> Measured:
    """Publish as fast as deliveries come back.

    `due(n)` tells how many deliveries each subscriber should have had of the first n
    publications; it must grow with n."""
    poll, readers = _reader([publisher], subscribers)
    meter = _Meter(warmup_s, seconds)
    progress = _Progress(subscribers, due)
    chunk = max(1, window // 4)
    goal = 0
    stopping = False
    while True:
        now = time.monotonic()
        done = progress.done(goal)
        if qos:
            done = min(done, publisher.acknowledged)
        if not meter.warm and now >= meter.begin:
            meter.mark(subscribers)
        elif not stopping and now >= meter.end:
            meter.mark(subscribers)
            stopping = True
        if stopping and (done >= goal or now >= meter.end + DRAIN_S_MAX):
            break
        if not stopping and goal + chunk <= done + window:
            goal += (done + window - goal) // chunk * chunk
        publisher.send_up_to(goal)
        for subscriber in subscribers:
            subscriber.flush()
        blocked = publisher.published < goal or publisher.mid_packet
        ready = poll.poll(0.001 if blocked else WAIT_S)
        packets = 0
        for descriptor, _ in ready:
            packets += readers[descriptor]()
        if packets < PACKETS_PER_READ_MIN * len(ready):
            time.sleep(GATHER_S)
    poll.close()
    return meter.measured(goal, sum(due(goal)), subscribers)


class _Progress:
    """How many publications have reached everyone they were due to."""

    def __init__(
        self, subscribers: Sequence[Subscriber], due: Callable[[int], Sequence[int]]
    ) -> None:
        self._subscribers = subscribers
        self._due = due
        self._steps: list[tuple[int, Sequence[int]]] = []
        self._done = 0

    def done(self, goal: int) -> int:
        """Publications known to be complete; `goal` is how many have been asked for so far."""
        steps = self._steps
        last = steps[-1][0] if steps else self._done
        if goal > last:
            steps.append((goal, self._due(goal)))
        counts = [s.received for s in self._subscribers]
        while steps:
            total, wanted = steps[0]
            if all(have >= want for have, want in zip(counts, wanted, strict=True)):
                self._done = total
                steps.pop(0)
            else:
                break
        return self._done


def rounds(
    publishers: Sequence[Publisher],
    subscribers: Sequence[Subscriber],
    qos: int,
    warmup_s: float,
    seconds: float,
) -> Measured:
    """Every publisher sends one, the next round begins when all have arrived.

    The load generator waits for all of them at once: a broker that writes one by one would
    otherwise keep it busy with waking up."""
    meter = _Meter(warmup_s, seconds)
    give_up_at = meter.end + DRAIN_S_MAX
    number = 0
    while True:
        now = time.monotonic()
        if not meter.warm and now >= meter.begin:
            meter.mark(subscribers)
        elif now >= meter.end:
            meter.mark(subscribers)
            break
        number += 1
        for publisher in publishers:
            publisher.send_up_to(number)
        wanted = number * len(publishers)
        for subscriber in subscribers:
            while subscriber.received < wanted and time.monotonic() < give_up_at:
                subscriber.wait_for(wanted - subscriber.received)
        for publisher in publishers if qos else ():
            while publisher.acknowledged < number and time.monotonic() < give_up_at:
                if not publisher.read():
                    select.select([publisher.sock], [], [], WAIT_S)
    published = number * len(publishers)
    return meter.measured(published, published * len(subscribers), subscribers)


def paced(
    publisher_of: Callable[[Bytes2D], Publisher],
    frame: Bytes2D,
    subscribers: Sequence[Subscriber],
    rate_per_s: float,
    warmup_s: float,
    seconds: float,
) -> Measured:
    """Publish at a constant rate and collect the delay of every delivery."""
    frame = frame[:1].copy()
    publisher = publisher_of(frame)
    by_descriptor = {s.sock.fileno(): s for s in subscribers}
    poll, _ = _reader([publisher], subscribers)
    meter = _Meter(warmup_s, seconds)
    clock = time.monotonic_ns
    delays_ms: list[float] = []
    due = time.monotonic()
    published = delivered = 0
    for subscriber in subscribers:
        subscriber.stamps = []
    while True:
        now = time.monotonic()
        if not meter.warm and now >= meter.begin:
            meter.mark(subscribers)
            delays_ms.clear()
        elif now >= meter.end and delivered < published * len(subscribers):
            due = meter.end + DRAIN_S_MAX
            if now >= due:
                meter.mark(subscribers)
                break
        elif now >= meter.end:
            meter.mark(subscribers)
            break
        if now >= due and now < meter.end:
            frame[0, STAMP] = np.array([clock()], ">u8").view(np.uint8)
            published += 1
            publisher.send_up_to(published)
            due += 1.0 / rate_per_s
            continue
        # select, because epoll in Python rounds its timeout up to whole milliseconds.
        select.select([poll], [], [], max(0.0, due - now))
        for descriptor, _ in poll.poll(0):
            receiver = by_descriptor.get(descriptor)
            if receiver is None:
                publisher.read()
                continue
            delivered += receiver.read()
            arrived = clock()
            assert receiver.stamps is not None
            delays_ms.extend((arrived - stamp) / 1e6 for stamp in receiver.stamps)
            receiver.stamps.clear()
    poll.close()
    return meter.measured(published, published * len(subscribers), subscribers, delays_ms)
