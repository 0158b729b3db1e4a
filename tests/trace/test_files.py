"""Files of traces on a disk that fails: what is complete stays, what is not has no name."""

from __future__ import annotations

import errno
import gc
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.trace.disks import no_file_larger_than, small_disk

from gravitate.trace import manifest, reader
from gravitate.trace.columns import RowColumns
from gravitate.trace.files import RollingFile, TraceFiles
from gravitate.trace.schemas import MOVES, SUBSCRIPTIONS

RUN = manifest.RunManifest(network="name = 'n'", clock="unix")
FULL = OSError(errno.ENOSPC, "No space left on device")


def rows(count: int, text: str = "") -> RowColumns:
    """Changes of subscriptions, with conditions that no compression makes small."""
    made = RowColumns(SUBSCRIPTIONS)
    noise = random.Random(text)
    for _ in range(count):
        made.append("b1", "s", "x", 1.0, "subscribed", noise.randbytes(50).hex())
    return made


def a_move() -> RowColumns:
    made = RowColumns(MOVES)
    made.append("m", "relocate-publisher", "b1", 1.0, "done", "", 0.0, 0.0, "{}")
    return made


def rolling(directory: Path, rows_per_file: int = 100) -> RollingFile:
    return RollingFile(directory, "subscriptions", SUBSCRIPTIONS, "b1", rows_per_file)


def names(directory: Path, table: str = "subscriptions") -> list[str]:
    """All there is, hidden or not."""
    return sorted(path.name for path in (directory / table).iterdir())


def part(number: int) -> str:
    return f"part-b1-{number:05d}.parquet"


class Disk:
    """Lets Parquet be written, or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        for step in ("write_table", "close"):
            monkeypatch.setattr(pq.ParquetWriter, step, self._checked(step))

    def _checked(self, step: str) -> object:
        really = getattr(pq.ParquetWriter, step)

        def checked(writer: pq.ParquetWriter, *what: object) -> None:
            if self.is_full:
                raise FULL
            really(writer, *what)

        return checked


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def open_files() -> set[str]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("open files are looked up in /proc")
    return {os.readlink(one) for one in folder.iterdir() if os.path.lexists(one)}


def test_a_file_that_fails_goes_and_the_next_rows_begin_another(tmp_path: Path, disk: Disk) -> None:
    file = rolling(tmp_path)
    file.write(rows(10).table())
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        file.write(rows(10).table())
    assert names(tmp_path) == []
    assert not [path for path in open_files() if str(tmp_path) in path]
    disk.is_full = False
    file.write(rows(30).table())
    file.close()
    assert names(tmp_path) == [part(0)]
    assert reader.read(tmp_path, "subscriptions").num_rows == 30
    assert (file.rows_written, file.rows_unfinished) == (30, 0)


def test_a_file_that_cannot_be_completed_gets_no_name(
    tmp_path: Path, disk: Disk, capfd: pytest.CaptureFixture[str]
) -> None:
    file = rolling(tmp_path)
    file.write(rows(10).table())
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        file.close()
    file.close()
    gc.collect()
    assert names(tmp_path) == []
    assert (file.rows_written, file.rows_unfinished) == (0, 0)
    assert capfd.readouterr().err == ""


def test_after_a_failure_files_are_short_at_first(tmp_path: Path, disk: Disk) -> None:
    file = rolling(tmp_path, rows_per_file=40)
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        file.write(rows(10).table())
    disk.is_full = False
    for _ in range(11):
        file.write(rows(10).table())
    lengths = [pq.read_metadata(path).num_rows for path in reader.files(tmp_path, "subscriptions")]
    assert lengths == [10, 20, 40, 40]


def test_a_file_that_vanishes_is_missed_at_the_next_rows(tmp_path: Path) -> None:
    file = rolling(tmp_path)
    file.write(rows(10).table())
    shutil.rmtree(tmp_path / "subscriptions")
    with pytest.raises(FileNotFoundError, match="has vanished"):
        file.write(rows(10).table())
    assert file.rows_unfinished == 0
    file.write(rows(10).table())
    assert names(tmp_path) == [part(0)]


def test_a_table_that_fails_does_not_keep_others_from_being_completed(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, "b1")
    files.put("moves", a_move())
    files.put("subscriptions", rows(10))
    assert files.rows_unfinished == 11
    shutil.rmtree(tmp_path / "moves")
    with pytest.raises(FileNotFoundError):
        files.close()
    assert names(tmp_path) == [part(0)]
    assert (files.rows_written, files.rows_unfinished) == (10, 0)


def test_rows_that_make_no_table_do_no_harm_to_the_file(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, "b1")
    files.put("subscriptions", rows(10))
    bad = RowColumns(SUBSCRIPTIONS)
    bad.append("b1", "s", "x", "noon", "subscribed", None)
    with pytest.raises(pa.ArrowException):
        files.put("subscriptions", bad)
    files.put("subscriptions", rows(10))
    files.close()
    assert reader.read(tmp_path, "subscriptions").num_rows == 20


def test_a_folder_that_vanished_is_made_again_with_its_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    RUN.save(folder)
    files = TraceFiles(folder, "b1", run=RUN)
    shutil.rmtree(folder)
    files.put("subscriptions", rows(10))
    files.close()
    assert manifest.load(folder) == RUN
    assert reader.read(folder, "subscriptions").num_rows == 10


def test_what_a_small_disk_takes_is_readable_and_more_fits_when_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 256 * 1024) as folder:
        file = rolling(folder, rows_per_file=600)
        failures = set()
        for number in range(100):
            try:
                file.write(rows(200, str(number)).table())
            except OSError as error:
                failures.add(error.errno)
        assert failures == {errno.ENOSPC}
        kept = reader.read(folder, "subscriptions").num_rows
        assert kept == file.rows_written > 0
        for path in reader.files(folder, "subscriptions"):
            path.unlink()
        file.write(rows(200).table())
        file.close()
        assert reader.read(folder, "subscriptions").num_rows == file.rows_written - kept >= 200


def test_what_the_system_refuses_to_write_is_let_go(tmp_path: Path) -> None:
    file = rolling(tmp_path, rows_per_file=1_000)
    file.write(rows(200, "a").table())
    with no_file_larger_than(16 * 1024), pytest.raises(OSError, match="File too large"):
        file.write(rows(400, "b").table())
    assert names(tmp_path) == []
    file.write(rows(200, "c").table())
    assert names(tmp_path) == [part(0)]
    assert reader.read(tmp_path, "subscriptions").num_rows == file.rows_written == 200
