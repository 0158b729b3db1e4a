"""When descriptors run short, clients are turned away and everybody else goes on."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.watching import asked, memory_mb, status

from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network, save
from gravitate.serve import descriptors
from gravitate.serve.control.network import on_free_ports
from gravitate.serve.descriptors import LOG_EVERY_S, RESERVED, Doorkeeper, Kind
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.encoder import encode

LIMIT = 150
DEADLINE_S = 20.0
PROGRAM = """
import resource, sys
from gravitate.config.network import load
from gravitate.serve.control.processes import run_network
if __name__ == "__main__":
    limit, file, *brokers = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), int(limit)))
    def ready():
        print("ready", flush=True)
    raise SystemExit(run_network(load(file), brokers=brokers, on_ready=ready))
"""


# The lines ----------------------------------------------------------------------------------------


class _Transport:
    """A connection that has a descriptor of this number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def get_extra_info(self, name: str) -> Any:
        assert name == "socket"
        return self

    def fileno(self) -> int:
        return self._number


@pytest.mark.parametrize("limit", [8, 150, 1024, 20_000])
def test_clients_stop_first_then_readers_then_peers(limit: int) -> None:
    keeper = Doorkeeper("b1", brokers=7, limit=limit)

    def highest(kind: Kind) -> int:
        return max(n for n in range(limit) if keeper.admits(kind, _Transport(n)))  # type: ignore[arg-type]

    client, reader, peer = map(highest, (Kind.CLIENT, Kind.READER, Kind.PEER))
    assert client < reader <= peer < limit
    assert limit - 1 - client == min(limit // 4, RESERVED + 7)
    assert keeper.strangers_max + keeper.readers_max <= max(2, 3 * (reader - client) / 4)


def test_who_is_turned_away_is_counted_and_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(descriptors.time, "monotonic", lambda: now_s)
    keeper = Doorkeeper("b1", limit=LIMIT)
    full = _Transport(LIMIT - 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            assert not keeper.admits(Kind.CLIENT, full)  # type: ignore[arg-type]
            assert not keeper.admits(Kind.READER, full)  # type: ignore[arg-type]
        assert len(caplog.messages) == 2
        now_s += LOG_EVERY_S
        for _ in range(100):
            assert not keeper.admits(Kind.CLIENT, full)  # type: ignore[arg-type]
    assert keeper.refused == 300
    first, _, later = caplog.messages
    assert first == (
        "b1 turns MQTT clients away: 149 of 150 descriptors are taken and the rest is reserved; "
        "`ulimit -n` allows more (connections refused so far: 1)"
    )
    assert later.endswith("(connections refused so far: 201)")


# A broker at its limit ----------------------------------------------------------------------------


class Running:
    """Brokers of a network in a process of their own, with a limit on its descriptors."""

    def __init__(self, folder: Path, network: Network, limit: int, *brokers: str) -> None:
        program, file = folder / "program.py", folder / "network.toml"
        program.write_text(PROGRAM)
        save(network, file)
        self.log = folder / f"{'-'.join(brokers)}.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(program), str(limit), str(file), *brokers],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.log.read_text()

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *problem: object) -> None:
        self.kill()

    def kill(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def _eventually(holds: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.02)


def _connected(address: Address, id: str) -> socket.socket | None:
    """An MQTT client that was let in; None when it was not."""
    with contextlib.suppress(OSError):
        one = socket.create_connection((address.host, address.mqtt), timeout=5)
        with contextlib.suppress(OSError):
            one.sendall(encode(p.Connect(id), V5))
            if one.recv(1)[:1] == b"\x20":
                return one
        one.close()
    return None


@contextlib.contextmanager
def _silent(address: Address, port: int, number: int) -> Iterator[None]:
    """So many connections that say nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection((address.host, port), timeout=5))
        yield


def _links_up(address: Address) -> bool:
    page = asked(address, "/status")
    return page is not None and [it["state"] for it in json.loads(page)["links"]] == ["up", "up"]


def test_at_the_limit_clients_are_turned_away_and_links_and_http_go_on(tmp_path: Path) -> None:
    # b1 dials b2 and is dialled by b3.
    network = on_free_ports(
        Network(
            "lab",
            tuple(map(BrokerSpec, ("b1", "b2", "b3"))),
            (LinkSpec(("b1", "b2")), LinkSpec(("b3", "b1"))),
        )
    )
    address = network.brokers[0].address
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(Running(tmp_path, network, 4096, "b2", "b3"))
        one = stack.enter_context(Running(tmp_path, network, LIMIT, "b1"))
        _eventually(lambda: _links_up(address), "links")
        before_mb = memory_mb(one.process.pid)

        clients: list[socket.socket] = []
        while (client := _connected(address, f"c{len(clients)}")) is not None:
            clients.append(stack.enter_context(client))
        assert LIMIT // 2 < len(clients) < LIMIT - 32
        for number in range(500):
            assert _connected(address, f"more-{number}") is None
        assert one.descriptors() < LIMIT - 16

        assert asked(address, "/health") == b"ok\n"
        with socket.create_connection((address.host, address.http)):
            assert asked(address, "/health") == b"ok\n"
        refused = status(address)["counters"]["connections_refused"]
        assert refused >= 501
        metrics = asked(address, "/metrics")
        assert metrics is not None
        assert b'gravitate_connections_refused_total{broker="b1"}' in metrics

        # Who keeps connections without asking, or without saying who it is, takes nobody's place.
        with _silent(address, address.http, 200), _silent(address, address.peer, 200):
            assert asked(address, "/health") == b"ok\n"
            others.kill()
            _eventually(lambda: not _links_up(address), "links are noticed to be down")
            stack.enter_context(Running(tmp_path, network, 4096, "b2", "b3"))
            _eventually(lambda: _links_up(address), "links made anew")

        for client in clients[:5]:
            client.close()
        taken = [stack.enter_context(client) for client in _retaken(address, 5)]
        assert len(taken) == 5
        assert memory_mb(one.process.pid) - before_mb < 50
        one.process.terminate()
        assert one.process.wait(30) == 0
        minutes = 1 + int((time.monotonic() - began_s) / LOG_EVERY_S)
        said = one.log.read_text()
        assert 1 <= said.count("b1 turns MQTT clients away") <= minutes, said
        assert len(said.splitlines()) < 20, said
        assert "Traceback" not in said


def _retaken(address: Address, number: int) -> list[socket.socket]:
    """Clients that are let in again, as soon as they are."""
    found: list[socket.socket] = []

    def all_in() -> bool:
        client = _connected(address, f"again-{len(found)}")
        if client is not None:
            found.append(client)
        return len(found) == number

    _eventually(all_in, "clients are taken again")
    return found
