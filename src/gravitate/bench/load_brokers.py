"""Broker processes under load: started on free loopback ports, stopped whatever happens."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import psutil

from gravitate.bench.load_frames import publish
from gravitate.bench.load_sockets import open_client, subscribe
from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network
from gravitate.serve.control.processes import Supervisor
from gravitate.serve.ports import free_ports

START_S_MAX = 30.0
STOP_S_MAX = 5.0
PROBE = "bench/probe"

MOSQUITTO_CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 65535
set_tcp_nodelay true
sys_interval 0
log_dest none
"""
MOSQUITTO_BRIDGE = """\
connection onward-{port}
address 127.0.0.1:{next_port}
topic # out 0
cleansession true
notifications false
restart_timeout 1
"""


class BrokerProcess:
    """A running broker: where its clients connect and what it has used of a processor."""

    def __init__(self, pid: int, port: int) -> None:
        self._process = psutil.Process(pid)
        self.port = port

    def cpu_s(self) -> float:
        """Processor time used so far, in user and in system mode."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


def mosquitto_path() -> str | None:
    """Where mosquitto is installed; Debian puts it outside of a user's search path."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"a broker ended with code {process.returncode} while starting")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.02)
    raise RuntimeError(f"a broker did not listen on port {port} within {START_S_MAX} s")


def wait_until_bridged(chain: Sequence[BrokerProcess]) -> None:
    """Return once something published at the first broker of the chain reaches the last."""
    subscriber = open_client("127.0.0.1", chain[-1].port, "probe-sub")
    publisher = open_client("127.0.0.1", chain[0].port, "probe-pub")
    with subscriber, publisher:
        subscribe(subscriber, PROBE, 0, None)
        subscriber.settimeout(0.05)
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            publisher.sendall(publish(PROBE, b"", 0))
            with contextlib.suppress(TimeoutError):
                if subscriber.recv(4096):
                    return
    raise RuntimeError(f"a chain of bridges did not connect within {START_S_MAX} s")


@contextlib.contextmanager
def running(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens on `port`; ended on leaving, by force if need be."""
    with ended_in_order():
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_until_listening(process, port)
            yield process
        finally:
            _end(process)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """A benchmark that is told to terminate leaves its contexts, and so ends what it started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def mosquitto_config(port: int, next_port: int | None) -> str:
    """Drops nothing, keeps nothing on disk, and passes everything on to `next_port` if given."""
    bridge = MOSQUITTO_BRIDGE.format(port=port, next_port=next_port) if next_port else ""
    return MOSQUITTO_CONFIG.format(port=port) + bridge


@contextlib.contextmanager
def mosquitto(brokers: int = 1) -> Iterator[list[BrokerProcess]]:
    """A chain of mosquittos, bridged from the first to the last; empty when not installed."""
    path = mosquitto_path()
    if path is None:
        yield []
        return
    ports = free_ports(brokers)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        chain = []
        # From the end, so that each bridge finds the next broker listening.
        for port, next_port in reversed(list(zip(ports, [*ports[1:], None], strict=True))):
            config = directory / f"{port}.conf"
            config.write_text(mosquitto_config(port, next_port))
            process = stack.enter_context(running([path, "-c", str(config)], port))
            chain.append(BrokerProcess(process.pid, port))
        chain.reverse()
        if brokers > 1:
            wait_until_bridged(chain)
        yield chain


@contextlib.contextmanager
def gravitate(brokers: int = 1) -> Iterator[list[BrokerProcess]]:
    """A chain of our brokers, one process each."""
    ports = free_ports(2 * brokers)
    names = [f"b{number}" for number in range(brokers)]
    network = Network(
        name="bench",
        brokers=tuple(
            BrokerSpec(name, Address(mqtt=ports[2 * at], peer=ports[2 * at + 1]))
            for at, name in enumerate(names)
        ),
        links=tuple(LinkSpec(pair) for pair in itertools.pairwise(names)),
    )
    with Supervisor(network) as supervisor:
        chain = []
        for at, name in enumerate(names):
            pid = supervisor.processes[name].pid
            assert pid is not None, f"broker {name} has not been started"
            chain.append(BrokerProcess(pid, ports[2 * at]))
        yield chain
