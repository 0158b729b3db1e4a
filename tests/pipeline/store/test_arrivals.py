"""Which files are new: told from notes and records, without Spark."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.runs import files_of, trace_run

from gravitate.errors import FileError
from gravitate.pipeline.ingest import open_store
from gravitate.pipeline.store import arrivals
from gravitate.pipeline.store.arrivals import Arrivals
from gravitate.pipeline.store.store import BatchRecord, Quarantined, Store
from gravitate.trace import reader


@pytest.fixture
def run(tmp_path: Path) -> Path:
    trace_run(tmp_path)
    return tmp_path


@pytest.fixture
def store(run: Path) -> Store:
    return open_store(run)


def news(run: Path, store: Store, damaged: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Files noted and files refused by a look at the run; what is noted is recorded as taken."""
    refused = Arrivals(run, store).note_new()
    files: list[str] = []
    for number in arrivals.waiting(store):
        came = arrivals.noted(store, number)
        files += came
        bad = tuple(
            Quarantined(file, "damaged", came[file].size_bytes, came[file].modified_ns)
            for file in damaged
        )
        store.record(number, BatchRecord(files=len(came), rows={}, periods=(), quarantined=bad))
    return files, [file.reason for file in refused]


def modify(path: Path, content: bytes) -> None:
    """Write a file anew, later than before as far as a clock can tell."""
    modified_ns = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))


def test_each_file_is_noted_once(run: Path, store: Store) -> None:
    assert news(run, store) == (files_of(run), [])
    assert news(run, store) == ([], [])


def test_a_noted_file_waits_for_its_batch(run: Path, store: Store) -> None:
    Arrivals(run, store).note_new()
    Arrivals(run, store).note_new()
    assert arrivals.waiting(store) == [0]
    assert list(arrivals.noted(store, 0)) == files_of(run)


def test_files_under_a_hidden_name_wait_until_they_are_complete(run: Path, store: Store) -> None:
    complete = reader.files(run, "hops")[0]
    growing = complete.rename(complete.with_name(f".{complete.name}.writing"))
    assert news(run, store) == (files_of(run), [])
    growing.rename(complete)
    assert news(run, store) == ([f"hops/{complete.name}"], [])


def test_a_copied_run_is_known_by_its_names_whatever_its_times(run: Path, store: Store) -> None:
    news(run, store)
    for name in files_of(run):
        os.utime(run / name, ns=(0, 0))
    assert news(run, store) == ([], [])


@pytest.mark.parametrize("original", ["there", "gone"])
def test_a_copy_under_another_name_is_refused(run: Path, store: Store, original: str) -> None:
    news(run, store)
    path = reader.files(run, "deliveries")[0]
    shutil.copy(path, path.with_name("part-copy-00000.parquet"))
    if original == "gone":
        path.unlink()
    reason = f"holds the same rows as deliveries/{path.name}, which was taken in"
    assert news(run, store) == ([], [reason])
    assert news(run, store) == ([], [])
    (refused,) = store.manifest().quarantined
    assert refused.file == "deliveries/part-copy-00000.parquet"


def test_files_without_rows_are_no_copies_of_each_other(run: Path, store: Store) -> None:
    path = reader.files(run, "deliveries")[0]
    nothing = pq.read_table(path).slice(0, 0)
    for name in ("part-one-00000.parquet", "part-two-00000.parquet"):
        pq.write_table(nothing, path.with_name(name))
    assert news(run, store) == (files_of(run), [])


def test_a_file_that_changes_after_it_was_taken_is_told_once(run: Path, store: Store) -> None:
    news(run, store)
    one, two = reader.files(run, "deliveries")[:2]
    pq.write_table(pa.concat_tables([pq.read_table(one), pq.read_table(two)]), one)
    noted, (reason,) = news(run, store)
    assert noted == []
    assert reason.startswith("has changed since it was taken in: it had ")
    assert news(run, store) == ([], [])


def test_a_refused_file_is_looked_at_again_when_it_has_changed(run: Path, store: Store) -> None:
    name = files_of(run)[0]
    good = (run / name).read_bytes()
    modify(run / name, good[:50])
    assert len(news(run, store)[1]) == 1
    assert news(run, store) == ([], [])
    modify(run / name, good[:60])
    assert len(news(run, store)[1]) == 1
    modify(run / name, good)
    assert news(run, store) == ([name], [])
    assert store.manifest().quarantined == ()


def test_a_file_that_was_damaged_inside_is_taken_when_a_good_one_comes(
    run: Path, store: Store
) -> None:
    name = files_of(run)[0]
    good = (run / name).read_bytes()
    assert len(news(run, store, damaged=(name,))[0]) == len(files_of(run))
    modify(run / name, b"PAR1")
    assert len(news(run, store)[1]) == 1
    modify(run / name, good)
    assert news(run, store) == ([name], [])


def test_files_are_packed_into_parts_and_batches(
    run: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "PART_BYTES", 12_000)
    monkeypatch.setattr(arrivals, "BATCH_BYTES_MAX", 30_000)
    Arrivals(run, store).note_new()
    batches = [arrivals.parts_of(store, number) for number in arrivals.waiting(store)]
    assert len(batches) > 1
    named = [file for parts in batches for part in parts for file in part.files]
    assert sorted(named) == sorted(files_of(run))
    for part in (part for parts in batches for part in parts):
        size_bytes = sum(arrival.size_bytes for arrival in part.arrivals)
        assert size_bytes <= 12_000 or len(part.files) == 1
        assert {file.partition("/")[0] for file in part.files} == {part.table}


def test_notes_are_read_once(run: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    news(run, store)
    read = Path.read_bytes
    again: list[Path] = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: (again.append(path), read(path))[1])
    assert news(run, store) == ([], [])
    assert not [path for path in again if path.parent == arrivals.folder_of(store)]


def test_a_note_that_is_none_is_refused(run: Path, store: Store) -> None:
    news(run, store)
    (arrivals.folder_of(store) / "000000.json").write_text("{}")
    with pytest.raises(FileError, match=r"000000\.json: is not a note of arrivals"):
        Arrivals(run, store)
