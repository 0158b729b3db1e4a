"""What a workload is to the pipeline: a name, parameters, and how its tables are made.

A new workload is one module with a `DEFINITION` and one line in `catalogue.WORKLOADS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gravitate.pipeline.workloads.generate import TablePlan


class Made(msgspec.Struct, frozen=True):
    """A workload ready to be generated."""

    plans: tuple[TablePlan, ...]
    source: str
    """For the manifest: a data set by its name, or "synthetic, ..." and what it is fitted to."""
    statistics: dict[str, float] = {}
    """What is known before anything is made."""
    measured: Callable[[dict[str, int]], dict[str, float]] | None = None
    """Further statistics, from the counts that blocks gave (see `generate.Tallied`)."""


class Definition(msgspec.Struct, frozen=True):
    """One workload by name."""

    name: str
    summary: str
    """One line for the list of workloads."""
    parameters: type[msgspec.Struct]
    """A frozen struct with a default for everything; its docstring cites the source."""
    make: Callable[[Any, int, Path | None], Made]
    """`(parameters, seed, data folder or None)`; runs on the driver, so it may calibrate on
    samples and read small files, but makes no rows itself."""
    check: Callable[[Any], None] = lambda parameters: None
    """Raises an `InputError` that names the parameter, its value and what would be accepted;
    called with every choice of parameters, before Spark is started."""
