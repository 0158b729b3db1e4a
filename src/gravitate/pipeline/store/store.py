"""The store of a run: its traces taken in, and the tables derived from them.

    RUN/tables/
      store.json                                   period, clock, sampling, network, what was taken
      traces/TABLE/batch=N/part-....parquet        checked rows and their period
      derived/TABLE/period=P/part-....parquet      see `schemas.DERIVED`
      checkpoint/                                  how far ingest has come
        arrivals/N.json                            the files that make up batch N
        batches/N.json                             written when the rows of batch N are complete
        stream-HASH/                               Spark's own; another one where the store moves to
        lock                                       held by the ingest that is at work

Owns names of files, the manifest, and reading. Ingest writes `traces/`, `derive` writes
`derived/`; everybody else reads through here. A period is `floor(at_s / period_s)`.

A batch counts from the moment its record is there, in all tables at once: rows of a batch that
was interrupted are not seen. The manifest says what all recorded batches amount to, and up to
which of them the derived tables are (`derived_through`).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
from pyspark.sql.types import IntegerType, StructField, StructType

from gravitate.errors import InputError
from gravitate.files import read_json, write_json
from gravitate.pipeline.tables import schemas
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
        self._known: dict[int, BatchRecord] = {}
        """Records read before; they stay as they are. Invalidated by: `record`."""

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

    def is_complete(self) -> bool:
        """Whether the tables know all that was taken in; not so after an ingest that was ended."""
        manifest = self.manifest()
        recorded = max(self.batches(), default=manifest.taken_through)
        return manifest.derived_through == manifest.taken_through >= max(recorded, 0)

    def create(self, run: str | Path, period_s: float = PERIOD_S) -> StoreManifest:
        """An empty store for the traces of `run`."""
        of = run_manifest.load(run)
        _check_period(period_s, of.clock)
        manifest = StoreManifest.of_run(of, period_s)
        self.save(manifest)
        return manifest

    # --- what it says about itself ------------------------------------------------------------

    def save(self, manifest: StoreManifest) -> None:
        write_json(self.directory / MANIFEST, manifest, make_folder=True)

    def manifest(self) -> StoreManifest:
        return read_json(self.directory / MANIFEST, StoreManifest, "the manifest of a store")

    def batches(self) -> list[int]:
        """Numbers of the batches whose rows are complete, ascending."""
        return sorted(int(path.stem) for path in self._records.glob("[0-9]*.json"))

    def batch(self, number: int) -> BatchRecord:
        if number not in self._known:
            path = self._record_of(number)
            self._known[number] = read_json(path, BatchRecord, "the record of a batch")
        return self._known[number]

    def record(self, number: int, batch: BatchRecord) -> None:
        """From now on the rows of batch `number` count."""
        write_json(self._record_of(number), batch, make_folder=True)
        self._known.pop(number, None)

    @property
    def _records(self) -> Path:
        return self.checkpoint / "batches"

    def _record_of(self, number: int) -> Path:
        return self._records / f"{number:06d}.json"

    # --- tables -------------------------------------------------------------------------------

    def batch_folder(self, table: str, number: int) -> Path:
        return self.directory / "traces" / table / f"batch={number}"

    def files(self, table: str, periods: Collection[int] | None = None) -> list[Path]:
        """The files that hold the rows of a trace table; batches that have none of `periods` are
        left out."""
        wanted = None if periods is None else frozenset(periods)
        return [
            file
            for number in self.batches()
            if wanted is None or not wanted.isdisjoint(self.batch(number).periods)
            for file in sorted(self.batch_folder(table, number).glob("*.parquet"))
        ]

    def traces(self, spark: Any, table: str, periods: Collection[int] | None = None) -> Any:
        """All rows of a trace table, with their `period`; of batches that have none of `periods`
        no file is opened, the rows of the others are to be chosen from."""
        return schemas.read(spark, list(self.files(table, periods)), table, STORED[table])

    def derived(self, spark: Any, table: str, periods: Collection[int] | None = None) -> Any:
        """All rows of a derived table; files of other `periods` are not checked, and rows of
        these are to be chosen from it."""
        expected = schemas.DERIVED[table]
        if not self.derived_files(table, periods):
            return spark.createDataFrame([], expected)
        folder = self.directory / "derived" / table
        return spark.read.schema(expected).parquet(str(folder)).select(*expected.names)

    def derived_files(
        self, table: str, periods: Collection[int] | None = None
    ) -> dict[int, list[Path]]:
        """The files of a derived table by their period, checked; of the given periods, or all."""
        folder = self.directory / "derived" / table
        wanted = ["*"] if periods is None else periods
        files: dict[int, list[Path]] = {}
        for file in sorted(f for one in wanted for f in folder.glob(f"period={one}/*.parquet")):
            files.setdefault(int(file.parent.name.partition("=")[2]), []).append(file)
        expected = schemas.DERIVED[table]
        columns = StructType([field for field in expected.fields if field.name != "period"])
        for file in (file for found in files.values() for file in found):
            schemas.check_file(file, table, columns)
        return files


def _check_period(period_s: float, clock: str) -> None:
    least_s = PERIOD_S_MIN_UNIX if clock == "unix" else 0.0
    if not period_s > 0 or period_s < least_s or period_s == float("inf"):
        accepted = f"of at least {least_s:g}" if least_s else "above 0"
        raise InputError(f"a period of {period_s:g} s is not accepted: write a number {accepted}")
