"""Brokers go on whatever becomes of their traces, and tell what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.trace.disks import small_disk

from gravitate.config.network import BrokerSpec, Network
from gravitate.serve.control.network import on_free_ports
from gravitate.serve.node import trace_queue
from gravitate.serve.node.node import Node
from gravitate.serve.node.status import NodeStatus
from gravitate.serve.node.traces import TraceSettings, TraceSink
from gravitate.trace import manifest, reader
from gravitate.trace.schemas import TABLES

ROUND = 100
"""Events that a `Traced` publishes at once: as many rows of three tables."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_queue, "PAUSE_S_MAX", 0.01)


async def _page(network: Network, path: str) -> bytes:
    address = network.brokers[0].address
    reading, writing = await asyncio.open_connection(address.host, address.http)
    writing.write(b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
    async with asyncio.timeout(10):
        answer = await reading.read()
    writing.close()
    return answer.partition(b"\r\n\r\n")[2]


class Traced:
    """A broker with a publisher and a subscriber whose traces go where a test wants them."""

    def __init__(self, lab: Any, folder: Path, **settings: Any) -> None:
        self.lab = lab
        self.network = on_free_ports(Network("lab", (BrokerSpec("b1"),), ()), ("peer", "http"))
        chosen = {"rows_per_group": ROUND, "rows_per_file": 5 * ROUND} | settings
        self.sink = TraceSink(TraceSettings(str(folder), **chosen), self.network)
        self.events = 0
        self.node: Node

    async def start(self) -> None:
        observers = self.sink.observers("b1")
        (self.node,) = await self.lab.start(
            self.network, observers=observers, counters=self.sink.counters
        )
        self.subscriber = await self.lab.subscriber(self.node, "subscriber")
        self.publisher = self.lab.Client(self.node, "publisher")

    async def round(self) -> None:
        """Publish, and see it delivered: the broker is at work."""
        events = [b"%d" % (self.events + i) for i in range(ROUND)]
        self.publisher.publish(*events)
        self.events += ROUND
        await self.lab.eventually(
            lambda: len(self.subscriber.payloads) == self.events, "the broker goes on"
        )
        assert self.node.failure is None

    async def rounds_until(self, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Publish until the counters, asked for over HTTP, are as wanted."""
        async with asyncio.timeout(30):
            while True:
                await self.round()
                status = msgspec.json.decode(await _page(self.network, "/status"), type=NodeStatus)
                if condition(status.counters):
                    return status.counters

    @property
    def rows(self) -> int:
        """Of all tables, when everything has been handed over: three of each event, and those of
        the one subscription: subscribed and settled."""
        return 3 * self.events + 2


def _rows_in(folder: Path) -> int:
    return sum(reader.read(folder, table).num_rows for table in TABLES)


def _is_written_again(counters: dict[str, int], before: dict[str, int]) -> bool:
    return counters["trace_rows_written"] >= before["trace_rows_written"] + 3 * ROUND


def test_a_folder_that_vanishes_costs_its_rows_and_nothing_else(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        folder, first, nowhere = (tmp_path / name for name in ("traces", "first", "nowhere"))
        first.mkdir()
        folder.symlink_to(first)
        traced = Traced(lab, folder)
        with traced.sink:
            await traced.start()
            await traced.rounds_until(lambda counters: counters["trace_rows_written"] > 0)
            nowhere.symlink_to(tmp_path / "not" / "there")
            nowhere.rename(folder)
            lost = await traced.rounds_until(lambda counters: counters["trace_rows_dropped"] > 0)
            metrics = (await _page(traced.network, "/metrics")).decode().splitlines()
            told = [line for line in metrics if line.startswith("gravitate_trace_rows_dropped_tot")]
            assert told[0].startswith('gravitate_trace_rows_dropped_total{broker="b1"} ')
            assert float(told[0].split()[1]) >= lost["trace_rows_dropped"]
            folder.unlink()
            await traced.rounds_until(lambda counters: _is_written_again(counters, lost))
            await lab.close()
        counters = traced.sink.counters()
        assert counters["trace_rows_written"] + counters["trace_rows_dropped"] == traced.rows
        manifest.load(folder)
        assert 0 < _rows_in(first) < counters["trace_rows_written"]
        assert _rows_in(first) + _rows_in(folder) == counters["trace_rows_written"]
        said = [record.getMessage() for record in caplog.records]
        assert any("rows are dropped and counted" in text for text in said)
        assert any("are written again" in text for text in said)

    run(body)


def test_a_disk_that_fills_costs_rows_until_there_is_room_again(run: Any, tmp_path: Path) -> None:
    async def body(lab: Any) -> None:
        with small_disk(tmp_path / "disk", 192 * 1024) as folder:
            traced = Traced(lab, folder)
            with traced.sink:
                await traced.start()
                full = await traced.rounds_until(
                    lambda counters: counters["trace_rows_dropped_not_written"] > 10 * ROUND
                )
                complete = _rows_in(folder)
                assert complete >= full["trace_rows_written"] > 0
                for table in TABLES:
                    for path in reader.files(folder, table):
                        path.unlink()
                await traced.rounds_until(lambda counters: _is_written_again(counters, full))
                # What is written during an orderly stop has room too.
                for table in TABLES:
                    for path in reader.files(folder, table):
                        path.unlink()
                await lab.close()
            counters = traced.sink.counters()
            assert counters["trace_rows_written"] + counters["trace_rows_dropped"] == traced.rows
            assert _rows_in(folder) > 0
            assert manifest.load(folder).clock == "unix"

    run(body)


def test_a_disk_that_is_full_at_the_end_does_not_keep_brokers_from_ending(
    run: Any, tmp_path: Path
) -> None:
    async def body(lab: Any) -> None:
        with small_disk(tmp_path / "disk", 64 * 1024) as folder:
            traced = Traced(lab, folder, rows_per_group=10**6)
            with traced.sink:
                await traced.start()
                for _ in range(20):
                    await traced.round()
                (folder / "other").write_bytes(b"")
                with pytest.raises(OSError, match="No space left"):
                    (folder / "other").write_bytes(b"x" * 10**6)
                await lab.close()
            counters = traced.sink.counters()
            assert counters["trace_rows_written"] == 0
            assert counters["trace_rows_dropped_not_written"] == traced.rows
            assert [path.name for path in folder.glob("*/*")] == []

    run(body)


def test_a_queue_that_is_full_costs_rows_and_not_memory(run: Any, tmp_path: Path) -> None:
    async def body(lab: Any) -> None:
        traced = Traced(lab, tmp_path, rows_per_group=1, queue_bytes=1_000)
        with traced.sink:
            await traced.start()
            waiting = traced.sink._queue
            assert waiting is not None
            await lab.eventually(lambda: not waiting.bytes_waiting, "the earlier rows are written")
            traced.publisher.publish(b"x" * 10, note="n" * 2_000)
            await lab.eventually(lambda: traced.subscriber.payloads)
            await lab.close()
        counters = traced.sink.counters()
        assert counters["trace_rows_dropped_queue_full"] >= 1
        assert reader.read(tmp_path, "publications").num_rows == 0
        assert reader.read(tmp_path, "deliveries").num_rows == 1

    run(body)


def test_without_traces_nothing_is_told_of_them(run: Any) -> None:
    async def body(lab: Any) -> None:
        network = on_free_ports(Network("lab", (BrokerSpec("b1"),), ()), ("peer", "http"))
        with TraceSink(None, network) as sink:
            await lab.start(network, observers=sink.observers("b1"), counters=sink.counters)
            assert b"trace_rows" not in await _page(network, "/status")

    run(body)
