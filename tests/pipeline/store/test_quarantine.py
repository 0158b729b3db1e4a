from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.runs import damage

from gravitate.errors import FileError
from gravitate.pipeline.store.copying import copy_part
from gravitate.pipeline.store.quarantine import Unfit, look, sound_rows
from gravitate.trace.schemas import LINKS

ROWS = [
    {"broker": "b1", "peer": "b2", "at_s": at_s, "state": None, "events": 1, "size_bytes": 10}
    for at_s in (0.5, 59.9, 60.0, 3600.0)
]


def write(path: Path, rows: list[dict[str, object]] = ROWS, schema: pa.Schema = LINKS) -> Path:
    table = pa.Table.from_pylist([{"rtt_s": None, **row} for row in rows], schema)
    pq.write_table(table, path, write_page_checksum=True)
    return path


def without(column: str) -> pa.Schema:
    return pa.schema([field for field in LINKS if field.name != column])


def with_kind(column: str, kind: pa.DataType) -> pa.Schema:
    return LINKS.set(LINKS.get_field_index(column), pa.field(column, kind))


def test_a_sound_file_says_how_many_rows_it_has(tmp_path: Path) -> None:
    assert look(write(tmp_path / "part-0.parquet"), "links").rows == len(ROWS)


def test_files_with_other_rows_have_other_fingerprints(tmp_path: Path) -> None:
    one = look(write(tmp_path / "1.parquet"), "links")
    copy = look(write(tmp_path / "2.parquet"), "links")
    other = look(write(tmp_path / "3.parquet", ROWS[:3]), "links")
    assert one == copy
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (without("events"), "column 'events' of table 'links' is missing"),
        (with_kind("events", pa.int32()), "column 'events' of table 'links' is int, expected bi"),
        (LINKS.append(pa.field("extra", pa.int8())), "column 'extra' is not part of table 'links'"),
    ],
)
def test_a_file_with_other_columns_is_unfit_and_the_column_is_named(
    tmp_path: Path, schema: pa.Schema, reason: str
) -> None:
    with pytest.raises(Unfit) as found:
        look(write(tmp_path / "part-0.parquet", schema=schema), "links")
    assert found.value.reason.startswith(reason)


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_half_a_file_is_unfit(tmp_path: Path, length: int) -> None:
    path = write(tmp_path / "part-0.parquet")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Unfit, match="cannot be read as Parquet: "):
        look(path, "links")


def test_nulls_where_there_must_be_none_are_seen_in_the_footer(tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[0], "peer": None}]
    path = write(tmp_path / "part-0.parquet", rows, with_kind("peer", pa.string()))
    with pytest.raises(Unfit, match="column 'peer' of table 'links' has nulls"):
        look(path, "links")


@pytest.mark.parametrize("at_s", [float("nan"), float("inf"), 1e300])
def test_a_time_that_is_none_is_found_while_reading(tmp_path: Path, at_s: float) -> None:
    path = write(tmp_path / "part-0.parquet", [*ROWS, {**ROWS[0], "at_s": at_s}])
    look(path, "links")
    with pytest.raises(Unfit, match=r"column 'at_s' of table 'links' has .* which is no time"):
        list(sound_rows(path, "links", 60.0))


def test_a_part_holds_the_rows_of_its_files_and_their_periods(tmp_path: Path) -> None:
    sources = [write(tmp_path / "1.parquet", ROWS[:2]), write(tmp_path / "2.parquet", ROWS[2:])]
    copied, damaged = copy_part(sources, "links", tmp_path / "out" / "part.parquet", 60.0)
    rows = pq.read_table(tmp_path / "out" / "part.parquet").to_pylist()
    assert [row.pop("period") for row in rows] == [0, 0, 1, 60]
    assert rows == [{**row, "rtt_s": None} for row in ROWS]
    assert (copied.files, copied.rows, copied.periods, damaged) == (2, 4, {0, 1, 60}, {})


@pytest.mark.parametrize("column", ["broker", "at_s", "events"])
def test_a_damaged_file_is_left_out_whole_and_its_neighbours_are_not(
    tmp_path: Path, column: str
) -> None:
    sources = [write(tmp_path / f"{i}.parquet", [row]) for i, row in enumerate(ROWS)]
    damage(sources[2], column)
    target = tmp_path / "part.parquet"
    copied, damaged = copy_part(sources, "links", target, 60.0)
    assert list(damaged) == [sources[2]]
    assert pq.read_table(target)["at_s"].to_pylist() == [0.5, 59.9, 3600.0]
    assert (copied.rows, copied.periods) == (3, {0, 60})


def test_a_part_of_damaged_files_alone_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out" / "part.parquet"
    source = write(tmp_path / "1.parquet")
    damage(source)
    _, damaged = copy_part([source], "links", target, 60.0)
    assert len(damaged) == 1
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (FileNotFoundError(errno.ENOENT, "gone"), "No such file or directory"),
        (PermissionError(errno.EACCES, "not yours"), "Permission denied"),
        (OSError(errno.EIO, "disk"), "Input/output error"),
        (OSError(errno.EMFILE, "files"), "Too many open files"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "malloc of size 64 failed"),
    ],
)
def test_a_file_that_cannot_be_got_at_is_not_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, told: str
) -> None:
    source = write(tmp_path / "1.parquet")

    def refuse(*arguments: object, **named: object) -> None:
        raise problem

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    for attempt in (
        lambda: look(source, "links"),
        lambda: copy_part([source], "links", tmp_path / "part.parquet", 60.0),
    ):
        with pytest.raises(FileError, match=rf"1\.parquet: cannot be read: {told}"):
            attempt()


def test_a_file_that_is_not_on_this_machine_is_not_unfit(tmp_path: Path) -> None:
    sources = [write(tmp_path / "1.parquet"), tmp_path / "2.parquet"]
    with pytest.raises(FileError, match=r"2\.parquet: cannot be read: No such file"):
        copy_part(sources, "links", tmp_path / "part.parquet", 60.0)


def test_a_place_that_cannot_be_written_is_no_fault_of_the_files(tmp_path: Path) -> None:
    source = write(tmp_path / "1.parquet")
    with pytest.raises(FileError, match=r"part\.parquet: cannot be written: Not a directory"):
        copy_part([source], "links", source / "out" / "part.parquet", 60.0)
