"""Broker processes under load: started on free loopback ports, stopped whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

START_S_MAX = 30.0
STOP_S_MAX = 5.0

MOSQUITTO_CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
sys_interval 0
log_dest none
"""


class BrokerProcess:
    """A running broker: where its clients connect and what it has used of a processor."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._watched = psutil.Process(process.pid)
        self.port = port

    def cpu_s(self) -> float:
        """Processor time used so far, user and system, children included."""
        total = 0.0
        for process in (self._watched, *self._watched.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
        return total


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; held together so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in held]
    for sock in held:
        sock.close()
    return ports


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


@contextlib.contextmanager
def running(command: Sequence[str], ports: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens on all `ports`; ended on leaving, by force if need be."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for port in ports:
            wait_until_listening(process, port)
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started: it leads a session, hence a group, of its own."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S_MAX)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def mosquitto() -> Iterator[BrokerProcess | None]:
    """A mosquitto that drops nothing and keeps nothing on disk; None when not installed."""
    path = mosquitto_path()
    if path is None:
        yield None
        return
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "mosquitto.conf"
        config.write_text(MOSQUITTO_CONFIG.format(port=port))
        with running([path, "-c", str(config)], [port]) as process:
            yield BrokerProcess(process, port)
