"""What all tests share: how Hypothesis draws its examples, and that one process has all of Spark.

The suite draws the same examples every time, so that it passes or fails the same everywhere;
`HYPOTHESIS_PROFILE=explore` looks for new ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PIPELINE = Path(__file__).parent / "pipeline"

settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.hookimpl(tryfirst=True)  # before groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes one runs all tests of the slow loop: there is one Spark session."""
    for item in items:
        if item.path.is_relative_to(PIPELINE):
            item.add_marker(pytest.mark.xdist_group("spark"))
