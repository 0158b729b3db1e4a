"""`gravitate bench`: measure, with the baseline in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output, spark

if TYPE_CHECKING:
    from gravitate.bench.records import Record

BENCHES = (
    "matching",
    "routing",
    "node",
    "links",
    "simulator",
    "pipeline",
    "placement",
    "assignment",
)


def complete_name(incomplete: str) -> list[str]:
    return [name for name in BENCHES if name.startswith(incomplete)]


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(BENCHES[:-1])} or {BENCHES[-1]}.", autocompletion=complete_name
        ),
    ],
    case: Annotated[
        list[str] | None, typer.Option("--case", help="Only this case; may be repeated.")
    ] = None,
    json: output.AsJson = False,
) -> None:
    """Measure, each figure beside its baseline; a ratio above 1 means that we are ahead."""
    from gravitate.errors import InputError

    if name not in BENCHES:
        raise InputError(f"unknown benchmark '{name}': write one of {', '.join(BENCHES)}")
    if name in ("pipeline", "assignment"):
        spark.require()
    if name == "pipeline":
        spark.require_module("duckdb", "the baseline of this benchmark is DuckDB", "baselines")
    module = import_module(f"gravitate.bench.{name}")
    with output.activity(f"bench {name}") as say:
        measured = module.run(case or None, progress=say)
    output.answer(measured, json, show)


def show(records: Sequence[Record]) -> None:
    """The records as a table."""
    fields = ("bench", "case", "value", "unit", "baseline", "ratio")
    rows = [[getattr(record, field) for field in fields] for record in records]
    output.show_table(fields, rows)
