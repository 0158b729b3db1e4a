"""The workloads there are, by name. A new one is a module and a line here."""

from __future__ import annotations

from typing import Final

from gravitate.errors import InputError
from gravitate.pipeline.workloads import (
    interactions,
    location,
    poisson,
    psoop,
    set1,
    set2,
    set3,
    stocks,
    zipf,
)
from gravitate.pipeline.workloads.definition import Definition

WORKLOADS: Final[tuple[Definition, ...]] = (
    stocks.DEFINITION,
    *zipf.DEFINITIONS,
    interactions.DEFINITION,
    psoop.DEFINITION,
    set1.DEFINITION,
    set2.DEFINITION,
    set3.DEFINITION,
    location.DEFINITION,
    poisson.DEFINITION,
)


def named(name: str) -> Definition:
    """The workload called `name`."""
    for definition in WORKLOADS:
        if definition.name == name:
            return definition
    known = ", ".join(definition.name for definition in WORKLOADS)
    raise InputError(f"unknown workload '{name}': write one of {known}")
