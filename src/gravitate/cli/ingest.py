"""`gravitate ingest`: the traces of a run into its store, once or for as long as it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output, spark

if TYPE_CHECKING:
    from gravitate.pipeline.ingest import Ingested


def ingest(
    run: Annotated[Path, typer.Argument(help="Folder with the traces of a run.", metavar="RUN")],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The store.", show_default="RUN/tables"),
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
    master: spark.Master = None,
    remote: spark.Remote = None,
    memory: spark.Memory = None,
    json: output.AsJson = False,
) -> None:
    """Take new trace files into the store and bring the derived tables up to them.

    Files that are taken in are not taken again: run it as often as you like, also while brokers
    are running, and after it was killed. Files that are not fit are listed and left out."""
    from gravitate.pipeline.ingest import open_store

    # What is wrong with the folders is told before Spark is started.
    store = open_store(run, into, period).directory
    with spark.started(master, remote, memory, hidden=json) as session:
        _once(session, run, store, json, always=True, lines=follow)
        try:
            while follow:
                _wait(every)
                _once(session, run, store, json, always=False, lines=True)
        except KeyboardInterrupt:
            raise typer.Exit from None


def _once(session: object, run: Path, store: Path, json: bool, always: bool, lines: bool) -> None:
    from gravitate.pipeline.ingest import ingest as take_in

    with output.activity("ingest", hidden=json) as tell:
        taken = take_in(session, run, store, tell=tell)
    if not (always or taken.is_news):
        return
    if json:
        (output.show_json_line if lines else output.show_json)(taken)
    else:
        _show(taken)


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


def _wait(seconds: float) -> None:
    import time

    time.sleep(seconds)
