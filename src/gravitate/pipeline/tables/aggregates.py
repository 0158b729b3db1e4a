"""Aggregations that several steps use."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F


def sums(*columns: str) -> list[Any]:
    """The sum of each column, under the column's own name."""
    return [F.sum(column).alias(column) for column in columns]
