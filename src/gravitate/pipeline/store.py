"""The store of a run: its traces taken in, and the tables derived from them.

    RUN/tables/
      store.json                                   period, clock, sampling, network, what was taken
      traces/TABLE/batch=N/part-....parquet        checked rows and their period
      derived/TABLE/period=P/part-....parquet      see `schemas.DERIVED`
      checkpoint/                                  how far ingest has come
        arrivals/N.json                            the files that make up batch N
        batches/N.json                             written when the rows of batch N are complete
        stream/                                    Spark's own

Owns names of files, the manifest, and reading. Ingest writes `traces/`, `derive` writes
`derived/`; everybody else reads through here. A period is `floor(at_s / period_s)`.

A batch counts from the moment its record is there, in all tables at once: rows of a batch that
was interrupted are not seen. The manifest says what all recorded batches amount to, and up to
which of them the derived tables are (`derived_through`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from gravitate.errors import FileError, InputError
from gravitate.pipeline import schemas
from gravitate.trace import manifest as run_manifest

MANIFEST: Final = "store.json"
PERIOD_S: Final = 60.0
PERIOD_S_MIN_UNIX: Final = 1.0
"""Periods are counted in 32 bits, from the beginning of Unix time on nodes."""
PERIODS_MAX: Final = 2**31
DEFAULT_FOLDER: Final = "tables"
"""Where the store of a run is, within the run's own folder."""

STORED: Final[dict[str, StructType]] = {
    table: StructType([*columns.fields, StructField("period", IntegerType(), False)])
    for table, columns in schemas.TRACES.items()
}
"""The trace tables as the store keeps them: with the period of each row."""

_Kind = TypeVar("_Kind")


class Quarantined(msgspec.Struct, frozen=True):
    """A file that was not taken in, and why."""

    file: str
    """Name below the run's folder, `TABLE/part-....parquet`."""
    reason: str
    size_bytes: int = -1
    modified_ns: int = -1
    """What the file was like; one of another size or time is looked at again."""


class BatchRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A batch whose rows are in the store."""

    files: int
    rows: dict[str, int]
    periods: tuple[int, ...]
    """Periods with rows in this batch."""
    quarantined: tuple[Quarantined, ...] = ()
    """Files of this batch that turned out to be damaged inside."""


class StoreManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    network: str
    """The network file as TOML text."""
    clock: Literal["virtual", "unix"]
    scenario: str = ""
    seed: int | None = None
    started_at_s: float = 0.0
    sampling_rate: float = 1.0
    period_s: float = PERIOD_S
    files: int = 0
    rows: dict[str, int] = {}
    """Rows of each trace table taken in so far."""
    taken_through: int = -1
    """The last batch in `files`, `rows` and `quarantined`."""
    derived_through: int = -1
    """The last batch whose periods have been derived."""
    quarantined: tuple[Quarantined, ...] = ()

    @classmethod
    def of_run(cls, run: run_manifest.RunManifest, period_s: float) -> StoreManifest:
        return cls(
            network=run.network,
            clock=run.clock,
            scenario=run.scenario,
            seed=run.seed,
            started_at_s=run.started_at_s,
            sampling_rate=run.sampling_rate,
            period_s=period_s,
        )

    def is_of(self, run: run_manifest.RunManifest) -> bool:
        """Whether these are the tables of that run.

        A node that starts again says so in the run's manifest; it is the same run."""
        facts = ("network", "clock", "scenario", "seed", "sampling_rate")
        return all(getattr(self, name) == getattr(run, name) for name in facts)


class Store:
    """A store by its folder."""

    def __init__(self, directory: str | Path) -> None:
        # Whoever reads or writes for Spark may be at home in another folder.
        self.directory = Path(directory).absolute()

    @classmethod
    def of_run(cls, run: str | Path) -> Store:
        """The store of a run: the folder itself when it is one, else the default place in it."""
        folder = Path(run)
        return cls(folder if (folder / MANIFEST).exists() else folder / DEFAULT_FOLDER)

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def exists(self) -> bool:
        return (self.directory / MANIFEST).exists()

    def create(self, run: str | Path, period_s: float = PERIOD_S) -> StoreManifest:
        """An empty store for the traces of `run`."""
        of = run_manifest.load(run)
        _check_period(period_s, of.clock)
        manifest = StoreManifest.of_run(of, period_s)
        self.save(manifest)
        return manifest

    # --- what it says about itself ------------------------------------------------------------

    def save(self, manifest: StoreManifest) -> None:
        write_whole(self.directory / MANIFEST, manifest)

    def manifest(self) -> StoreManifest:
        return _load(self.directory / MANIFEST, StoreManifest, "the manifest of a store")

    def batches(self) -> list[int]:
        """Numbers of the batches whose rows are complete, ascending."""
        return sorted(int(path.stem) for path in self._records.glob("[0-9]*.json"))

    def batch(self, number: int) -> BatchRecord:
        return _load(self._record_of(number), BatchRecord, "the record of a batch")

    def record(self, number: int, batch: BatchRecord) -> None:
        """From now on the rows of batch `number` count."""
        write_whole(self._record_of(number), batch)

    @property
    def _records(self) -> Path:
        return self.checkpoint / "batches"

    def _record_of(self, number: int) -> Path:
        return self._records / f"{number:06d}.json"

    # --- tables -------------------------------------------------------------------------------

    def batch_folder(self, table: str, number: int) -> Path:
        return self.directory / "traces" / table / f"batch={number}"

    def traces(self, spark: Any, table: str) -> Any:
        """All rows of a trace table, with their `period`."""
        files: list[str | Path] = [
            file
            for number in self.batches()
            for file in sorted(self.batch_folder(table, number).glob("*.parquet"))
        ]
        return schemas.read(spark, files, table, STORED[table])

    def derived(self, spark: Any, table: str) -> Any:
        """All rows of a derived table."""
        expected = schemas.DERIVED[table]
        folder = self.directory / "derived" / table
        if not any(folder.glob("period=*/*.parquet")):
            return spark.createDataFrame([], expected)
        return spark.read.schema(expected).parquet(str(folder)).select(*expected.names)


def period_of(period_s: float) -> Any:
    """The column `period` of rows that have `at_s`; null where that is no time."""
    periods = F.col("at_s") / F.lit(period_s)
    return F.when(F.abs(periods) < F.lit(float(PERIODS_MAX)), F.floor(periods).cast("int"))


def write_whole(path: Path, what: Any) -> None:
    """Write a struct as JSON, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(what)) + b"\n")
        temporary.replace(path)
    except OSError as problem:
        raise FileError(f"cannot be written: {problem.strerror}", str(path)) from None


def _load(path: Path, kind: type[_Kind], what: str) -> _Kind:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as problem:
        raise FileError(f"cannot be read: {problem.strerror}", str(path)) from None
    except msgspec.DecodeError as problem:
        raise FileError(f"is not {what}: {problem}", str(path)) from None


def _check_period(period_s: float, clock: str) -> None:
    least_s = PERIOD_S_MIN_UNIX if clock == "unix" else 0.0
    if not period_s > 0 or period_s < least_s or period_s == float("inf"):
        accepted = f"of at least {least_s:g}" if least_s else "above 0"
        raise InputError(f"a period of {period_s:g} s is not accepted: write a number {accepted}")
