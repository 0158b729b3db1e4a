"""Tests are bounded by what they use, not by how long they take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SPINS = """
import subprocess, sys, time
import pytest

@pytest.mark.processor_time(0.5)
def test_sleeps():
    time.sleep(1.0)

@pytest.mark.processor_time(0.5)
def test_spins():
    while True:
        pass

@pytest.mark.processor_time(2.0)
def test_its_child_spins():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            child.wait()
        finally:
            child.kill()

@pytest.fixture
def spinning():
    while True:
        pass

@pytest.mark.processor_time(0.5)
def test_its_fixture_spins(spinning):
    pass

def test_comes_after():
    pass
"""


def test_who_spins_is_ended_and_who_sleeps_is_not(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(SPINS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.processor_time", "-rA", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
        capture_output=True,
        text=True,
    )
    said = {
        line.split(" ")[1].rpartition("::")[2]: line
        for line in ran.stdout.splitlines()
        if line.startswith(("PASSED ", "FAILED ", "ERROR "))
    }
    assert {name: line.split(" ")[0] for name, line in said.items()} == {
        "test_sleeps": "PASSED",
        "test_spins": "FAILED",
        "test_its_child_spins": "FAILED",
        "test_its_fixture_spins": "ERROR",
        "test_comes_after": "PASSED",
    }
    assert "of processor time, 0.5 s allowed" in ran.stdout
