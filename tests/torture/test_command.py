"""What `gravitate torture` says beside its verdict."""

from __future__ import annotations

import pytest

from gravitate.cli.torture import FAULTS, torture
from gravitate.torture import faults, run
from gravitate.torture.run import Report, Settings


def test_a_run_that_fails_says_where_the_logs_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(settings: Settings, tell: object) -> Report:
        problem = AssertionError("b01 does not run")
        problem.add_note("logs of the brokers: /tmp/somewhere")
        raise problem

    monkeypatch.setattr(run, "torture", fails)
    with pytest.raises(AssertionError):
        torture("kill", json=True)
    assert "logs of the brokers: /tmp/somewhere" in capsys.readouterr().err


def test_the_command_knows_all_faults_without_loading_them() -> None:
    assert tuple(faults.FAULTS) == FAULTS
