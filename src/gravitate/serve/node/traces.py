"""Where the brokers of this process write their traces.

Owns the life of what writes them: one for all brokers that run here, closed with the run, and the
manifest that names the network. Does not know what is written (`trace` does) nor when
(`trace_queue` does).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType

import msgspec

from gravitate.broker.observers import Observer
from gravitate.config.network import Network, render
from gravitate.serve.node.node import Node
from gravitate.serve.node.trace_queue import QUEUE_BYTES, TraceQueue
from gravitate.trace.columns import ROWS_PER_GROUP
from gravitate.trace.files import ROWS_PER_FILE, TraceFiles
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceRows

ROUND_TRIPS_NOTED_EVERY_S = 1.0
GROUPS_IN_QUEUE = 8
"""At least so many fit, however heavy their rows."""


class TraceSettings(msgspec.Struct, frozen=True):
    """Where to write, and which share of the events."""

    directory: str
    rate: float = 1.0
    scenario: str = ""
    seed: int | None = None
    queue_bytes: int = QUEUE_BYTES
    """Weight of the rows that may wait to be written; more are dropped and counted."""
    rows_per_group: int = ROWS_PER_GROUP
    rows_per_file: int = ROWS_PER_FILE


class TraceSink:
    """What writes the traces of this process, or nothing when there are no settings."""

    def __init__(
        self, settings: TraceSettings | None, network: Network, brokers: Sequence[str] | None = None
    ) -> None:
        self._rows: TraceRows | None = None
        self._queue: TraceQueue | None = None
        if settings is not None:
            # Only processes that share a directory need names of their own.
            name = "-".join(brokers) if brokers else network.name
            run = RunManifest(
                network=render(network),
                clock="unix",
                scenario=settings.scenario,
                started_at_s=time.time(),
                seed=settings.seed,
                sampling_rate=settings.rate,
            )
            run.save(settings.directory)
            files = TraceFiles(settings.directory, name, settings.rows_per_file, run)
            self._queue = TraceQueue(files, settings.directory, settings.queue_bytes)
            self._rows = TraceRows(
                self._queue,
                settings.rate,
                rows_per_group=settings.rows_per_group,
                bytes_per_group=settings.queue_bytes // GROUPS_IN_QUEUE,
            )

    def observers(self, broker_id: str) -> Iterable[Observer]:
        return () if self._rows is None else (self._rows,)

    def counters(self) -> Mapping[str, int]:
        """What became of the rows of all brokers of this process; empty without traces."""
        return {} if self._queue is None else self._queue.counters()

    async def note_round_trips(self, nodes: Collection[Node]) -> None:
        """Keep the writer informed of what heartbeats measure, until cancelled."""
        while self._rows is not None:
            await asyncio.sleep(ROUND_TRIPS_NOTED_EVERY_S)
            for node in nodes:
                for link in node.broker.links:
                    if link.rtt_s:
                        self._rows.note_rtt(node.broker_id, link.peer, link.rtt_s)

    def __enter__(self) -> TraceSink:
        if self._queue is not None:
            self._queue.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rows is not None:
            self._rows.close()
