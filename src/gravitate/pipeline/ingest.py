"""Taking the traces of a run into its store, again and again, each file once.

    ingest(spark, "traces")            # all there is; later calls take what has come since

There is one way: new files are noted (`arrivals`), a stream with a checkpoint reads the notes and
copies what they name (`copying`), and the derived tables are computed anew for the periods with
new rows. The first call is the batch, `follow` repeats it while nodes are running. Late rows are
rows of their own period, which is derived again.

It may be killed at any moment. A noted batch without a record is copied again over what is
there; one with a record is passed over, even by a stream that has lost its checkpoint; periods
of batches after `derived_through` are derived by the next call.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gravitate.errors import FileError, InputError
from gravitate.pipeline.spark.shared import check_shared
from gravitate.pipeline.store import arrivals
from gravitate.pipeline.store.arrivals import Arrivals
from gravitate.pipeline.store.copying import COPIED, PART, copy_parts
from gravitate.pipeline.store.store import (
    PERIOD_S,
    BatchRecord,
    Quarantined,
    Store,
    StoreManifest,
)
from gravitate.trace import manifest as run_manifest
from gravitate.trace.schemas import TABLES

Tell = Callable[[str], None]


class Ingested(msgspec.Struct, frozen=True):
    """What one call has taken in."""

    store: str
    files: int
    rows: dict[str, int]
    """Of each table, without those that had nothing new."""
    periods: int
    """Periods that were derived, again or for the first time."""
    quarantined: tuple[Quarantined, ...]
    """Files refused by this call; the store's manifest has all."""
    copied_s: float
    derived_s: float

    @property
    def is_news(self) -> bool:
        return bool(self.files or self.periods or self.quarantined)


def open_store(
    run: str | Path, into: str | Path | None = None, period_s: float | None = None
) -> Store:
    """The store for the traces of `run`, created when there is none.

    Refuses a store of another run, and another period than the store has."""
    if not (Path(run) / run_manifest.NAME).exists():
        raise FileError(
            f"has no {run_manifest.NAME}: give the folder that traces were written to", str(run)
        )
    of = run_manifest.load(run)
    store = Store.of_run(run) if into is None else Store(into)
    if not store.exists():
        store.create(run, PERIOD_S if period_s is None else period_s)
        return store
    manifest = store.manifest()
    if not manifest.is_of(of):
        raise FileError(
            f"holds the tables of another run than {run}: give another folder with --into",
            str(store.directory),
        )
    if period_s is not None and period_s != manifest.period_s:
        raise InputError(
            f"a period of {period_s:g} s is not that of {store.directory}, which has "
            f"{manifest.period_s:g} s: leave --period away, or take in anew with --into"
        )
    return store


def ingest(
    spark: Any,
    run: str | Path,
    into: str | Path | None = None,
    *,
    period_s: float | None = None,
    derived: bool = True,
    tell: Tell = lambda sentence: None,
) -> Ingested:
    """Take in what has come of `run`, and bring the derived tables up to it."""
    store = open_store(run, into, period_s)
    with _alone(store):
        began_s = time.monotonic()
        before = _tallied(store)
        tell("looking for new files")
        refused = Arrivals(Path(run), store).note_new()
        if arrivals.waiting(store):
            tell("copying rows")
            _stream(spark, Path(run).absolute(), store)
        after = _tallied(store)
        copied_s = time.monotonic()
        periods = _due(store) if derived else set()
        if periods:
            tell(f"deriving {len(periods)} periods")
            _derive(spark, store, periods)
    damaged = [file for file in after.quarantined if file not in (*before.quarantined, *refused)]
    new_rows = {table: after.rows[table] - before.rows.get(table, 0) for table in after.rows}
    return Ingested(
        store=str(store.directory),
        files=after.files - before.files,
        rows={table: new_rows[table] for table in TABLES if new_rows.get(table)},
        periods=len(periods),
        quarantined=(*refused, *damaged),
        copied_s=copied_s - began_s,
        derived_s=time.monotonic() - copied_s,
    )


# --- the stream -----------------------------------------------------------------------------------


def _stream(spark: Any, run: Path, store: Store) -> None:
    """Copy the batches that are noted, and let the checkpoint know."""
    # A stream remembers whole paths; where the store has been moved to, another one begins.
    place = hashlib.blake2b(str(store.directory).encode(), digest_size=4).hexdigest()
    notes = (
        spark.readStream.schema(PART)
        .option("maxFileAge", "36500d")
        .json(str(arrivals.folder_of(store)))
    )
    period_s = store.manifest().period_s
    copy = partial(_copy, run=str(run), store=str(store.directory), period_s=period_s)
    query = (
        notes.writeStream.foreachBatch(lambda parts, number: copy(parts))
        .option("checkpointLocation", str(store.checkpoint / f"stream-{place}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _copy(parts: Any, run: str, store: str, period_s: float) -> None:
    """Copy the parts of one step of the stream: one or more batches."""
    into = Store(store)
    # A note is one file and so within one step. What is recorded already came with a step that
    # was interrupted before its end, or with a stream that begins anew.
    batches = arrivals.waiting(into)
    noted = [part for number in batches for part in arrivals.parts_of(into, number)]
    for folder in {into.batch_folder(part.table, part.batch) for part in noted}:
        shutil.rmtree(folder, ignore_errors=True)
    copied = (
        parts.where(parts["batch"].isin(batches))
        .repartition(max(len(noted), 1))
        .mapInArrow(partial(copy_parts, run=run, store=store, period_s=period_s), COPIED)
        .collect()
    )
    for number in sorted({part["batch"] for part in copied}):
        _record(into, number, [part for part in copied if part["batch"] == number])


def _record(store: Store, number: int, parts: list[Any]) -> None:
    for table in {part["table"] for part in parts}:
        written = {part["name"] for part in parts if part["table"] == table and part["rows"]}
        check_shared(store.batch_folder(table, number), written)
    came = arrivals.noted(store, number)
    rows: dict[str, int] = {}
    for part in parts:
        rows[part["table"]] = rows.get(part["table"], 0) + part["rows"]
    store.record(
        number,
        BatchRecord(
            files=sum(part["files"] for part in parts),
            rows=rows,
            periods=tuple(sorted({period for part in parts for period in part["periods"]})),
            quarantined=tuple(
                Quarantined(file, reason, came[file].size_bytes, came[file].modified_ns)
                for part in parts
                for file, reason in zip(part["damaged"], part["reasons"], strict=True)
            ),
        ),
    )


# --- the manifest ---------------------------------------------------------------------------------


def _tallied(store: Store) -> StoreManifest:
    """The manifest, with the batches recorded since it was written."""
    manifest = store.manifest()
    new = [number for number in store.batches() if number > manifest.taken_through]
    if not new:
        return manifest
    rows = dict(manifest.rows)
    files = manifest.files
    quarantined = {file.file: file for file in manifest.quarantined}
    for batch in map(store.batch, new):
        files += batch.files
        for table, count in batch.rows.items():
            rows[table] = rows.get(table, 0) + count
        quarantined |= {file.file: file for file in batch.quarantined}
    manifest = msgspec.structs.replace(
        manifest,
        files=files,
        rows=rows,
        taken_through=new[-1],
        quarantined=tuple(quarantined[name] for name in sorted(quarantined)),
    )
    store.save(manifest)
    return manifest


def _due(store: Store) -> set[int]:
    """Periods with rows that the derived tables do not know yet."""
    manifest = store.manifest()
    late = [number for number in store.batches() if number > manifest.derived_through]
    return {period for number in late for period in store.batch(number).periods}


def _derive(spark: Any, store: Store, periods: set[int]) -> None:
    from gravitate.pipeline.derive import derive

    derive(spark, store, periods)
    manifest = store.manifest()
    store.save(msgspec.structs.replace(manifest, derived_through=manifest.taken_through))


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Nobody else takes anything into this store meanwhile; ends with the process, too."""
    path = store.checkpoint / "lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as problem:
        raise FileError(f"cannot be written: {problem.strerror}", str(path)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another ingest is at work on {store.directory}: wait for it, or end it"
            ) from None
        yield
