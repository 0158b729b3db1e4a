"""What the commands of the slow loop share: where Spark is, and its start.

@from_structs
def ingest(run: ..., where: spark.Place = spark.HERE):
    with spark.started(where) as session:
        ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer

from gravitate.cli import output

_PANEL = "Spark"


class Place(msgspec.Struct, frozen=True):
    """Where Spark runs, as options of a command."""

    master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs: local[N], or spark://host:port. Default: here, on all cores.",
            envvar="GRAVITATE_SPARK_MASTER",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    remote: Annotated[
        str | None,
        typer.Option(
            help="A Spark Connect server instead, sc://host:port.",
            envvar="GRAVITATE_SPARK_REMOTE",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    memory: Annotated[
        float | None,
        typer.Option(
            help="GiB for Spark in this process. Default: a quarter of the machine, at most 4.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None


HERE = Place()


@contextmanager
def started(where: Place = HERE, *, hidden: bool = False) -> Iterator[Any]:
    """A Spark session for one command; what it says about the machine becomes a sentence."""
    require()
    from gravitate.pipeline.spark.session import LOCAL, SparkOptions, session, stop, told_plainly

    options = SparkOptions(where.master or LOCAL, where.remote or "", where.memory or 0.0)
    with told_plainly():
        with output.activity("starting Spark", hidden):
            spark = session(options)
        try:
            yield spark
        finally:
            stop()


def require() -> None:
    """Refuse to go on without Spark."""
    require_module("pyspark", "the slow loop needs Spark", "pipeline")


def require_module(module: str, need: str, extra: str) -> None:
    """Refuse to go on without a module, which comes with an extra of this package."""
    from importlib.util import find_spec

    from gravitate.errors import EnvironmentLack

    if find_spec(module) is None:
        raise EnvironmentLack(f"{need}, which is not installed: `pip install 'gravitate[{extra}]'`")
