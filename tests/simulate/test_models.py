"""Latency, bandwidth and service time follow their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from gravitate.broker.inputs import ClientPublished, FrameReceived, TimerFired
from gravitate.broker.messages import Data, Publications, Settled
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.simulate.models import (
    ConstantLatency,
    CoordinateLatency,
    MatrixLatency,
    NetworkLatency,
    ServiceModel,
    frame_bytes,
)

EVENTS = PlainBodies([Event({"x": 1}, b"12345678") for _ in range(3)])


def test_constant_latency_is_the_same_everywhere() -> None:
    assert ConstantLatency(0.25).latency_s("a", "b") == 0.25


def test_matrix_latency_is_half_a_round_trip_and_fills_holes_from_the_other_direction() -> None:
    nan = float("nan")
    model = MatrixLatency(["a", "b", "c"], np.array([[0, 80, nan], [60, 0, nan], [10, nan, 0]]))
    assert model.latency_s("a", "b") == pytest.approx(0.040)
    assert model.latency_s("b", "a") == pytest.approx(0.030)
    assert model.latency_s("a", "c") == pytest.approx(0.005)
    assert model.latency_s("b", "c") > 0, "nobody measured it: the median serves"


def test_a_matrix_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="2 x 2, not 1 x 1"):
        MatrixLatency(["a", "b"], np.zeros((1, 1)))


def test_coordinates_give_distances_in_milliseconds_above_a_floor() -> None:
    model = CoordinateLatency({"a": (0, 0), "b": (30, 40), "c": (0, 0)}, floor_ms=2.0)
    assert model.latency_s("a", "b") == pytest.approx(0.050)
    assert model.latency_s("a", "c") == pytest.approx(0.002)


def test_a_network_gives_its_latencies_and_distances_where_it_has_none() -> None:
    network = Network(
        name="n",
        brokers=(
            BrokerSpec("a", coordinates=(0.0, 0.0)),
            BrokerSpec("b", coordinates=(3.0, 4.0)),
            BrokerSpec("c"),
        ),
        links=(LinkSpec(("a", "b")), LinkSpec(("b", "c"), latency_ms=7.0)),
    )
    model = NetworkLatency(network)
    assert model.latency_s("b", "a") == pytest.approx(0.005)
    assert model.latency_s("c", "b") == pytest.approx(0.007)


def test_service_time_counts_batches_inputs_and_events() -> None:
    model = ServiceModel(batch_s=1.0, input_s=0.1, event_s=0.01)
    batch = Batch("p", 1, range(1, 4), EVENTS)
    inputs = [
        FrameReceived("a", 1, Data(1, 0, [Publications([batch]), Settled(1)])),
        ClientPublished("p", EVENTS),
        TimerFired("t"),
    ]
    assert model.duration_s(inputs) == pytest.approx(1.0 + 3 * 0.1 + 6 * 0.01)
    assert ServiceModel().instant()
    assert not model.instant()


def test_frames_weigh_what_their_events_and_messages_weigh() -> None:
    batch = Batch("p", 1, range(1, 4), EVENTS)
    empty = frame_bytes(Data(1, 0, []))
    assert frame_bytes(Data(1, 0, [Settled(1)])) > empty
    assert frame_bytes(Data(1, 0, [Publications([batch])])) > empty + EVENTS.size_bytes()
