"""Sizes of communities: a power law like the measured one, or what a file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads import communities


def test_the_stand_in_falls_with_rank_as_the_measured_sizes_do() -> None:
    found = communities.communities_of(None, communities.COUNT)
    assert len(found.sizes) == 2500
    assert communities.rank_slope(found.sizes) == pytest.approx(-1.16, abs=0.01)
    assert found.sizes[0] / found.sizes[99] == pytest.approx(100**1.16)
    assert found.source.startswith("synthetic")


def test_measured_sizes_come_largest_first(tmp_path: Path) -> None:
    _write(tmp_path, "subreddit,subscribers,name\na,5,x\nb,70,y\nc,6,z\n")
    found = communities.communities_of(tmp_path, 2)
    assert found.sizes.tolist() == [70, 6]
    assert found.source == "Reddit 2013-08 community sizes"


def test_the_slope_is_that_of_least_squares() -> None:
    assert communities.rank_slope(np.array([1.0, 0.25, 1 / 9, 0.0])) == pytest.approx(-2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("subreddit,readers\na,5\n", ":1: has no column 'subscribers'"),
        ("subreddit,subscribers\na,5\nb,many\n", ":3: 'many' in column 'subscribers'"),
        ("subreddit,subscribers\na\n", ":2: '' in column 'subscribers'"),
    ],
)
def test_files_without_sizes_are_refused(tmp_path: Path, text: str, said: str) -> None:
    _write(tmp_path, text)
    with pytest.raises(FileError, match=communities.FILE) as refused:
        communities.communities_of(tmp_path, 1)
    assert said in str(refused.value)


def test_more_communities_than_there_are_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, "subscribers\n5\n6\n")
    with pytest.raises(InputError, match="write at most 2"):
        communities.communities_of(tmp_path, 3)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"{communities.FILE}: is missing"):
        communities.communities_of(tmp_path, 3)


def _write(folder: Path, text: str) -> None:
    (folder / communities.FILE).write_text(text)
