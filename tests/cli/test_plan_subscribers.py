"""What `gravitate plan subscribers` accepts, answers and exits with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.plans import plan, reassignment
from typer.testing import CliRunner

from gravitate.cli import spark
from gravitate.cli.main import app
from gravitate.cli.plan import in_words
from gravitate.config import plan as plans
from gravitate.config.planning import SubscriberOptions
from gravitate.errors import FileError, InputError
from gravitate.pipeline.planning import making

MADE = msgspec.structs.replace(
    plan(reassignment("s", "a", "b", "c")),
    kind="subscribers",
    yardstick={"filter_volume_before": 2.5},
    notes=("Gr* chose 3 moves; 2 that bring nothing are left out.",),
)


pytestmark = pytest.mark.usefixtures("no_spark")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The choices that were asked for; the answer is `MADE`."""
    found: list[Any] = []

    def made(session: Any, folder: Path, planner: Any, *others: Any) -> Any:
        found.append(planner.choice)
        return MADE

    monkeypatch.setattr(making, "make_plan", made)
    return found


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(
        app, ["plan", "subscribers", *map(str, arguments)], catch_exceptions=False
    )


def test_a_plan_is_shown_and_written(asked: list[Any], traces: Path, tmp_path: Path) -> None:
    answer = run(traces, "-o", tmp_path / "p.json")
    shown = answer.stdout
    assert "predicted after" in shown
    assert "-38.5 %" in shown
    assert "s: a - b - c" in shown
    assert "filter volume before" in shown
    assert "2 that bring nothing are left out." in answer.stderr
    assert plans.load(tmp_path / "p.json") == MADE
    assert asked == [SubscriberOptions()]
    assert msgspec.json.decode(run(traces, "--json").stdout, type=plans.Plan) == MADE


def test_delays_are_shown_with_what_they_are_counted_to() -> None:
    assert in_words("delay_ms_p95") == "delay ms p95, between brokers"
    assert in_words("client_delay_ms_p95") == "delay ms p95, to the client"
    assert in_words("hops_mean") == "hops mean"


def test_options_are_what_is_chosen_by(asked: list[Any], traces: Path) -> None:
    options = {
        "--algorithm": "Gr",
        "--delay-max": "0.5",
        "--delay-ms-max": "20",
        "--beta": "1.2",
        "--beta-max": "1.4",
        "--complexity": "5",
        "--axes": "3",
        "--seed": "7",
        "--moves-max": "9",
        "--rounds": "0",
        "--at-least": "2",
    }
    run(traces, "--json", *(word for pair in options.items() for word in pair))
    assert asked == [
        SubscriberOptions(
            algorithm="Gr",
            delay_max=0.5,
            delay_ms_max=20.0,
            beta=1.2,
            beta_max=1.4,
            complexity=5,
            axes=3,
            seed=7,
            moves_max=9,
            rounds=0,
            at_least=2,
        )
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--algorithm", "gravity"), "algorithm 'gravity' is not known: write one of Gr, "),
        (("--axes", "0"), "axes = 0 is not accepted: write 1 or more"),
        (("--beta", "2"), "beta = 2 and beta_max = 1.8 are not accepted"),
        (("--delay-max", "nan"), "delay_max = nan is not accepted: write a number from 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    traces: Path, options: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        run(traces, *options)


def test_files_are_looked_at_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, traces: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "started", None)
    with pytest.raises(FileError, match="is not a folder"):
        run(tmp_path / "nothing")
    with pytest.raises(FileError, match="is a folder: give the name of a file"):
        run(traces, "-o", tmp_path)


def test_a_planned_move_is_explained_by_the_name_of_its_subscriber(tmp_path: Path) -> None:
    plans.save(MADE, tmp_path / "plan.json")
    answer = CliRunner().invoke(
        app, ["explain", "s", str(tmp_path / "plan.json"), "--json"], catch_exceptions=False
    )
    (told,) = msgspec.json.decode(answer.stdout)
    assert (told["move"]["subscriber"], told["state"]) == ("s", "planned")
