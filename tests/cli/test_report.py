"""What `gravitate report` says and writes; its numbers are tested beside the pipeline."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.reports import double, single

from gravitate.cli import main as command_line
from gravitate.cli import output, spark
from gravitate.pipeline import report as reporting
from gravitate.pipeline.report import Report
from gravitate.pipeline.store.store import Store, StoreManifest
from gravitate.trace.manifest import RunManifest


class Answer(NamedTuple):
    status: int
    out: str
    err: str


Gravitate = Callable[..., Answer]


@pytest.fixture
def gravitate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gravitate:
    """Runs the command in this process, with no Spark to start and reports made by hand."""

    def started(*where: Any, hidden: bool) -> Any:
        if not hidden:
            output.say("starting Spark")
        return nullcontext()

    def made(session: Any, run: Path, compare: Path | None, tell: Callable[[str], None]) -> Report:
        tell("gathering")
        return single() if compare is None else double()

    monkeypatch.setattr(spark, "started", started)
    monkeypatch.setattr(reporting, "make_report", made)

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["gravitate", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        written = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, written.out, written.err)

    return run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose tables are there, in the folder that commands are given in."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "traces"
    manifest = RunManifest(network="", clock="virtual")
    manifest.save(folder)
    Store(folder / "tables").save(StoreManifest.of_run(manifest, 60.0))
    return folder


def test_a_report_is_a_page_and_a_table(gravitate: Gravitate, run: Path) -> None:
    status, out, err = gravitate("report", run)
    assert status == 0
    assert "delay, median" in out
    assert "40 ms" in out
    assert "report: report.html" in err
    assert Path("report.html").read_text().startswith("<!doctype html>")


def test_json_is_what_the_page_holds(gravitate: Gravitate, run: Path) -> None:
    status, out, _ = gravitate("report", run, "--json", "-o", "page.html")
    assert status == 0
    found = re.search(r'id="report">(.*?)</script>', Path("page.html").read_text(), re.S)
    assert found is not None
    assert json.loads(out) == json.loads(found[1]) == json.loads(msgspec.json.encode(single()))


def test_json_alone_writes_no_page(gravitate: Gravitate, run: Path) -> None:
    _, out, err = gravitate("report", run, "--json")
    assert json.loads(out)["compared"] is None
    assert err == "", "no progress beside JSON"
    assert not Path("report.html").exists()


def test_two_runs_are_shown_with_their_differences(gravitate: Gravitate, run: Path) -> None:
    status, out, err = gravitate("report", run, "--compare", run)
    assert status == 0
    assert re.search(r"delay, median.*40 ms.*20 ms.*−50\.0 %.*better", out)
    assert "The seed differs" in err


def test_files_that_came_after_the_tables_were_made_are_mentioned(
    gravitate: Gravitate, run: Path
) -> None:
    (run / "hops").mkdir()
    (run / "hops" / "part-b-00000.parquet").write_bytes(b"")
    err = gravitate("report", run, "--json").err
    assert "1 trace files have come since its tables were made" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("missing",), "missing: is not a folder: give the folder of a run"),
        ((".",), ".: holds neither traces nor tables: give the folder of a run"),
        (("traces", "--compare", "missing"), "missing: is not a folder"),
        (("traces", "-o", "traces"), "traces: is a folder: give the name of a file"),
        (("traces", "-o", "no/page.html"), "no/page.html: cannot be written"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    gravitate: Gravitate,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setattr(spark, "started", None)
    status, out, err = gravitate("report", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"gravitate: {sentence}")
