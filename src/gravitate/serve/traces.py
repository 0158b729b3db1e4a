"""Where the brokers of this process write their traces.

Owns the writers' life: one for all brokers that run here, closed with the run, and the manifest
that names the network. Does not know what is written (`trace` does).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType

import msgspec

from gravitate.broker.observers import Observer
from gravitate.config.network import Network, render
from gravitate.serve.node import Node
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceWriter

ROUND_TRIPS_NOTED_EVERY_S = 1.0


class TraceSettings(msgspec.Struct, frozen=True):
    """Where to write, and which share of the events."""

    directory: str
    rate: float = 1.0
    scenario: str = ""
    seed: int | None = None


class TraceSink:
    """The trace writer of this process, or nothing when there are no settings."""

    def __init__(
        self, settings: TraceSettings | None, network: Network, brokers: Sequence[str] | None = None
    ) -> None:
        self._writer: TraceWriter | None = None
        if settings is not None:
            # Only processes that share a directory need names of their own.
            name = "-".join(brokers) if brokers else network.name
            self._writer = TraceWriter(settings.directory, name, settings.rate)
            RunManifest(
                network=render(network),
                clock="unix",
                scenario=settings.scenario,
                started_at_s=time.time(),
                seed=settings.seed,
                sampling_rate=settings.rate,
            ).save(settings.directory)

    def observers(self, broker_id: str) -> Iterable[Observer]:
        return () if self._writer is None else (self._writer,)

    async def note_round_trips(self, nodes: Collection[Node]) -> None:
        """Keep the writer informed of what heartbeats measure, until cancelled."""
        while self._writer is not None:
            await asyncio.sleep(ROUND_TRIPS_NOTED_EVERY_S)
            for node in nodes:
                for link in node.broker.links:
                    if link.rtt_s:
                        self._writer.note_rtt(node.broker_id, link.peer, link.rtt_s)

    def __enter__(self) -> TraceSink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
