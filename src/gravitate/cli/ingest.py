"""`gravitate ingest`: the traces of a run into its store, once or for as long as it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs

if TYPE_CHECKING:
    from gravitate.pipeline.ingest import Ingested


@from_structs
def ingest(
    run: Annotated[Path, typer.Argument(help="Folder with the traces of a run.", metavar="RUN")],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The store.", show_default="RUN/tables")
    ] = None,
    period: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Length of the periods of derived tables, for a new store.",
            show_default="60",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on taking in what comes, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look with --follow.", min=0.1)
    ] = 10.0,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Take new trace files into the store and bring the derived tables up to them.

    Files that are taken in are not taken again: run it as often as you like, also while brokers
    are running, and after it was killed. Files that are not fit are listed and left out."""
    spark.require()
    from gravitate.pipeline.ingest import open_store

    # What is wrong with the folders is told before Spark is started.
    store = open_store(run, into, period).directory
    with spark.started(where, hidden=json) as session:
        if follow:
            _follow(session, run, store, every, json)
            return
        taken = _take_in(session, run, store, json)
    output.answer(taken, json, _show)


def _follow(session: object, run: Path, store: Path, every_s: float, json: bool) -> None:
    """Take in what comes until interrupted; silent while nothing does."""
    import time

    output.say(f"following {run}, until Ctrl-C")
    try:
        while True:
            taken = _take_in(session, run, store, json)
            if taken.is_news and json:
                output.show_json_line(taken)
            elif taken.is_news:
                _show(taken)
            time.sleep(every_s)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _take_in(session: object, run: Path, store: Path, json: bool) -> Ingested:
    from gravitate.pipeline.ingest import ingest as take_in

    with output.activity("ingest", hidden=json) as tell:
        return take_in(session, run, store, tell=tell)


def _show(taken: Ingested) -> None:
    output.show_facts(
        [
            *((f"{table}, rows", count) for table, count in taken.rows.items()),
            ("files", taken.files),
            ("periods derived", taken.periods),
            ("files in quarantine", len(taken.quarantined)),
            ("seconds to copy", f"{taken.copied_s:.1f}"),
            ("seconds to derive", f"{taken.derived_s:.1f}"),
        ],
        title=f"taken into {taken.store}",
    )
    for file in taken.quarantined:
        output.say(f"left out: {file.file}: {file.reason}")
