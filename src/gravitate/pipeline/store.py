"""The store of a run: its traces taken in, and the tables derived from them.

    RUN/tables/
      store.json                                   period, clock, sampling, network, what was taken
      traces/TABLE/batch=N/part-....parquet        checked rows, one folder a batch of ingest
      derived/TABLE/period=P/part-....parquet      see `schemas.DERIVED`
      checkpoint/                                  how far incremental ingest has come

Owns names of files and the manifest, and reading. Ingest writes `traces/`, `derive` writes
`derived/`; everybody else reads through here. A period is `floor(at_s / period_s)`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from pyspark.sql import functions as F

from gravitate.errors import FileError, InputError
from gravitate.pipeline import schemas
from gravitate.trace import manifest as run_manifest

MANIFEST: Final = "store.json"
PERIOD_S: Final = 60.0
DEFAULT_FOLDER: Final = "tables"
"""Where the store of a run is, within the run's own folder."""


class Quarantined(msgspec.Struct, frozen=True):
    """A file that was not taken in, and why."""

    file: str
    reason: str


class StoreManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    network: str
    """The network file as TOML text."""
    clock: Literal["virtual", "unix"]
    scenario: str = ""
    seed: int | None = None
    started_at_s: float = 0.0
    sampling_rate: float = 1.0
    period_s: float = PERIOD_S
    rows: dict[str, int] = {}
    """Rows of each trace table taken in so far."""
    quarantined: tuple[Quarantined, ...] = ()


class Store:
    """A store by its folder."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @classmethod
    def of_run(cls, run: str | Path) -> Store:
        """The store of a run: the folder itself when it is one, else the default place in it."""
        folder = Path(run)
        return cls(folder if (folder / MANIFEST).exists() else folder / DEFAULT_FOLDER)

    def exists(self) -> bool:
        return (self.directory / MANIFEST).exists()

    def create(self, run: str | Path, period_s: float = PERIOD_S) -> StoreManifest:
        """An empty store for the traces of `run`."""
        if period_s <= 0:
            raise InputError(f"a period of {period_s:g} s is not accepted: write a number above 0")
        of = run_manifest.load(run)
        manifest = StoreManifest(
            network=of.network,
            clock=of.clock,
            scenario=of.scenario,
            seed=of.seed,
            started_at_s=of.started_at_s,
            sampling_rate=of.sampling_rate,
            period_s=period_s,
        )
        self.save(manifest)
        return manifest

    def save(self, manifest: StoreManifest) -> None:
        """Write the manifest, whole or not at all."""
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / f".{MANIFEST}.{os.getpid()}.writing"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        temporary.replace(self.directory / MANIFEST)

    def manifest(self) -> StoreManifest:
        path = self.directory / MANIFEST
        try:
            return msgspec.json.decode(path.read_bytes(), type=StoreManifest)
        except OSError as problem:
            raise FileError(f"cannot be read: {problem.strerror}", str(path)) from None
        except msgspec.DecodeError as problem:
            raise FileError(f"is not the manifest of a store: {problem}", str(path)) from None

    def traces(self, spark: Any, table: str) -> Any:
        """All rows of a trace table, with their `period`."""
        folder = self.directory / "traces" / table
        files: list[str | Path] = sorted(folder.glob("batch=*/*.parquet"))
        rows = schemas.read(spark, files, table, schemas.TRACES[table])
        return rows.withColumn("period", period_of(self.manifest().period_s))

    def derived(self, spark: Any, table: str) -> Any:
        """All rows of a derived table."""
        expected = schemas.DERIVED[table]
        folder = self.directory / "derived" / table
        if not any(folder.glob("period=*/*.parquet")):
            return spark.createDataFrame([], expected)
        return spark.read.schema(expected).parquet(str(folder)).select(*expected.names)


def period_of(period_s: float) -> Any:
    """The column `period` of rows that have `at_s`."""
    return F.floor(F.col("at_s") / F.lit(period_s)).cast("int")
