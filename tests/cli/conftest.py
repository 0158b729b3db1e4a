"""Commands without the Spark behind them, and a folder that looks like a run."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.support.plans import LINE

from gravitate.cli import spark
from gravitate.config import network
from gravitate.trace.manifest import RunManifest


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "started", lambda *where, hidden: nullcontext())


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    RunManifest(network.render(LINE), "virtual").save(tmp_path / "traces")
    return tmp_path / "traces"
