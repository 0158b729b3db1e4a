"""`gravitate reproduce`: the papers' experiments, beside what the papers report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs

STUDIES = ("publishers", "subscribers")
ON_DATA = ("subscribers",)
"""Studies that can use measurements."""


@from_structs
def reproduce(
    study: Annotated[str, typer.Argument(help=f"Which study: {', '.join(STUDIES)}.")],
    quick: Annotated[
        bool, typer.Option("--quick/--whole", help="Minutes, or every setting, for hours.")
    ] = True,
    seeds: Annotated[
        int, typer.Option(help="How often each run is drawn anew. 0: once, or some times.", min=0)
    ] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            help=f"A folder of measurements to use instead of synthetic figures: "
            f"{', '.join(ON_DATA)}."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A folder for runs.json, findings.json and figure.svg.",
            metavar="DIR",
        ),
    ] = None,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Run a study, its runs as Spark tasks. Exit status 1 when a statement of the
    paper does not hold."""
    import msgspec

    from gravitate.errors import InputError

    if study not in STUDIES:
        raise InputError(f"unknown study '{study}': write one of {', '.join(STUDIES)}")
    if data is not None and study not in ON_DATA:
        raise InputError(
            f"--data {data} is not accepted: of the studies, {', '.join(ON_DATA)} takes it"
        )
    spark.require()
    from gravitate.pipeline.workloads.making import check_data

    check_data(data)
    module = import_module(f"gravitate.studies.{study}")
    given = {"data": data} if study in ON_DATA else {}
    runs = module.settings(quick, seeds, **given)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with (
        spark.started(where, hidden=json) as session,
        output.progress(f"{len(runs)} runs of {study}", 1.0, hidden=json) as advance,
    ):
        seen = module.run(session, runs, lambda done, total: tell(done, total, advance))
    found = module.findings(seen)
    if out is not None:
        for name, figures in (("runs", seen), ("findings", found)):
            text = msgspec.json.format(msgspec.json.encode(figures))
            (out / f"{name}.json").write_bytes(text)
        (out / "figure.svg").write_text(module.figure(seen), encoding="utf-8")
    if json:
        output.show_json(found)
    else:
        output.show_table(
            ["figure", "setting", "paper", "measured", "holds"],
            [(f.figure, f.setting, f.paper, f.measured, f.holds) for f in found],
        )
    raise typer.Exit(0 if all(finding.holds for finding in found) else 1)


def tell(done: int, total: int, advance: Callable[[float], None]) -> None:
    """How far it is: on the bar, or in a line where none is seen."""
    advance(done / total)
    if not sys.stderr.isatty():
        output.say(f"{done} of {total} runs")
