"""`gravitate reproduce`: the papers' experiments, beside what the papers report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from gravitate.cli import output, spark

STUDIES = ("publishers",)


def reproduce(
    study: Annotated[str, typer.Argument(help=f"Which study: {', '.join(STUDIES)}.")],
    quick: Annotated[
        bool, typer.Option("--quick/--whole", help="Minutes, or every setting and five seeds.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write the figures of all runs, as JSON."),
    ] = None,
    master: spark.Master = None,
    remote: spark.Remote = None,
    memory: spark.Memory = None,
    json: output.AsJson = False,
) -> None:
    """Run a study in the simulator, sweeps as Spark tasks. Exit status 1 when a statement of the
    paper does not hold."""
    import msgspec

    from gravitate.errors import InputError

    if study not in STUDIES:
        raise InputError(f"unknown study '{study}': write one of {', '.join(STUDIES)}")
    spark.require()
    module = import_module(f"gravitate.studies.{study}")
    runs = module.settings(quick)
    with (
        spark.started(master, remote, memory, hidden=json) as session,
        output.progress(f"{len(runs)} runs of {study}", 1.0, hidden=json) as advance,
    ):
        seen = module.run(session, runs, lambda done, total: advance(done / total))
    found = module.findings(seen)
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(seen)))
    if json:
        output.show_json(found)
    else:
        output.show_table(
            ["figure", "setting", "paper", "measured", "holds"],
            [(f.figure, f.setting, f.paper, f.measured, f.holds) for f in found],
        )
    raise typer.Exit(0 if all(finding.holds for finding in found) else 1)
