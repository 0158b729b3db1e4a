"""What links and brokers cost in a simulated world: latency, bandwidth, service time.

Owns formulas only; who waits for whom is the world's business. All times are in seconds and one
way. Every model is deterministic: the same question has the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.broker.inputs import ClientPublished, FrameReceived, Input
from gravitate.broker.messages import Data, Frame, Publications
from gravitate.config.network import Network

FRAME_BYTES = 24
"""What a frame weighs without its messages."""
MESSAGE_BYTES = 96
"""What a control message, or the header of a batch of events, weighs."""


class LatencyModel(Protocol):
    """How long a frame travels between two brokers."""

    def latency_s(self, source: str, target: str) -> float: ...


class ConstantLatency(msgspec.Struct, frozen=True):
    """Every link takes the same time."""

    seconds: float = 0.0

    def latency_s(self, source: str, target: str) -> float:
        return self.seconds


class MatrixLatency:
    """Latencies from a square matrix of round-trip times in milliseconds, as measured sets are.

    `brokers[i]` is the broker of row and column i. One way is half a round trip; where a pair
    was not measured (not a number), the other direction serves, else the median of the matrix.
    """

    def __init__(self, brokers: Sequence[str], rtt_ms: NDArray[np.float64]) -> None:
        if rtt_ms.shape != (len(brokers), len(brokers)):
            raise ValueError(
                f"a latency matrix for {len(brokers)} brokers must be "
                f"{len(brokers)} x {len(brokers)}, not {' x '.join(map(str, rtt_ms.shape))}"
            )
        self._index = {broker: i for i, broker in enumerate(brokers)}
        filled = np.where(np.isnan(rtt_ms), rtt_ms.T, rtt_ms)
        self._rtt_ms = np.where(np.isnan(filled), np.nanmedian(filled), filled)

    def latency_s(self, source: str, target: str) -> float:
        return float(self._rtt_ms[self._index[source], self._index[target]]) / 2000.0


class CoordinateLatency:
    """Latency is the Euclidean distance of the brokers' coordinates, in milliseconds."""

    def __init__(self, coordinates: Mapping[str, Sequence[float]], floor_ms: float = 0.0) -> None:
        self._coordinates = {broker: tuple(place) for broker, place in coordinates.items()}
        self._floor_ms = floor_ms

    def latency_s(self, source: str, target: str) -> float:
        distance_ms = math.dist(self._coordinates[source], self._coordinates[target])
        return max(distance_ms, self._floor_ms) / 1000.0


class NetworkLatency:
    """Latencies as the network file gives them, the same in both directions.

    A link without one takes the distance of the coordinates of its brokers, when both have
    coordinates, else nothing."""

    def __init__(self, network: Network) -> None:
        coordinates = {broker.id: broker.coordinates for broker in network.brokers}
        self._latency_s: dict[tuple[str, str], float] = {}
        for link in network.links:
            a, b = link.between
            latency_ms = link.latency_ms
            if latency_ms == 0.0 and coordinates[a] and coordinates[b]:
                latency_ms = math.dist(coordinates[a], coordinates[b])
            self._latency_s[a, b] = self._latency_s[b, a] = latency_ms / 1000.0

    def latency_s(self, source: str, target: str) -> float:
        return self._latency_s[source, target]


class ServiceModel(msgspec.Struct, frozen=True):
    """How long a broker is busy with a batch of inputs; what arrives meanwhile waits.

    The default takes no time at all, and then nothing ever waits."""

    batch_s: float = 0.0
    input_s: float = 0.0
    event_s: float = 0.0

    def instant(self) -> bool:
        return self.batch_s == self.input_s == self.event_s == 0.0

    def duration_s(self, inputs: Sequence[Input]) -> float:
        duration_s = self.batch_s + self.input_s * len(inputs)
        if self.event_s:
            duration_s += self.event_s * sum(_events(item) for item in inputs)
        return duration_s


def _events(item: Input) -> int:
    if type(item) is FrameReceived and type(item.frame) is Data:
        return sum(
            len(batch)
            for message in item.frame.messages
            if type(message) is Publications
            for batch in message.batches
        )
    if type(item) is ClientPublished:
        return len(item.bodies)
    return 0


def frame_bytes(frame: Frame) -> int:
    """What a frame weighs on a link of limited bandwidth; an estimate, for the codec is not known
    here."""
    weight = FRAME_BYTES
    if type(frame) is Data:
        for message in frame.messages:
            if type(message) is Publications:
                for batch in message.batches:
                    weight += MESSAGE_BYTES + 8 * len(batch) + batch.bodies.size_bytes()
            else:
                weight += MESSAGE_BYTES
    return weight
