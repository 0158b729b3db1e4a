"""What brokers and frames cost in a simulated world: service time, weight on a link.

Owns formulas only; who waits for whom is the world's business, and what a link's latency is the
network's. Every model is deterministic: the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gravitate.broker.interface.inputs import ClientPublished, FrameReceived, Input
from gravitate.broker.messages.frames import Carrying, Data, Frame
from gravitate.config.script import ServiceTimes

FRAME_BYTES = 24
"""What a frame weighs without its messages."""
MESSAGE_BYTES = 96
"""What a control message, or the header of a batch of events, weighs."""


class ServiceModel(msgspec.Struct, frozen=True):
    """How long a broker is busy with a batch of inputs; what arrives meanwhile waits.

    The default takes no time at all, and then nothing ever waits."""

    batch_s: float = 0.0
    input_s: float = 0.0
    event_s: float = 0.0

    @classmethod
    def of(cls, times: ServiceTimes) -> ServiceModel:
        return cls(times.batch_ms / 1000, times.input_ms / 1000, times.event_ms / 1000)

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
            if isinstance(message, Carrying)
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
            if isinstance(message, Carrying):
                for batch in message.batches:
                    weight += MESSAGE_BYTES + 8 * len(batch) + batch.bodies.size_bytes()
            else:
                weight += MESSAGE_BYTES
    return weight
