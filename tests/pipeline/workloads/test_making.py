"""A workload is made whole or not at all, never over something else, from sound parameters."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from gravitate.config.workload_tables import MANIFEST, load_manifest
from gravitate.errors import EnvironmentLack, FileError, InputError
from gravitate.pipeline.spark.session import told_plainly
from gravitate.pipeline.workloads import making
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan, Tallied
from gravitate.pipeline.workloads.making import check_free, make_workload, parameters_of


class ToyParameters(msgspec.Struct, frozen=True):
    links: int = 12
    cost: float = 1.0
    dies_at: int = -1
    """The block whose worker is killed, when the file `alive` is not there."""
    alive: str = ""


def toy() -> Definition:
    """Links in blocks of 3, with a count and a statistic from it."""

    def make(parameters: ToyParameters, seed: int, data: Path | None) -> Made:
        cost, dies_at, alive = parameters.cost, parameters.dies_at, parameters.alive

        def links(block: Block) -> Tallied:
            if block.number == dies_at and not os.path.exists(alive):
                os.kill(os.getpid(), signal.SIGKILL)
            rows = pa.table(
                {
                    "broker": [f"a{number}" for number in range(block.start, block.stop)],
                    "peer": ["b"] * len(block),
                    "cost": cost * block.generator().random(len(block)),
                }
            )
            return Tallied(rows, {"made": len(block)})

        return Made(
            (TablePlan("links", parameters.links, links, 3),),
            source="toys" if data is None else f"toys of {data.name}",
            statistics={"known": 1.0},
            measured=lambda counts: {"made_twice": 2.0 * counts["made"]},
        )

    def check(parameters: ToyParameters) -> None:
        if parameters.links < 1:
            raise InputError(f"'links' is {parameters.links}: write a whole number from 1")

    return Definition("toy", "a toy", ToyParameters, make, check)


@pytest.fixture(autouse=True)
def catalogue_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "named", lambda name: toy())


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def test_a_killed_generation_leaves_no_manifest_and_can_be_run_again(
    spark: Any, tmp_path: Path
) -> None:
    alive = tmp_path / "alive"
    fatal = {"dies_at": 2, "alive": str(alive)}
    with pytest.raises(EnvironmentLack, match="worker of Spark was killed"), told_plainly():
        make_workload(spark, "toy", tmp_path / "killed", fatal, tasks=1)
    assert files(tmp_path / "killed")
    assert not (tmp_path / "killed" / MANIFEST).exists()
    with pytest.raises(FileError, match=r"has no workload\.json"):
        load_manifest(tmp_path / "killed")
    alive.touch()
    made = make_workload(spark, "toy", tmp_path / "killed", fatal)
    assert load_manifest(tmp_path / "killed") == made
    make_workload(spark, "toy", tmp_path / "whole", fatal)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_the_manifest_says_what_was_made_and_from_what(spark: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    (tmp_path / "measurements").mkdir()
    made = make_workload(
        spark,
        "toy",
        tmp_path / "toy",
        {"links": "7", "cost": 2},
        seed=3,
        data=tmp_path / "measurements",
        progress=lambda done, total: told.append((done, total)),
    )
    assert made.rows == {"links": 7}
    assert made.seed == 3
    assert made.parameters == {"links": 7, "cost": 2.0, "dies_at": -1, "alive": ""}
    assert made.source == "toys of measurements"
    assert made.statistics == {"known": 1.0, "made_twice": 14.0}
    assert told[-1] == (3, 3)
    with pytest.raises(FileError, match="holds a workload already"):
        make_workload(spark, "toy", tmp_path / "toy")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"colour": "red"}, "workload 'toy' has no parameter 'colour': write some of links, cost"),
        ({"links": "many"}, "workload 'toy': 'links' is 'many': write a whole number"),
        ({"links": 0}, "workload 'toy': 'links' is 0: write a whole number from 1"),
    ],
)
def test_wrong_parameters_are_told_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parameters_of(toy(), given)


def test_a_data_folder_that_is_not_there_is_told_before_anything_is_touched(
    tmp_path: Path,
) -> None:
    with pytest.raises(FileError, match="is not a folder with data"):
        make_workload(None, "toy", tmp_path / "toy", data=tmp_path / "nowhere")
    assert not (tmp_path / "toy").exists()


def test_a_folder_that_cannot_be_made_and_a_negative_seed_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "file")
    with pytest.raises(FileError, match="file/toy: cannot be written"):
        make_workload(None, "toy", tmp_path / "file" / "toy")
    with pytest.raises(InputError, match="seed -1 is not accepted"):
        make_workload(None, "toy", tmp_path / "toy", seed=-1)


def written(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: written(folder / "thesis.txt"), "holds 'thesis.txt'"),
        (lambda folder: written(folder / "links" / "thesis.txt"), "holds 'links/thesis.txt'"),
        (lambda folder: written(folder / "links"), "holds 'links'"),
        (lambda folder: written(folder), "is not a folder"),
        (lambda folder: written(folder / MANIFEST), "holds a workload already"),
    ],
)
def test_what_is_not_an_unfinished_workload_is_left_alone(
    tmp_path: Path, prepare: Callable[[Path], None], said: str
) -> None:
    prepare(tmp_path / "out")
    with pytest.raises(FileError, match=said):
        make_workload(None, "toy", tmp_path / "out")
    kept = [path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_file()]
    assert [path.read_text() for path in kept] == ["mine"]


def test_the_leavings_of_an_unfinished_workload_are_no_obstacle(tmp_path: Path) -> None:
    written(tmp_path / "links" / "part-00000.parquet")
    written(tmp_path / "links" / ".part-00001.parquet.123.writing")
    written(tmp_path / f".{MANIFEST}.123.writing")
    check_free(tmp_path)
