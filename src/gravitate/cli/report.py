"""`gravitate report`: what a run amounted to, as a page to forward and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs

if TYPE_CHECKING:
    from gravitate.pipeline.report import Report

PAGE = Path("report.html")


@from_structs
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run: its traces, or its tables.")],
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            help="Another run, side by side; differences are from RUN to this one.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The page to write. Default: report.html, and none with --json.",
            show_default=False,
        ),
    ] = None,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Write the report of a run: one page that needs no network. Takes traces in where needed."""
    spark.require()
    from gravitate.pipeline.report import make_report, write_page
    from gravitate.pipeline.report.write import check_page, check_run

    page = out or (None if json else PAGE)
    for folder in filter(None, (run, compare)):
        check_run(folder)
    if page is not None:
        check_page(page)
    with (
        spark.started(where, hidden=json) as session,
        output.activity("reading the run", hidden=json) as tell,
    ):
        told = make_report(session, run, compare, tell)
    if page is not None:
        write_page(told, page)
    output.answer(told, json, _show)
    _say_what_is_missing(run, compare)
    if page is not None:
        output.say(f"report: {page}")


def _show(told: Report) -> None:
    from gravitate.pipeline.evaluate.registry import REPORTED
    from gravitate.pipeline.report.words import percent, signed, with_unit

    runs = told.runs
    rows = []
    for metric in REPORTED:
        row = [metric.label]
        row += [with_unit(run.headline[metric.name], metric.unit) for run in runs]
        for change in told.differences:
            if change.metric == metric.name:
                share = change.change_share
                row.append("" if share is None else signed(percent(abs(share)), share))
                row.append(change.verdict)
        rows.append(row)
    columns = ["", *(run.facts.run for run in runs)]
    if told.differences:
        columns += ["change", ""]
    output.show_table(columns, rows)
    for sentence in told.caveats or told.run.findings:
        output.say(sentence)


def _say_what_is_missing(*runs: Path | None) -> None:
    from gravitate.pipeline.report.write import files_not_taken

    for run in filter(None, runs):
        missing = files_not_taken(run)
        if missing:
            output.say(
                f"{run}: {missing} trace files have come since its tables were made; "
                f"`gravitate ingest {run}` takes them in"
            )
