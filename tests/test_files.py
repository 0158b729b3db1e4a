"""Small files are written whole or not at all, and people are told of them by their own names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gravitate.errors import FileError
from gravitate.files import write_json, write_whole


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    assert write_whole(target, b"old") == target
    write_json(target, {"a": 1})
    assert target.read_bytes() == b'{\n  "a": 1\n}\n'
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_made_where_that_is_asked_for(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "b" / "x", b"1", make_folder=True)
    assert (tmp_path / "a" / "b" / "x").read_bytes() == b"1"
    with pytest.raises(FileError) as refused:
        write_whole(tmp_path / "c" / "x", b"1")
    assert str(refused.value) == f"{tmp_path}/c/x: cannot be written: No such file or directory"


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(FileError, match="x: cannot be written: Is a directory"):
        write_whole(tmp_path / "x", b"1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_what_is_interrupted_leaves_what_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    write_whole(tmp_path / "x", b"old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "x", b"new", durable=True)
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("x", b"old")]


def test_what_is_durable_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        seen.append([entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")])
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    write_whole(tmp_path / "x", b"1", durable=True)
    assert seen == [[], ["x"]]
