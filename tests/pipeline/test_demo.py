"""`gravitate demo` with and without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gravitate.config import scenario, workload_script


def assert_all_delivered(said: dict[str, Any]) -> None:
    for act in ("static", "grape"):
        assert said[act]["delivered"] == said[act]["expected"] > 0
    assert Path(said["network"]).exists()


def run(*options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "gravitate", "demo", "--seconds", "2", "--json", *options],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_it_begins_with_a_workload_from_spark_and_ends_with_a_report(tmp_path: Path) -> None:
    said = run("--trace", str(tmp_path / "run"))
    assert_all_delivered(said)
    page = Path(str(said["page"]))
    assert page == tmp_path / "run" / "report.html"
    assert page.read_text().startswith("<!doctype html>")
    assert (tmp_path / "run" / "grape" / "run.json").exists()
    played = workload_script.load(str(said["workload"]), scenario.load("demo").network)
    drawn = scenario.load("demo", duration_s=2.0)
    assert played.clients == drawn.clients
    assert played.publications == drawn.publications


def test_without_spark_it_plays_the_same_quotes_and_writes_no_report(tmp_path: Path) -> None:
    said = run("--no-spark", "--trace", str(tmp_path))
    assert_all_delivered(said)
    assert (said["workload"], said["page"]) == ("", "")


@pytest.mark.parametrize("holds", ["hops/part-x-00000.parquet"])
def test_a_folder_with_the_traces_of_another_run_is_refused(tmp_path: Path, holds: str) -> None:
    (tmp_path / holds).parent.mkdir()
    (tmp_path / holds).touch()
    done = subprocess.run(
        [sys.executable, "-m", "gravitate", "demo", "--trace", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "holds the traces of another run" in done.stderr
