"""A simulated run whose traces are in a store, and its rows as plain Python."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.config import network, scenario
from gravitate.pipeline.store.store import BatchRecord, Store
from gravitate.simulate.run import RunResult, run_scenario
from gravitate.trace import reader
from gravitate.trace.manifest import RunManifest
from gravitate.trace.schemas import TABLES
from gravitate.trace.writer import TraceWriter

Row = dict[str, Any]


class Traced:
    """A run: its folder, what the simulator says about it, its trace rows."""

    def __init__(self, folder: Path) -> None:
        script = scenario.load("small")
        self.folder = folder
        with TraceWriter(folder, "world", link_period_s=0.25) as writer:
            writer.note_rtt("b01", "b02", 0.016)
            self.result: RunResult = run_scenario(script, observers=[writer])
        RunManifest(network.render(script.network), "virtual", scenario="small").save(folder)
        self.rows: dict[str, list[Row]] = {
            table: reader.read(folder, table).to_pylist() for table in TABLES
        }

    def store(self, place: Path, period_s: float) -> Store:
        """A store that holds these traces, as ingest leaves it."""
        store = Store(place)
        store.create(self.folder, period_s)
        periods = set[int]()
        for table in TABLES:
            rows = reader.read(self.folder, table)
            put(store, table, 0, rows)
            periods.update(periods_of(rows, period_s))
        store.record(0, BatchRecord(files=1, rows={}, periods=tuple(sorted(periods))))
        return store


def put(store: Store, table: str, batch: int, rows: pa.Table) -> None:
    """Add rows to a batch of a store."""
    folder = store.batch_folder(table, batch)
    folder.mkdir(parents=True, exist_ok=True)
    periods = periods_of(rows, store.manifest().period_s)
    schema = rows.schema.append(pa.field("period", pa.int32(), nullable=False))
    stored = pa.table([*rows.columns, pa.array(periods, pa.int32())], schema=schema)
    pq.write_table(stored, folder / "part-00000.parquet")


def periods_of(rows: pa.Table, period_s: float) -> list[int]:
    return [math.floor(at_s / period_s) for at_s in rows["at_s"].to_pylist()]
