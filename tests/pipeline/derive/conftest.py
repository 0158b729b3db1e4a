"""What the tests of derived tables share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.pipeline.derive.stores import Row, Traced

from gravitate.pipeline.store.store import Store


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return Traced(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def rows_of(spark: Any) -> Callable[[Store, str], list[Row]]:
    """The rows of a derived table."""
    return lambda store, table: [row.asDict() for row in store.derived(spark, table).collect()]
