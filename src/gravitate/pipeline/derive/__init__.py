"""The tables that planning and reports are made from, derived from traces on Spark."""

from gravitate.pipeline.derive.all import derive, derive_table

__all__ = ["derive", "derive_table"]
