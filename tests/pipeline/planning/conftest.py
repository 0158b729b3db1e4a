"""A simulated run whose publishers are badly placed, and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.planning.worlds import Recorded, record, stock_world

from gravitate.config.script import Script
from gravitate.pipeline.ingest import ingest


@pytest.fixture(scope="session")
def script() -> Script:
    return stock_world(7)


@pytest.fixture(scope="session")
def run(spark: Any, script: Script, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The run of the script, taken in."""
    folder = tmp_path_factory.mktemp("planning") / "run"
    recorded = record(script, folder)
    ingest(spark, folder, period_s=10.0)
    return msgspec.structs.replace(recorded, folder=Path(folder))
