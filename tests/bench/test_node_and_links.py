"""What `bench node` and `bench links` report, and that they leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gravitate.bench import links, load_brokers, node
from gravitate.bench.load import LoadError, check
from gravitate.bench.load_patterns import Measured
from gravitate.errors import InputError
from gravitate.model.events import TOPIC
from gravitate.model.language import parse
from gravitate.model.semantics import matches
from gravitate.serve.ports import free_ports


def measured(delivered_per_s: float = 100.0, delays_ms: list[float] | None = None) -> Measured:
    return Measured(
        published_per_s=delivered_per_s / 2,
        delivered_per_s=delivered_per_s,
        published=50,
        delivered=100,
        expected=100,
        misplaced=0,
        load_cpu_share=0.25,
        delays_ms=delays_ms or [],
    )


def case(name: str) -> node.Case:
    return next(case for case in node.all_cases() if case.name == name)


def test_conditions_are_distinct_and_publications_due_to_those_they_match() -> None:
    load, baseline = node.filter_load()
    assert len(set(load.conditions)) == 50
    filters = [parse(condition) for condition in load.conditions]
    for publication in load.publications[:200]:
        assert len(publication.properties) == 5
        event = {TOPIC: "bench/load", **publication.properties}
        assert publication.due_to == [n for n, f in enumerate(filters) if matches(f, event)]
    assert {n for p in load.publications for n in p.due_to} == set(range(50))
    assert all(p.due_to == list(range(50)) for p in baseline.publications)


def test_rates_are_ahead_when_higher_and_delays_when_lower() -> None:
    rate, _ = node.records_of(case("q0-1to1"), [measured(300)] * 3, [measured(100)] * 3)
    assert (rate.value, rate.baseline, rate.ratio) == (300, 100, 3)
    ours, theirs = measured(delays_ms=[2.0, 2.0, 9.0]), measured(delays_ms=[1.0, 1.0, 3.0])
    p50, p99, _ = node.records_of(case("p50-1to1"), [ours], [theirs])
    assert (p50.case, p50.value, p50.ratio) == ("p50-1to1", 2.0, 0.5)
    assert (p99.case, p99.value, p99.baseline) == ("p99-1to1", 9.0, 3.0)


def test_filters_are_reported_in_publications_and_runs_by_their_median() -> None:
    runs = [measured(10), measured(40), measured(1000)]
    record, share = node.records_of(case("filters-50"), runs, [])
    assert (record.value, record.unit) == (20, "publications/s")
    assert (share.case, share.value) == ("filters-50-load-cpu", 0.25)


def test_without_mosquitto_there_is_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_brokers, "mosquitto_path", lambda: None)
    with load_brokers.mosquitto() as chain:
        assert chain == []
    record, _ = node.records_of(case("q1-50to1"), [measured()], [])
    assert record.baseline is None
    assert record.ratio is None


def test_a_missing_delivery_is_an_error() -> None:
    check(measured())
    with pytest.raises(LoadError, match="99 deliveries of 100"):
        check(
            Measured(
                published_per_s=1,
                delivered_per_s=1,
                published=100,
                delivered=99,
                expected=100,
                misplaced=0,
                load_cpu_share=0,
            )
        )


@pytest.mark.parametrize("percent", [50, 99])
def test_percentiles_are_values_that_were_measured(percent: int) -> None:
    assert node.percentile(list(range(1, 101)), percent) == percent
    assert node.percentile([7.0], percent) == 7.0


@pytest.mark.parametrize("bench", [node, links])
def test_an_unknown_case_is_refused_by_name(bench: object) -> None:
    with pytest.raises(InputError, match="no case 'q9'"):
        bench.run(["q9"])  # type: ignore[attr-defined]


def test_a_node_is_measured_and_ended() -> None:
    figures = node.run(["q1-1to1"], seconds=0.1, rounds=1)
    assert [figure.case for figure in figures] == ["q1-1to1", "q1-1to1-load-cpu"]
    assert figures[0].value > 0


def test_a_chain_forwards_through_its_middle() -> None:
    figures = links.run(["hop-throughput"], seconds=0.1, rounds=1)
    assert figures[0].case == "hop-throughput"
    assert figures[0].value > 0


def test_a_broker_that_does_not_start_is_an_error() -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with (
        pytest.raises(RuntimeError, match="ended with code 3"),
        load_brokers.running(command, free_ports(1)[0]),
    ):
        pass


def test_a_broker_is_ended_when_its_benchmark_fails() -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    started: list[subprocess.Popen[bytes]] = []

    def fail() -> None:
        with load_brokers.running(command, port) as process:
            started.append(process)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert started[0].returncode is not None
