"""Workloads on disk: a folder with a manifest and Parquet tables, made by the slow loop.

    quotes/
      workload.json                     name, parameters, seed, where the data is from
      publications/part-00000.parquet   and the other tables that this workload has

These Arrow schemas are the one place where the tables' columns are defined; the pipeline takes
its own from here. A workload has the tables that its question needs: `publishers`,
`publications` and `subscriptions` where events are routed, `interests` where subscribers are
assigned, `notifications` and `links` where topologies are weighed, `brokers` where places matter.

Owns names, columns, the manifest and reading with checks. It knows neither how a workload is
made nor how it is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from gravitate import __version__
from gravitate.errors import FileError
from gravitate.files import read_json, write_json
from gravitate.trace import reader

MANIFEST: Final = "workload.json"


def _column(name: str, kind: pa.DataType, description: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind, False))


PUBLISHERS: Final = pa.schema(
    [
        _column("publisher", pa.string(), "client id"),
        _column("broker", pa.string(), "where it connects; null: not placed", nullable=True),
        _column("advertisement", pa.string(), "condition that all its events meet"),
        _column("rate_msgs_per_s", pa.float64(), "mean rate of publication"),
    ]
)
"""One row a publisher."""

PUBLICATIONS: Final = pa.schema(
    [
        _column("publisher", pa.string(), "client id"),
        _column("number", pa.int64(), "counts the publications of one publisher from 1"),
        _column("at_s", pa.float64(), "when, in seconds from the start"),
        _column("topic", pa.string(), "topic of the event"),
        _column("attributes", pa.string(), "the other attributes, as a JSON object"),
        _column("payload_bytes", pa.int32(), "size of the payload, at least"),
        _column("broker", pa.string(), "where it is published; null: at its publisher's", True),
    ]
)
"""One row an event."""

SUBSCRIPTIONS: Final = pa.schema(
    [
        _column("subscriber", pa.string(), "client id"),
        _column("subscription", pa.string(), "name within its subscriber"),
        _column("broker", pa.string(), "where it connects; null: not placed", nullable=True),
        _column("topic", pa.string(), "topic filter, may hold wildcards"),
        _column("condition", pa.string(), "condition beside the topic; empty: none"),
        _column("from_s", pa.float64(), "held from then on"),
        _column("until_s", pa.float64(), "held until then; null: to the end", nullable=True),
    ]
)
"""One row a subscription; a subscriber may have several."""

INTERESTS: Final = pa.schema(
    [
        _column("subscriber", pa.int64(), "number from 0"),
        _column("location", _list(pa.float32()), "network coordinates, ms one way"),
        _column("low", _list(pa.float32()), "lower corner of the rectangle in event space"),
        _column("high", _list(pa.float32()), "upper corner"),
        _column("community", pa.int32(), "topic, square or hot spot that it was drawn from"),
    ]
)
"""One row a subscriber whose interest is a rectangle."""

BROKERS: Final = pa.schema(
    [
        _column("broker", pa.string(), "broker id"),
        _column("location", _list(pa.float32()), "network coordinates, ms one way; may be empty"),
        _column("weight", pa.float64(), "share of the load it attracts or may carry"),
        _column("processing_cost", pa.float64(), "cost of one event passing it"),
    ]
)
"""One row a broker."""

LINKS: Final = pa.schema(
    [
        _column("broker", pa.string(), "one end"),
        _column("peer", pa.string(), "the other end; greater than the one"),
        _column("cost", pa.float64(), "cost of one event passing it"),
    ]
)
"""One row a pair of brokers that could be linked."""

NOTIFICATIONS: Final = pa.schema(
    [
        _column("notification", pa.int32(), "number of the type, from 0"),
        _column("publisher", pa.string(), "broker where it is published"),
        _column("subscribers", _list(pa.string()), "brokers where it is wanted, sorted"),
        _column("rate_per_tick", pa.float64(), "mean publications a tick"),
    ]
)
"""One row a type of notification."""

TABLES: Final[dict[str, pa.Schema]] = {
    "publishers": PUBLISHERS,
    "publications": PUBLICATIONS,
    "subscriptions": SUBSCRIPTIONS,
    "interests": INTERESTS,
    "brokers": BROKERS,
    "links": LINKS,
    "notifications": NOTIFICATIONS,
}


class WorkloadManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a reader of the tables needs to know beside them."""

    workload: str
    """Name of the definition it was made by."""
    seed: int
    parameters: dict[str, Any]
    source: str
    """Where figures are from: a data set's name, or "synthetic" and what it is fitted to."""
    rows: dict[str, int]
    """Rows of each table; the tables that the workload has."""
    statistics: dict[str, float] = {}
    """What was calibrated or fitted, as measured on the rows."""
    gravitate_version: str = __version__

    def save(self, directory: str | Path) -> Path:
        """Write it into the workload's folder, whole or not at all; its presence says that the
        tables are complete."""
        return write_json(Path(directory) / MANIFEST, self, make_folder=True)


def load_manifest(directory: str | Path) -> WorkloadManifest:
    """The manifest of a workload's folder."""
    path = Path(directory) / MANIFEST
    if not path.exists():
        raise FileError(
            f"has no {MANIFEST}: write the folder of a workload, as `gravitate workload` makes it",
            str(directory),
        )
    return read_json(path, WorkloadManifest, "the manifest of a workload")


def table_files(directory: str | Path, table: str) -> list[Path]:
    """The complete files of a table, in the order of their rows."""
    return sorted((Path(directory) / table).glob("part-*.parquet"))


def read_file(path: Path, table: str) -> pa.Table:
    """The rows of one file of a table."""
    return reader.read_file(path, table, schemas=TABLES)
