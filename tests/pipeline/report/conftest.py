"""A simulated run and its report, made once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.reports import LONELY, Reported, trace_scenario

from gravitate.pipeline.report import write_report


@pytest.fixture(scope="session")
def reported(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    folder = tmp_path_factory.mktemp("reported")
    result = trace_scenario(folder)
    page = folder / "report.html"
    return Reported(folder, result, write_report(spark, folder, page), page)


@pytest.fixture(scope="session")
def lonely(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """One broker without links, whose publisher nobody listens to."""
    folder = tmp_path_factory.mktemp("lonely")
    result = trace_scenario(folder, LONELY)
    page = folder / "report.html"
    return Reported(folder, result, write_report(spark, folder, page), page)
