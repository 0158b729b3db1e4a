"""Brokers as processes: they start together, stop in order, and a crash is not kept quiet."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.serve.mqtt.talk import Raw, on_loop
from tests.support.programs import PROGRAM

from gravitate.broker.options import BrokerOptions
from gravitate.config.network import BrokerSpec, LinkSpec, Network, save
from gravitate.errors import InputError
from gravitate.serve.control.network import on_free_ports
from gravitate.serve.control.processes import Supervisor
from gravitate.wire.mqtt import packets as p


@pytest.fixture
def network() -> Network:
    links = (LinkSpec(("b1", "b2")),)
    return on_free_ports(Network("lab", (BrokerSpec("b1"), BrokerSpec("b2")), links))


def _is_listening(network: Network, broker: str) -> bool:
    (address,) = [spec.address for spec in network.brokers if spec.id == broker]
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.mqtt)) == 0


def _run(tmp_path: Path, network: Network, *arguments: str) -> subprocess.Popen[str]:
    program, file = tmp_path / "program.py", tmp_path / "network.toml"
    program.write_text(PROGRAM)
    save(network, file)
    how, *brokers = arguments
    return subprocess.Popen(
        [sys.executable, str(program), how, str(file), *brokers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_broker_gets_a_process_and_ends_in_order(network: Network) -> None:
    with Supervisor(network) as supervisor:
        assert set(supervisor.processes) == {"b1", "b2"}
        assert _is_listening(network, "b1")
        assert _is_listening(network, "b2")
        pids = [process.pid for process in supervisor.processes.values()]
        assert len({os.getpid(), *pids}) == 3
        statuses = supervisor.stop()
    assert statuses == {"b1": 0, "b2": 0}
    assert not _is_listening(network, "b1")


def test_brokers_keep_to_the_bounds_of_the_network_file(network: Network) -> None:
    """Of three events a client may have one unacknowledged: the others come after its answer."""
    small = BrokerOptions(session_window_bytes_max=1_000)

    async def body() -> None:
        door = network.brokers[0].address
        reader, writer = await asyncio.open_connection(door.host, door.mqtt)
        client = Raw(reader, writer)
        assert (await client.connect("c")).reason == 0
        assert (await client.subscribe("t")).reasons == (1,)
        for number in (1, 2, 3):
            await client.publish("t", bytes(600), number)
        first = await client.get(p.Publish)
        client.send(p.Pingreq())
        await client.get(p.Pingresp)
        client.send(p.Puback(first.packet_id))
        await client.get(p.Publish)
        client.close()

    with Supervisor(msgspec.structs.replace(network, options=small)):
        on_loop(body)


def test_a_child_that_dies_is_noticed(network: Network) -> None:
    with Supervisor(network) as supervisor:
        victim = supervisor.processes["b2"]
        victim.kill()
        assert supervisor.wait_for_end(30.0) == ["b2"]
        assert supervisor.stop() == {"b1": 0, "b2": -signal.SIGKILL}


def test_a_broker_whose_port_is_taken_says_so(network: Network) -> None:
    (address,) = [spec.address for spec in network.brokers if spec.id == "b2"]
    with socket.create_server((address.host, address.mqtt)):
        supervisor = Supervisor(network)
        with (
            pytest.raises(InputError, match=r"'b2' did not start: .*'b2' cannot listen"),
            supervisor,
        ):
            pass
    assert not supervisor.processes
    assert not _is_listening(network, "b1")


@pytest.mark.parametrize("how", ["processes", "together"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_network_in_order(
    tmp_path: Path, network: Network, how: str, number: signal.Signals
) -> None:
    with _run(tmp_path, network, how) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            assert _is_listening(network, "b2")
            running.send_signal(number)
            _, complaints = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0, complaints
    assert "Traceback" not in complaints
    assert not _is_listening(network, "b2")


def test_one_broker_runs_alone(tmp_path: Path, network: Network) -> None:
    with _run(tmp_path, network, "together", "b2") as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            assert _is_listening(network, "b2")
            assert not _is_listening(network, "b1")
            running.terminate()
            running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0
