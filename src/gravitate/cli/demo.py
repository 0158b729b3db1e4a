"""`gravitate demo`: a network at work, in one minute."""

from __future__ import annotations

from typing import Annotated

import typer

from gravitate.cli import output
from gravitate.cli.brokers import Trace


def demo(
    seconds: Annotated[float, typer.Option(help="How long quotes are published.", min=1.0)] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Another seed, other quotes.", min=0)] = None,
    trace: Trace = None,
    json: output.AsJson = False,
) -> None:
    """15 brokers carry stock quotes to 300 subscribers; exit status 1 when one is missing."""
    from gravitate.serve.demo import report_json, report_table, run_demo
    from gravitate.trace.manifest import check_unused

    if trace is not None:
        check_unused(trace)
    report = run_demo(seconds, live=not json, traces=trace, seed=seed)
    if json:
        typer.echo(report_json(report))
    else:
        output.show(report_table(report))
    raise typer.Exit(0 if report.is_sound() else 1)
