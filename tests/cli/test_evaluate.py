"""What `gravitate evaluate` and `gravitate match` accept, answer and exit with."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.scripts import modelled, quiet_world, write_workload
from typer.testing import CliRunner

from gravitate.cli import spark
from gravitate.cli.main import app
from gravitate.config import network
from gravitate.errors import FileError, InputError
from gravitate.pipeline.evaluate import evaluation, truth
from gravitate.pipeline.evaluate.evaluation import Placement

SOUND = truth.Verdict(expected=3, delivered=3, missing=0, unexpected=0, doubled=0)
COUNTS = truth.Counts(
    workload="quotes",
    publications=2,
    subscriptions=4,
    matches=5,
    deliveries=3,
    matches_per_subscription_mean=1.25,
    matches_per_subscription_max=2,
    subscriptions_without_matches=1,
)


MOVES = """[{"type": "open-link", "id": "m1", "between": ["b1", "b2"],
             "why": {"reason": "much goes there", "gain": 4.0, "cost": 2.5}}]"""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "started", lambda *where, hidden: nullcontext())


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_an_evaluation_is_shown_as_tables_and_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = quiet_world(3)
    network.save(script.network, tmp_path / "network.toml")
    asked: list[Any] = []
    costs: list[float | None] = []

    def evaluated(
        session: Any, on: Any, workload: Path, placement: Placement, **options: Any
    ) -> Any:
        asked.append((on, workload, options["terms"].service_ms, options["duration_s"]))
        costs.append(placement.moves_cost)
        return modelled(script)

    monkeypatch.setattr(evaluation, "evaluate", evaluated)
    folder = write_workload({}, tmp_path / "w")
    arguments = ("evaluate", str(folder), "--network", str(tmp_path / "network.toml"))
    shown = run(*arguments)
    assert "delay ms p95" in shown.stdout
    assert "busiest brokers" in shown.stdout
    answer = json.loads(run(*arguments, "--json", "--service-ms", "2", "--duration", "9").stdout)
    assert answer == json.loads(msgspec.json.encode(modelled(script).told()))
    assert asked[1] == (script.network, folder, 2.0, 9.0)
    (tmp_path / "moves.json").write_text(MOVES)
    run(*arguments, "--moves", str(tmp_path / "moves.json"))
    assert costs == [None, None, 2.5]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "either a workload's folder with --network FILE, or --run RUN"),
        (("w", "--run", "r"), "either a workload's folder"),
        (("w",), "give its file with --network FILE"),
        (("--run", "r", "--network", "n"), "a run has its own network"),
        (("--run", "r", "--moves", "m"), "a run has its own network, forwarding and moves"),
        (("--run", "r", "--duration", "0"), "a duration of 0 s is not accepted: write a number"),
        (("--run", "r", "--duration", "nan"), "a duration of nan s is not accepted"),
    ],
)
def test_what_is_asked_for_must_fit_together(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run("evaluate", *arguments)


def test_files_that_are_not_there_are_told_of_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "started", None)
    with pytest.raises(FileError, match=r"network\.toml: cannot be read"):
        run("evaluate", "w", "--network", str(tmp_path / "network.toml"))
    with pytest.raises(FileError, match="has no tables of a run"):
        run("evaluate", "--run", str(tmp_path))
    with pytest.raises(FileError, match=r"has no workload\.json"):
        run("match", str(tmp_path))


@pytest.mark.parametrize("command", ["evaluate", "match"])
def test_a_folder_in_use_is_not_written_to(command: str, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    options = ("--network", "n") if command == "evaluate" else ()
    with pytest.raises(FileError, match="is not empty: give a new folder"):
        run(command, "w", *options, "--out", str(tmp_path))
    # A file is no folder at all.
    with pytest.raises(FileError, match="mine: is not empty: give a new folder"):
        run(command, "w", *options, "--out", str(tmp_path / "mine"))


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (None, 0),
        (SOUND, 0),
        (msgspec.structs.replace(SOUND, missing=1), 1),
        (msgspec.structs.replace(SOUND, unexpected=1), 1),
        (msgspec.structs.replace(SOUND, doubled=1), 1),
    ],
)
def test_a_run_that_is_not_right_gives_status_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdict: truth.Verdict | None, status: int
) -> None:
    monkeypatch.setattr(truth, "match", lambda *asked: (COUNTS, verdict))
    folder = str(write_workload({}, tmp_path / "w"))
    options = () if verdict is None else ("--run", "r")
    shown = run("match", folder, *options)
    assert shown.exit_code == status
    assert "matches per subscription mean" in shown.stdout
    answer = json.loads(run("match", folder, *options, "--json").stdout)
    assert answer["deliveries"] == 3
    assert answer.get("run") == (None if verdict is None else msgspec.to_builtins(verdict))
