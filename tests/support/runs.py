"""A simulated run in many small files, and what is in a run and in a store as plain rows."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.config import network, scenario
from gravitate.model.moves import MoveOutcome, Rationale, RelocatePublisher
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables import schemas
from gravitate.simulate.run import run_scenario
from gravitate.trace import reader
from gravitate.trace.manifest import RunManifest
from gravitate.trace.schemas import TABLES
from gravitate.trace.writer import TraceWriter

Rows = Counter[tuple[Any, ...]]


def trace_run(folder: Path) -> None:
    """The scenario `small`, with a move, a few dozen rows a file."""
    script = scenario.load("small")
    with TraceWriter(
        folder, "world", rows_per_group=20, rows_per_file=60, link_period_s=0.5
    ) as writer:
        run_scenario(script, observers=[writer], checks=False)
        move = RelocatePublisher("m1", "p", "b01", "b02", Rationale("closer", 2.0, 1.0))
        writer.on_move("b01", move, MoveOutcome.DONE, 1.5)
    RunManifest(network.render(script.network), "virtual", scenario="small").save(folder)


def files_of(run: Path) -> list[str]:
    """Every file of a run, by its name in it."""
    return [f"{table}/{path.name}" for table in TABLES for path in reader.files(run, table)]


def share(run: Path, into: Path, files: list[str]) -> Path:
    """Copy some files of a run into another folder, as if the run had come so far."""
    for name in ["run.json", *files]:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(run / name, into / name)
    return into


def damage(path: Path, column: str = "at_s") -> None:
    """Turn over the last byte of a column's pages; the footer stays as it is."""
    footer = pq.read_metadata(path)
    (position,) = [i for i in range(footer.num_columns) if footer.schema.column(i).path == column]
    chunk = footer.row_group(0).column(position)
    begins = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begins + chunk.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(content)


def traced(run: Path) -> dict[str, Rows]:
    """All rows of a run's traces."""
    return {table: counted(reader.read(run, table).to_pylist()) for table in TABLES}


def taken(store: Store) -> dict[str, Rows]:
    """All rows of the trace tables of a store, each checked to have its period."""
    return {table: counted(_without_period(store, table).to_pylist()) for table in TABLES}


def derived(store: Store) -> dict[str, Rows]:
    """All rows of the derived tables of a store."""
    found = {}
    for table, columns in schemas.DERIVED.items():
        rows = [
            {"period": int(path.parent.name.removeprefix("period=")), **row}
            for path in (store.directory / "derived" / table).glob("period=*/*.parquet")
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        found[table] = Counter(tuple(_plain(row[name]) for name in columns.names) for row in rows)
    return found


def counted(rows: Iterable[dict[str, Any]]) -> Rows:
    return Counter(tuple(_plain(value) for value in row.values()) for row in rows)


def _plain(value: Any) -> Any:
    """Sums of the same numbers in another order are the same."""
    match value:
        case float():
            return round(value, 9)
        case list():
            return tuple(value)
        case _:
            return value


def _without_period(store: Store, table: str) -> pa.Table:
    period_s = store.manifest().period_s
    pieces = [TABLES[table].empty_table()]
    for number in store.batches():
        for path in sorted(store.batch_folder(table, number).glob("*.parquet")):
            rows = pq.read_table(path, partitioning=None)
            expected = [math.floor(at_s / period_s) for at_s in rows["at_s"].to_pylist()]
            assert rows["period"].to_pylist() == expected
            pieces.append(rows.drop_columns(["period"]))
    return pa.concat_tables(pieces)
