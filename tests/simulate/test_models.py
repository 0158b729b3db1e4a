"""Weight and service time follow their formulas."""

from __future__ import annotations

import pytest

from gravitate.broker.interface.inputs import ClientPublished, FrameReceived, TimerFired
from gravitate.broker.interface.timers import StopLate
from gravitate.broker.messages.frames import Data, Publications, Settled
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.simulate.models import ServiceModel, frame_bytes
from tests.support.wired import at

EVENTS = PlainBodies([Event({"x": 1}, b"12345678") for _ in range(3)])


def test_service_time_counts_batches_inputs_and_events() -> None:
    model = ServiceModel(batch_s=1.0, input_s=0.1, event_s=0.01)
    batch = Batch("p", 1, range(1, 4), EVENTS)
    inputs = [
        FrameReceived("a", 1, Data(1, 0, [Publications([batch]), Settled(1)])),
        ClientPublished(at("p"), EVENTS),
        TimerFired(StopLate(), 0.0),
    ]
    assert model.duration_s(inputs) == pytest.approx(1.0 + 3 * 0.1 + 6 * 0.01)
    assert ServiceModel().instant()
    assert not model.instant()


def test_frames_weigh_what_their_events_and_messages_weigh() -> None:
    batch = Batch("p", 1, range(1, 4), EVENTS)
    empty = frame_bytes(Data(1, 0, []))
    assert frame_bytes(Data(1, 0, [Settled(1)])) > empty
    assert frame_bytes(Data(1, 0, [Publications([batch])])) > empty + EVENTS.size_bytes()
