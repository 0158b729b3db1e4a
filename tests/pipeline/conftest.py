"""One Spark session for the suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gravitate.pipeline.spark.session import SparkOptions, session, stop


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    yield session(SparkOptions(master="local[2]", memory_gib=1.5, partitions=4))
    stop()
