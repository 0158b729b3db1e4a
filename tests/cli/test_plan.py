"""What `gravitate plan publishers` and `gravitate verify` accept, answer and exit with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.plans import plan, relocation
from typer.testing import CliRunner

from gravitate.cli import spark
from gravitate.cli.main import app
from gravitate.config import plan as plans
from gravitate.errors import FileError, InputError
from gravitate.pipeline.planning import making, verification

pytestmark = pytest.mark.usefixtures("no_spark")


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


def test_a_plan_is_shown_and_written(
    monkeypatch: pytest.MonkeyPatch, traces: Path, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def made(session: Any, folder: Path, mechanism: Any, *others: Any) -> Any:
        asked.append(mechanism)
        return plan()

    monkeypatch.setattr(making, "make_plan", made)
    options = ("--prioritise", "delay", "--weight", "75", "--at-least", "3")
    shown = run("plan", "publishers", traces, *options, "-o", tmp_path / "p.json")
    assert "predicted after" in shown.stdout
    assert "-38.5 %" in shown.stdout
    assert "a - b - c" in shown.stdout
    assert plans.load(tmp_path / "p.json") == plan()
    choice = asked[0].choice
    assert (choice.prioritise, choice.weight, choice.at_least) == ("delay", 75.0, 3)
    told = run("plan", "publishers", traces, "--json").stdout
    assert msgspec.json.decode(told.encode(), type=plans.Plan) == plan()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--mechanism", "gravity"), "unknown mechanism 'gravity'"),
        (("--prioritise", "cost"), "cannot prioritise 'cost': write one of delay, load"),
        (("--weight", "101"), "weight 101.0 % is not accepted"),
        (("--margin", "-1"), "margin -1.0 % is not accepted"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    traces: Path, options: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        run("plan", "publishers", traces, *options)


def test_files_are_looked_at_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, traces: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "started", None)
    with pytest.raises(FileError, match="is not a folder"):
        run("plan", "publishers", tmp_path / "nothing")
    with pytest.raises(FileError, match="is a folder: give the name of a file"):
        run("plan", "publishers", traces, "-o", tmp_path)
    with pytest.raises(FileError, match="is not empty: give a new folder"):
        run("plan", "publishers", traces, "-o", tmp_path / "plan.json", "--out", tmp_path)
    with pytest.raises(FileError, match=r"plan\.json: cannot be read"):
        run("verify", tmp_path / "plan.json", traces)


def figures(rate: float) -> dict[str, float | None]:
    return {
        "duration_s": 10.0,
        "published": 20.0,
        "broker_rate_msgs_per_s_mean": rate,
        "psoop_cost": None,
    }


@pytest.mark.parametrize(
    ("measured", "options", "status"),
    [(104.0, (), 0), (111.0, (), 1), (89.0, (), 1), (111.0, ("--tolerance", "12"), 0)],
)
def test_a_prediction_that_did_not_hold_gives_status_1(
    monkeypatch: pytest.MonkeyPatch,
    traces: Path,
    tmp_path: Path,
    measured: float,
    options: tuple[str, ...],
    status: int,
) -> None:
    made = msgspec.structs.replace(
        plan(relocation("p", "a", "b")), before=figures(300.0), after=figures(100.0)
    )
    plans.save(made, tmp_path / "plan.json")

    def verified(session: Any, made: Any, run: Path, tolerance: float, tell: Any) -> Any:
        came = figures(100.0)
        return verification.compared(made, run.name, figures(measured), came, 1, None, tolerance)

    monkeypatch.setattr(verification, "verify", verified)
    shown = run("verify", tmp_path / "plan.json", traces, *options)
    assert shown.exit_code == status
    assert f"{measured - 100:+.1f} %" in shown.stdout
    answer = json.loads(run("verify", tmp_path / "plan.json", traces, *options, "--json").stdout)
    assert answer["holds"] == (status == 0)
