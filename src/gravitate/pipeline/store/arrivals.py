"""Which files of a run have come, and into which batch they go.

Owns the notes `checkpoint/arrivals/N.json` of a store: one for each batch, written whole before
anything of the batch is copied, one line a part (some files of one table that become one file).
The stream of ingest reads these notes, not the folders of traces: a file that is not fit never
gets into the stream, and one batch holds new files of all six tables.

A file is known by its name. One that was taken is not taken again, whatever its time says; one
that was refused is looked at again when its size or its time has changed; one that holds the
same rows as another is refused.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gravitate.errors import FileError
from gravitate.files import write_whole
from gravitate.pipeline.store.quarantine import Unfit, look
from gravitate.pipeline.store.store import Quarantined, Store
from gravitate.trace import reader
from gravitate.trace.schemas import TABLES

PART_BYTES: Final = 32 * 2**20
"""Weight of the files that are copied into one, as far as they are not larger themselves."""
BATCH_BYTES_MAX: Final = 8 * 2**30
NOTES_KEPT: Final = 16_384
"""In memory: a day of new files every five seconds."""


class Arrival(msgspec.Struct, frozen=True):
    """A sound file of the run."""

    file: str
    """Name below the run's folder, `TABLE/part-....parquet`."""
    size_bytes: int
    modified_ns: int
    rows: int
    fingerprint: str

    def is_like(self, size_bytes: int, modified_ns: int) -> bool:
        return (self.size_bytes, self.modified_ns) == (size_bytes, modified_ns)


class Part(msgspec.Struct, frozen=True):
    """One line of a note; the first four fields are `copying.PART`."""

    batch: int
    part: int
    table: str
    files: tuple[str, ...]
    arrivals: tuple[Arrival, ...]


class Arrivals:
    """What has come of a run, as the notes in its store tell."""

    def __init__(self, run: Path, store: Store) -> None:
        self._run = run
        self._store = store
        self._next_batch = 0
        self._known: dict[str, Arrival] = {}
        self._refused = {file.file: file for file in store.manifest().quarantined}
        for number in _numbers(store):
            self._next_batch = number + 1
            self._known |= noted(store, number)
        for number in store.batches():
            for file in store.batch(number).quarantined:
                arrival = self._known.get(file.file)
                if arrival is not None and arrival.is_like(file.size_bytes, file.modified_ns):
                    del self._known[file.file]
        self._by_fingerprint = {a.fingerprint: a for a in self._known.values() if a.rows}

    def note_new(self) -> list[Quarantined]:
        """Write notes for the files that are new; those that are newly refused come back."""
        taken: dict[str, list[Arrival]] = {table: [] for table in TABLES}
        refused: list[Quarantined] = []
        for table, path, status in self._files():
            name = f"{table}/{path.name}"
            try:
                if self._is_news(name, status):
                    taken[table].append(self._looked_at(name, table, path, status))
            except Unfit as found:
                refused.append(Quarantined(name, found.reason, status.st_size, status.st_mtime_ns))
        self._remember(refused, [arrival for new in taken.values() for arrival in new])
        self._write(taken)
        return refused

    def _files(self) -> Iterator[tuple[str, Path, os.stat_result]]:
        for table in TABLES:
            for path in reader.files(self._run, table):
                try:
                    yield table, path, path.stat()
                except FileNotFoundError:
                    continue

    def _is_news(self, name: str, status: os.stat_result) -> bool:
        refused = self._refused.get(name)
        if refused is not None and (refused.size_bytes, refused.modified_ns) == (
            status.st_size,
            status.st_mtime_ns,
        ):
            return False
        known = self._known.get(name)
        if known is not None and known.size_bytes != status.st_size:
            raise Unfit(
                self._run / name,
                f"has changed since it was taken in: it had {known.size_bytes} bytes and has "
                f"{status.st_size}; the rows of before are kept",
            )
        return known is None

    def _looked_at(self, name: str, table: str, path: Path, status: os.stat_result) -> Arrival:
        seen = look(path, table)
        arrival = Arrival(name, status.st_size, status.st_mtime_ns, seen.rows, seen.fingerprint)
        twin = self._by_fingerprint.get(seen.fingerprint)
        if twin is not None and self._same_rows(twin, arrival):
            raise Unfit(path, f"holds the same rows as {twin.file}, which was taken in")
        self._known[name] = arrival
        if seen.rows:
            self._by_fingerprint[seen.fingerprint] = arrival
        return arrival

    def _same_rows(self, one: Arrival, other: Arrival) -> bool:
        """Whether files with the same footer are copies; for lack of the first, yes."""
        if one.size_bytes != other.size_bytes:
            return False
        first = self._run / one.file
        return not first.exists() or filecmp.cmp(first, self._run / other.file, shallow=False)

    def _remember(self, refused: list[Quarantined], taken: list[Arrival]) -> None:
        """Before the notes are written: what is interrupted in between is looked at again."""
        before = dict(self._refused)
        for arrival in taken:
            self._refused.pop(arrival.file, None)
        self._refused |= {file.file: file for file in refused}
        if self._refused != before:
            quarantined = tuple(self._refused[name] for name in sorted(self._refused))
            self._store.save(
                msgspec.structs.replace(self._store.manifest(), quarantined=quarantined)
            )

    def _write(self, taken: dict[str, list[Arrival]]) -> None:
        batch: list[Part] = []
        batch_bytes = 0
        for table, arrivals in taken.items():
            for part in _packed(arrivals):
                batch.append(
                    Part(
                        self._next_batch,
                        len(batch),
                        table,
                        tuple(arrival.file for arrival in part),
                        tuple(part),
                    )
                )
                batch_bytes += sum(arrival.size_bytes for arrival in part)
                if batch_bytes >= BATCH_BYTES_MAX:
                    self._write_note(batch)
                    batch, batch_bytes = [], 0
        if batch:
            self._write_note(batch)

    def _write_note(self, parts: list[Part]) -> None:
        lines = b"".join(msgspec.json.encode(part) + b"\n" for part in parts)
        write_whole(_note(self._store, self._next_batch), lines, make_folder=True)
        self._next_batch += 1


def folder_of(store: Store) -> Path:
    """Where the notes of a store are."""
    return store.checkpoint / "arrivals"


def noted(store: Store, number: int) -> dict[str, Arrival]:
    """The files of a batch by their names."""
    return {arrival.file: arrival for part in parts_of(store, number) for arrival in part.arrivals}


def waiting(store: Store) -> list[int]:
    """Numbers of the noted batches whose rows are not in the store yet."""
    return sorted(set(_numbers(store)) - set(store.batches()))


def parts_of(store: Store, number: int) -> list[Part]:
    """The parts of a batch."""
    path = _note(store, number)
    try:
        status = path.stat()
        return list(_read(path, status.st_size, status.st_mtime_ns))
    except (OSError, msgspec.DecodeError) as problem:
        raise FileError(f"is not a note of arrivals: {problem}", str(path)) from None


@lru_cache(maxsize=NOTES_KEPT)
def _read(path: Path, size_bytes: int, modified_ns: int) -> tuple[Part, ...]:
    """Notes stay as they are, and an ingest that follows a run asks for all of them each time.

    Invalidated by: another size or time."""
    lines = path.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Part) for line in lines)


def _numbers(store: Store) -> list[int]:
    return sorted(int(path.stem) for path in folder_of(store).glob("[0-9]*.json"))


def _note(store: Store, number: int) -> Path:
    return folder_of(store) / f"{number:06d}.json"


def _packed(arrivals: list[Arrival]) -> Iterator[list[Arrival]]:
    """Neighbouring files together, up to the weight of a part."""
    part: list[Arrival] = []
    size_bytes = 0
    for arrival in arrivals:
        if part and size_bytes + arrival.size_bytes > PART_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(arrival)
        size_bytes += arrival.size_bytes
    if part:
        yield part
