"""`gravitate demo` with and without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gravitate.config import scenario, workload_script


def run(*options: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "gravitate", "demo", "--seconds", "2", "--json", *options],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_it_begins_with_a_workload_from_spark_and_ends_with_a_report(tmp_path: Path) -> None:
    said = run("--trace", str(tmp_path / "run"))
    assert said["delivered"] == said["expected"]
    page = Path(str(said["page"]))
    assert page == tmp_path / "run" / "report.html"
    assert page.read_text().startswith("<!DOCTYPE html>")
    played = workload_script.load(str(said["workload"]), scenario.load("demo").network)
    drawn = scenario.load("demo", duration_s=2.0)
    assert played.clients == drawn.clients
    assert played.publications == drawn.publications


def test_without_spark_it_plays_the_same_quotes_and_writes_no_report(tmp_path: Path) -> None:
    said = run("--no-spark", "--trace", str(tmp_path))
    assert said["delivered"] == said["expected"]
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
