"""The `gravitate` command: how commands are gathered, and what the outside sees of a failure.

Exit status: 0 done, 1 done but the answer is bad (a checker spoke, a delivery is missing), 2 what
was asked for is wrong, 70 a defect of this program, 130 interrupted. A person is told what is
wrong in one sentence on standard error; a traceback is shown only with `GRAVITATE_DEBUG=1`.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from gravitate.cli import (
    apply,
    bench,
    brokers,
    clients,
    demo,
    evaluate,
    ingest,
    moves,
    networks,
    plan,
    play,
    report,
    reproduce,
    restart,
    simulate,
    torture,
    workload,
)
from gravitate.errors import FilterError, GravitateError

DEBUG = "GRAVITATE_DEBUG"

app = typer.Typer(
    name="gravitate",
    help="A publish/subscribe network that pulls itself into shape.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(brokers.up)
app.command()(brokers.broker)
app.command()(brokers.status)
app.command()(restart.restart)
app.command()(clients.pub)
app.command()(clients.sub)
app.command()(play.play)
app.command()(simulate.simulate)
app.command()(workload.workload)
app.command()(ingest.ingest)
app.command()(evaluate.evaluate)
app.command()(evaluate.match)
app.command()(report.report)
app.add_typer(plan.app, name="plan")
app.command()(apply.apply)
app.command()(plan.verify)
app.command()(moves.moves)
app.command()(moves.explain)
app.command()(reproduce.reproduce)
app.command()(bench.bench)
app.command()(torture.torture)
app.add_typer(networks.app, name="network")


def _print_version(wanted: bool) -> None:
    if wanted:
        from gravitate import __version__

        typer.echo(f"gravitate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """A publish/subscribe network that pulls itself into shape."""


def main() -> None:
    """Run the command line; never lets an exception out."""
    try:
        app()
    except FilterError as error:
        _fail(f"this does not parse:\n{error.pointed()}", 2)
    except GravitateError as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(_os_sentence(error), 2)
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        _fail(f"internal error: {error!r}; run again with {DEBUG}=1 and report what it prints", 70)


def _os_sentence(error: OSError) -> str:
    about = f"{error.filename}: " if error.filename else ""
    return f"{about}{error.strerror or error}"


def _fail(sentence: str, status: int) -> None:
    print(f"gravitate: {sentence}", file=sys.stderr)
    sys.exit(status)
