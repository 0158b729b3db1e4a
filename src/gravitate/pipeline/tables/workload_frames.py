"""Tables of a workload's folder as DataFrames, each checked against its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gravitate.pipeline.tables import schemas


def read(spark: Any, workload: str | Path, table: str) -> Any:
    """One table of a workload; a file with other columns is refused by name."""
    files: list[str | Path] = sorted((Path(workload) / table).glob("part-*.parquet"))
    return schemas.read(spark, files, table, schemas.WORKLOADS[table])


def tasks(spark: Any) -> int:
    """How many tasks the session likes to have at once."""
    return int(spark.conf.get("spark.sql.shuffle.partitions"))
