"""The same scenario delivers the same set on sockets as in the simulator."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import uvloop

from gravitate.config.scenario import load, loads
from gravitate.config.script import CutLink, DelayLink, Script
from gravitate.errors import InputError
from gravitate.serve.control.network import on_free_ports, up
from gravitate.serve.scenarios.demo import (
    play_act,
    report_json,
    report_of,
    report_table,
    with_grape,
)
from gravitate.serve.scenarios.stage import LiveResult, perform, play
from gravitate.simulate.run import run_scenario

BRISK = """
name = "brisk"
seed = 5
duration_s = 1.0

[network]
shape = "balanced-tree"
brokers = 4
fanout = 3
latency_ms = [1.0, 4.0]

[workload]
publishers = 3
subscribers = 12
rate_msgs_per_s = 40.0
"""


@pytest.fixture(scope="module")
def brisk() -> Script:
    return loads(BRISK)


def test_simulator_and_sockets_deliver_the_same_set() -> None:
    script = load("small")
    short = msgspec.structs.replace(
        script,
        duration_s=1.0,
        publications=tuple(p for p in script.publications if p.at_s < 1.0),
    )
    simulated = run_scenario(short)
    live = uvloop.run(perform(short))
    assert live.is_sound()
    assert live.deliveries == simulated.deliveries
    assert live.expected == simulated.expected > 0
    assert live.metrics is not None
    assert live.metrics.hops_mean == simulated.metrics.hops_mean
    assert live.metrics.arrivals == simulated.metrics.arrivals
    assert live.metrics.pure_forwarders == simulated.metrics.pure_forwarders


def test_brokers_in_processes_of_their_own_deliver_the_same_set(brisk: Script) -> None:
    live = uvloop.run(perform(brisk, processes=True))
    assert live.is_sound()
    assert live.deliveries == run_scenario(brisk).deliveries


def test_links_that_are_cut_and_delayed_lose_and_double_nothing(brisk: Script) -> None:
    links = [link.between for link in brisk.network.links]
    faulty = msgspec.structs.replace(
        brisk,
        faults=(
            DelayLink(0.1, 0.3, links[1], 20.0),
            CutLink(0.2, 0.2, links[0]),
            CutLink(0.5, 0.1, links[2]),
        ),
    )
    live = uvloop.run(perform(faulty))
    assert live.is_sound()
    assert live.expected > 0


def test_a_fault_that_cannot_be_staged_is_refused(brisk: Script) -> None:
    cut = msgspec.structs.replace(
        brisk, faults=(CutLink(0.1, 0.1, brisk.network.links[0].between),)
    )
    with pytest.raises(InputError, match="'cut'"):
        uvloop.run(perform(cut, processes=True))


def test_the_demo_delivers_everything_once_and_in_order(tmp_path: Path) -> None:
    script = load("demo", duration_s=1.0)
    static = play_act(script, tmp_path / "static", live=False)
    grape = play_act(with_grape(script), tmp_path / "grape", live=False)
    report = report_of(script, static, grape)
    assert report.is_sound()
    assert static.expected == grape.expected > 0
    for act in (static, grape):
        assert 0 < act.published < len(script.publications)
    assert (report.brokers, report.publishers, report.subscribers) == (15, 10, 300)
    said = msgspec.json.decode(report_json(report))
    assert {
        "expected",
        "delivered",
        "duplicates",
        "out_of_order",
        "pure_forwarders",
        "yield",
        "delay_ms_p50",
        "delay_ms_p99",
    } <= set(said["static"])
    assert 0.0 < said["grape"]["yield"] <= 1.0
    assert report_table(report).row_count > 8
    tables = {folder.name for folder in (tmp_path / "grape").iterdir() if folder.is_dir()}
    assert {"publications", "hops", "deliveries", "subscriptions"} <= tables


def test_publishers_move_while_a_script_is_played(brisk: Script) -> None:
    grape = {"prioritised": "load", "session_publications": 5, "confirmations": 1}
    network = msgspec.structs.replace(brisk.network, mechanisms={"grape": grape})
    moving = msgspec.structs.replace(brisk, network=network)
    live = uvloop.run(perform(moving))
    assert live.is_sound()
    assert live.moves > 0


def test_a_script_is_played_on_a_network_that_runs_already(brisk: Script) -> None:
    async def both() -> LiveResult:
        network = on_free_ports(brisk.network)
        async with await up(network):
            told: list[str] = []
            result = await play(brisk, network, lambda: told.append("ready"))
            assert told == ["ready"]
            return result

    result = uvloop.run(both())
    assert result.is_sound()
    assert result.expected > 0
    assert result.metrics is None


def test_a_network_without_the_brokers_of_a_script_is_refused(brisk: Script) -> None:
    small = msgspec.structs.replace(
        brisk.network, name="small", brokers=brisk.network.brokers[:1], links=()
    )
    with pytest.raises(InputError, match=r"has clients on broker 'b\d\d', which network 'small'"):
        uvloop.run(play(brisk, small, lambda: None))


def test_the_demo_is_as_long_as_asked() -> None:
    short, long = (load("demo", duration_s=seconds) for seconds in (30.0, 90.0))
    assert (short.duration_s, long.duration_s) == (30.0, 90.0)
    assert len(long.publications) == pytest.approx(3 * len(short.publications), rel=0.1)
