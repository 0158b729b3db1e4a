"""Brokers that are asked to restart, one after the other, and what stops that."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from tests.serve.http.asking import request
from tests.support.programs import PROGRAM

from gravitate.config.build import shaped
from gravitate.config.network import Network, save
from gravitate.errors import InputError
from gravitate.operate.asking import reason_in
from gravitate.operate.rolling import Step, roll
from gravitate.serve.control.network import on_free_ports
from gravitate.serve.control.processes import RESTART_STATUS
from gravitate.serve.http.pages import JSON
from gravitate.serve.http.restart_page import Restarting, restart_page
from gravitate.serve.node.status import NodeStatus


@pytest.fixture
def network() -> Network:
    return on_free_ports(shaped("line", 3))


@contextlib.contextmanager
def running(tmp_path: Path, network: Network, *how: str) -> Iterator[subprocess.Popen[str]]:
    """Brokers as `how` says: `processes`, or `together` with those that are named."""
    program, file = tmp_path / "program.py", tmp_path / "network.toml"
    program.write_text(PROGRAM)
    save(network, file)
    kind, *brokers = how
    with subprocess.Popen(
        [sys.executable, str(program), kind, str(file), *brokers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def incarnations(network: Network) -> dict[str, int]:
    found = {}
    for spec in network.brokers:
        connection = http.client.HTTPConnection(spec.address.host, spec.address.http, timeout=10)
        connection.request("GET", "/status")
        status = msgspec.json.decode(connection.getresponse().read(), type=NodeStatus)
        found[spec.id] = status.incarnation
        connection.close()
    return found


def test_every_broker_is_restarted_and_ready_before_the_next(
    tmp_path: Path, network: Network
) -> None:
    steps: list[tuple[str, Step]] = []
    with running(tmp_path, network, "processes") as supervisor:
        before = incarnations(network)
        result = roll(network, tell=lambda broker, step: steps.append((broker, step)))
        after = incarnations(network)
        supervisor.send_signal(signal.SIGTERM)
        _, complaints = supervisor.communicate(timeout=30)
    assert result.failed == "", result.reason
    assert [one.broker for one in result.done] == ["b01", "b02", "b03"]
    assert result.left == ()
    assert all(after[broker] > before[broker] for broker in before)
    assert steps == [(broker, step) for broker in before for step in Step]
    assert supervisor.returncode == 0, complaints
    assert "Traceback" not in complaints


def test_those_that_are_named_are_restarted_in_that_order(tmp_path: Path, network: Network) -> None:
    with running(tmp_path, network, "processes"):
        before = incarnations(network)
        result = roll(network, ["b03", "b01"])
        after = incarnations(network)
    assert [one.broker for one in result.done] == ["b03", "b01"]
    assert after["b02"] == before["b02"]


def test_brokers_in_one_process_refuse(tmp_path: Path, network: Network) -> None:
    with running(tmp_path, network, "together"):
        before = incarnations(network)
        result = roll(network)
        assert incarnations(network) == before
    assert (result.done, result.failed, result.left) == ((), "b01", ("b02", "b03"))
    assert "refuses: b01 shares its process with the other brokers" in result.reason
    assert "`gravitate up --processes`" in result.reason


def test_a_broker_that_does_not_answer_is_named_before_anything_is_done(
    tmp_path: Path, network: Network
) -> None:
    address = network.brokers[1].address
    with running(tmp_path, network, "together", "b01") as alone:
        result = roll(network)
        assert alone.poll() is None
    assert (result.done, result.failed, result.left) == ((), "b01", ("b02", "b03"))
    assert f"broker 'b02' does not answer at {address.host}:{address.http}" in result.reason


def test_a_broker_that_nobody_starts_again_stops_it(tmp_path: Path) -> None:
    one = on_free_ports(shaped("line", 1))
    with running(tmp_path, one, "together", "b01") as alone:
        result = roll(one, patience_s=2.0)
        alone.communicate(timeout=30)
    assert (result.done, result.failed) == ((), "b01")
    assert "does not answer" in result.reason
    assert "after it was asked to restart" in result.reason
    assert alone.returncode == RESTART_STATUS


def test_a_broker_that_is_not_ready_is_not_restarted(tmp_path: Path) -> None:
    """b01 answers for b02 too: it waits for its neighbour, which it has never had."""
    network = on_free_ports(shaped("line", 2))
    first = network.brokers[0]
    mistaken = msgspec.structs.replace(
        network,
        brokers=(
            first,
            msgspec.structs.replace(
                network.brokers[1],
                address=msgspec.structs.replace(
                    network.brokers[1].address, http=first.address.http
                ),
            ),
        ),
    )
    with running(tmp_path, network, "together", "b01") as alone:
        result = roll(mistaken, ["b01"], patience_s=1.0)
        assert alone.poll() is None
    assert result.done == ()
    assert "it waits for 'b02', its link has not been up since the start" in result.reason


def test_names_and_ports_are_checked_before_anybody_is_asked(network: Network) -> None:
    with pytest.raises(InputError, match="has no broker 'b09'; it has b01, b02, b03"):
        roll(network, ["b09"])
    mute = on_free_ports(network, ("mqtt", "peer"))
    with pytest.raises(InputError, match="broker 'b01' has no http port in the network file"):
        roll(mute, ["b01"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"error": "expected {}"}', "expected {}"),
        (b'{"detail": "not here"}', '{"detail": "not here"}'),
        (b" Bad Gateway\n", "Bad Gateway"),
        (b"\xff" * 300, "\ufffd" * 200),
    ],
)
def test_the_reason_of_a_refusal_is_found_whoever_refuses(content: bytes, reason: str) -> None:
    assert reason_in(content) == reason


@pytest.mark.parametrize(
    ("request_made", "status", "told"),
    [
        (request("/restart", "POST", b"{}", "text/plain"), 415, f"expected {JSON}"),
        (request("/restart", "POST"), 400, "expected {}"),
        (request("/restart", "POST", b'{"at": 5}'), 400, "unknown field `at`"),
    ],
)
def test_a_request_that_cannot_be_meant_restarts_nobody(
    request_made: Request, status: int, told: str
) -> None:
    page = restart_page("b1", 7, lambda: pytest.fail("restarted"))
    with pytest.raises((InputError, HTTPException)) as refused:
        asyncio.run(page(request_made))
    assert getattr(refused.value, "status_code", 400) == status
    assert told in str(refused.value)


def test_who_restarts_says_which_incarnation_ends() -> None:
    asked: list[bool] = []
    page = restart_page("b1", 7, lambda: asked.append(True))
    answer = asyncio.run(page(request("/restart", "POST", b"{}")))
    assert answer.status_code == 202
    assert msgspec.json.decode(answer.body, type=Restarting) == Restarting("b1", 7)
    assert asked == [True]
