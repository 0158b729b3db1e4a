"""What `gravitate workload` accepts before anything is started."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gravitate.cli import spark
from gravitate.cli.main import app
from gravitate.config.workload_tables import WorkloadManifest
from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads import making
from gravitate.pipeline.workloads.catalogue import named
from gravitate.pipeline.workloads.location import Location
from gravitate.pipeline.workloads.making import parameters_of
from gravitate.pipeline.workloads.movement import Grid


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ("workload", *arguments), catch_exceptions=False)


def test_parts_of_a_parameter_are_set_by_their_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def make(session: Any, name: str, folder: Path, parameters: Any, **how: Any) -> Any:
        asked.append(parameters_of(named(name), parameters))
        return WorkloadManifest(workload=name, seed=1, parameters={}, source="", rows={})

    monkeypatch.setattr(spark, "started", lambda *where, hidden: nullcontext())
    monkeypatch.setattr(making, "make_workload", make)
    settings = ("grid.rows=10", "friends=2", "grid.columns=7", "movement.stay_chance=0.25")
    options = [word for setting in settings for word in ("--set", setting)]
    run("location", "--out", str(tmp_path / "w"), *options, "--json")
    (found,) = asked
    plain = Location()
    assert (found.grid.rows, found.grid.columns) == (10, 7)
    assert (found.grid.south, found.grid.west) == (Grid().south, Grid().west)
    assert (found.movement.stay_chance, found.friends) == (0.25, 2)
    assert found.movement.leave_chance == plain.movement.leave_chance


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "grid.rowes=10"), r"no parameter 'grid\.rowes': write some of .*grid\.rows"),
        (("--set", "friends.of=10"), r"no parameter 'friends\.of': write some of users, friends"),
        (("--set", "nothing.at.all=1"), r"no parameter 'nothing\.at\.all'"),
        (("--set", "grid.rows=many"), "many"),
        (("--set", "grid"), "'grid' sets nothing: write --set name=value"),
    ],
)
def test_what_is_no_parameter_is_refused_by_name(
    arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "started", None)
    with pytest.raises(InputError, match=sentence):
        run("location", "--out", str(tmp_path / "w"), *arguments)


def test_data_that_is_no_folder_is_told_of_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "started", None)
    with pytest.raises(FileError, match="missing: is not a folder with data"):
        run("location", "--out", str(tmp_path / "w"), "--data", str(tmp_path / "missing"))
