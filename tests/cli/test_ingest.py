"""What `gravitate ingest` says; what it does is tested with Spark beside the pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gravitate.cli import main as command_line
from gravitate.cli import spark
from gravitate.pipeline import ingest as ingesting
from gravitate.pipeline.ingest import Ingested
from gravitate.pipeline.store.store import Quarantined, Store
from gravitate.trace.manifest import RunManifest


class Answer(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def gravitate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Runs the command in this process, with no Spark to start."""
    monkeypatch.setattr(spark, "started", lambda *where, hidden: nullcontext())

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["gravitate", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        written = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, written.out, written.err)

    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    RunManifest(network="[[brokers]]", clock="virtual").save(tmp_path)
    return tmp_path


def takes(*answers: Ingested) -> Callable[..., Ingested]:
    """An ingest with these answers, one a call, that is interrupted after the last."""
    left: Iterator[Ingested] = iter(answers)

    def ingest(session: Any, run: Path, store: Path, tell: Callable[[str], None]) -> Ingested:
        tell("copying rows")
        answer = next(left, None)
        if answer is None:
            raise KeyboardInterrupt
        return answer

    return ingest


SOME = Ingested(
    store="traces/tables",
    files=3,
    rows={"hops": 12345},
    periods=2,
    quarantined=(Quarantined("hops/part-b-00001.parquet", "cannot be read as Parquet"),),
    copied_s=1.25,
    derived_s=0.5,
)
NOTHING = Ingested("traces/tables", 0, {}, 0, (), 0.0, 0.0)


def test_it_says_what_was_taken_and_what_was_left_out(
    gravitate: Callable[..., Answer], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "ingest", takes(SOME))
    status, out, err = gravitate("ingest", run)
    assert status == 0
    assert "hops, rows" in out
    assert "12,345" in out
    assert "left out: hops/part-b-00001.parquet: cannot be read as Parquet" in err


def test_it_says_the_same_as_json(
    gravitate: Callable[..., Answer], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "ingest", takes(SOME))
    answer = json.loads(gravitate("ingest", run, "--json").out)
    assert (answer["files"], answer["rows"], answer["periods"]) == (3, {"hops": 12345}, 2)
    assert answer["quarantined"][0]["file"] == "hops/part-b-00001.parquet"


def test_following_it_speaks_when_something_has_come_and_ends_with_ctrl_c(
    gravitate: Callable[..., Answer], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "ingest", takes(SOME, NOTHING, SOME))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    status, out, _ = gravitate("ingest", run, "--follow", "--json")
    assert status == 0
    assert [json.loads(line)["files"] for line in out.splitlines()] == [3, 3]


def test_the_store_is_made_where_it_is_asked_for(
    gravitate: Callable[..., Answer], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "ingest", takes(NOTHING))
    gravitate("ingest", run, "--into", run / "elsewhere", "--period", "5")
    assert Store(run / "elsewhere").manifest().period_s == 5.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "has no run.json: give the folder that traces were written to"),
        (("--period", "0"), "a period of 0 s is not accepted: write a number above 0"),
        (("--into", "run.json/x"), "cannot be written: Not a directory"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    gravitate: Callable[..., Answer],
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(run)
    monkeypatch.setattr(spark, "started", None)
    folder = run if arguments else run / "missing"
    status, out, err = gravitate("ingest", folder, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("gravitate: ")
    assert sentence in err
