"""What all tests share: how Hypothesis draws its examples, what bounds a test, and kernels that
are compiled before the first of them.

The suite draws the same examples every time, so that it passes or fails the same everywhere;
`HYPOTHESIS_PROFILE=explore` looks for new ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import kernels, processor_time

settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(processor_time):
        config.pluginmanager.register(processor_time)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.items and not session.config.option.collectonly:
        kernels.warm(kernels.folders_of([item.path for item in session.items]))
