"""The load generator counts exactly what a broker delivers, and notices what it should not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from gravitate.bench import load_patterns
from gravitate.bench.load import (
    Load,
    LoadError,
    Publication,
    check,
    due_of,
    generate,
    perform,
    ring_of,
)
from gravitate.bench.load_frames import packet_id_offset, packet_size

SHORT: dict[str, Any] = {"warmup_s": 0.05, "seconds": 0.1}


EchoBrokers = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def broker(echo_broker: EchoBrokers) -> Iterator[Any]:
    with echo_broker() as running:
        yield running


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("subscribers", [1, 3])
def test_a_stream_counts_every_delivery(broker: Any, qos: int, subscribers: int) -> None:
    measured = perform(
        Load(
            "stream", broker.port, broker.port, qos=qos, subscribers=subscribers, window=64, **SHORT
        )
    )
    assert measured.published > 0
    assert measured.delivered == measured.expected == subscribers * measured.published
    assert measured.misplaced == 0
    check(measured)


def test_subscribers_acknowledge_the_packet_ids_they_were_sent(broker: Any) -> None:
    measured = perform(Load("stream", broker.port, broker.port, qos=1, window=16, **SHORT))
    acknowledged = [ids for c in broker.connections if (ids := c.acknowledged)]
    assert len(acknowledged) == 1
    ring = [row % 32 + 1 for row in range(measured.published)]
    assert acknowledged[0] == ring[: len(acknowledged[0])]


@pytest.mark.parametrize("qos", [0, 1])
def test_rounds_end_when_everything_has_arrived(broker: Any, qos: int) -> None:
    measured = perform(Load("rounds", broker.port, broker.port, qos=qos, publishers=5, **SHORT))
    assert measured.published > 0
    assert measured.published % 5 == 0
    assert measured.delivered == measured.expected == measured.published


def test_a_paced_flow_has_a_delay_for_every_measured_delivery(broker: Any) -> None:
    measured = perform(
        Load("paced", broker.port, broker.port, subscribers=2, rate_per_s=500, **SHORT)
    )
    assert measured.delivered == measured.expected == 2 * measured.published
    assert 0 < len(measured.delays_ms) <= measured.delivered
    assert min(measured.delays_ms) > 0


def test_a_process_of_its_own_reports_what_it_measured(broker: Any) -> None:
    measured = generate(Load("stream", broker.port, broker.port, window=16, **SHORT))
    assert measured.delivered == measured.expected > 0
    assert measured.load_cpu_share > 0


def test_a_port_nobody_listens_on_is_an_error() -> None:
    with pytest.raises(LoadError, match="refused"):
        generate(Load("stream", 1, 1))


@pytest.mark.parametrize(
    "spoil", [lambda packet: [], lambda packet: [packet, packet]], ids=["lost", "doubled"]
)
def test_lost_and_doubled_deliveries_are_an_error(
    spoil: Callable[[bytes], list[bytes]],
    echo_broker: EchoBrokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_patterns, "DRAIN_S_MAX", 0.05)
    spoiled = 0

    def once(packet: bytes) -> list[bytes]:
        nonlocal spoiled
        spoiled += 1
        return spoil(packet) if spoiled == 5 else [packet]

    with echo_broker(once) as broker:
        measured = perform(Load("stream", broker.port, broker.port, window=16, **SHORT))
    with pytest.raises(LoadError, match="deliveries of"):
        check(measured)


def test_deliveries_out_of_order_are_noticed(echo_broker: EchoBrokers) -> None:
    held: list[bytes] = []

    def swapped(packet: bytes) -> list[bytes]:
        held.append(packet)
        return [held.pop(), held.pop()] if len(held) == 2 else []

    with echo_broker(swapped) as broker:
        measured = perform(Load("stream", broker.port, broker.port, window=16, **SHORT))
    assert measured.delivered == measured.expected
    assert measured.misplaced > 0


def test_what_is_due_follows_the_publications_round_and_round() -> None:
    publications = [Publication({"n": "0"}, [0]), Publication({"n": "1"}, [0, 1])]
    load = Load("stream", 0, 0, subscribers=2, window=3, publications=publications)
    due = due_of(load)
    assert [list(due(n)) for n in range(5)] == [[0, 0], [1, 0], [2, 1], [3, 1], [4, 2]]
    ring = ring_of(load)
    assert len(ring) % 2 == 0
    assert len(ring) >= 6


def test_packets_of_a_ring_are_numbered() -> None:
    ring = ring_of(Load("stream", 0, 0, qos=1, window=4))
    packets = [bytes(row) for row in ring]
    at = packet_id_offset(packets[0])
    assert [int.from_bytes(p[at : at + 2], "big") for p in packets] == list(range(1, 9))
    assert [int.from_bytes(p[-8:-4], "big") for p in packets] == list(range(8))
    assert {packet_size(p) for p in packets} == {len(packets[0])}
