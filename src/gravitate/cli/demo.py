"""`gravitate demo`: a workload from Spark, the network at work in two acts, a report."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gravitate.cli import output, spark
from gravitate.cli.brokers import Trace

if TYPE_CHECKING:
    from gravitate.config.script import Script
    from gravitate.serve.scenarios.demo import DemoReport

SCENARIO = "demo"
STATIC, GRAPE = "static", "grape"
"""Folders of the two acts."""
NETWORK = "network.toml"
PAGE = "report.html"
WORKLOAD = "workload"


def demo(
    seconds: Annotated[
        float, typer.Option(help="How long quotes are published, in each act.", min=1.0)
    ] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Another seed, other quotes.", min=0)] = None,
    trace: Trace = None,
    with_spark: Annotated[
        bool,
        typer.Option(
            "--spark/--no-spark",
            help="Make the workload and the report on Spark. Without, neither is written.",
        ),
    ] = True,
    json: output.AsJson = False,
) -> None:
    """15 brokers carry stock quotes to 300 subscribers, twice: publishers stay, then GRAPE moves
    them. Exit status 1 when a quote is missing.

    Spark makes the workload before, and a report of the traces after."""
    from gravitate.serve.scenarios.demo import report_json, report_table
    from gravitate.trace.manifest import check_unused

    directory = trace or Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    for folder in (directory, directory / STATIC, directory / GRAPE):
        check_unused(folder)
    if with_spark and find_spec("pyspark") is None:
        output.say("no workload from Spark and no report: `pip install 'gravitate[pipeline]'`")
        with_spark = False
    play = _with_spark if with_spark else _without_spark
    report = play(directory, seconds, seed, json)
    if json:
        typer.echo(report_json(report))
    else:
        output.show(report_table(report))
        # Below the table, where a long path is not cut.
        for name, path in (
            ("network", report.network),
            ("workload", report.workload),
            ("traces", f"{report.static.traces}, {report.grape.traces}"),
            ("page", report.page),
        ):
            if path:
                typer.echo(f"{name:8}  {path}")
    raise typer.Exit(0 if report.is_sound() else 1)


def _without_spark(directory: Path, seconds: float, seed: int | None, json: bool) -> DemoReport:
    from gravitate.config import scenario

    return _both_acts(scenario.load(SCENARIO, seed, seconds), directory, json)


def _with_spark(directory: Path, seconds: float, seed: int | None, json: bool) -> DemoReport:
    import msgspec

    from gravitate.pipeline.report.write import write_report

    page = directory / PAGE
    with spark.started(hidden=json) as session:
        script = _set_the_scene(session, directory / WORKLOAD, seconds, seed, json)
        report = _both_acts(script, directory, json)
        with output.activity("the slow loop reads the traces", hidden=json) as say:
            write_report(session, directory / STATIC, page, directory / GRAPE, tell=say)
    return msgspec.structs.replace(
        report, workload=str(directory / WORKLOAD), page=str(page.absolute())
    )


def _both_acts(script: Script, directory: Path, json: bool) -> DemoReport:
    import msgspec
    from rich.console import Console

    from gravitate.config import network as network_file
    from gravitate.serve.scenarios.demo import introduce, play_act, report_of, with_grape

    directory.mkdir(parents=True, exist_ok=True)
    network_file.save(script.network, directory / NETWORK)
    console = Console(quiet=json)
    introduce(script, console)
    console.print("First act: publishers stay where they connected ...")
    static = play_act(script, directory / STATIC, live=not json, console=console)
    console.print("Second act: the same quotes, and GRAPE moves publishers to their audience ...")
    grape = play_act(with_grape(script), directory / GRAPE, live=not json, console=console)
    report = report_of(script, static, grape)
    return msgspec.structs.replace(report, network=str(directory / NETWORK))


def _set_the_scene(
    session: Any, folder: Path, seconds: float, seed: int | None, json: bool
) -> Script:
    """The demo's script, with a workload from Spark: the rows that the scenario has by itself."""
    from gravitate.config import scenario
    from gravitate.pipeline.workloads.catalogue import named
    from gravitate.pipeline.workloads.making import make_workload

    said = scenario.described(SCENARIO)
    assert said.workload is not None
    known = named("stocks").parameters.__struct_fields__
    parameters = {
        name: getattr(said.workload, name)
        for name in said.workload.__struct_fields__
        if name in known
    } | {"brokers": said.network.brokers, "duration_s": seconds}
    with output.activity("Spark makes the workload", hidden=json):
        make_workload(
            session, "stocks", folder, parameters, seed=said.seed if seed is None else seed
        )
    return scenario.load(SCENARIO, seed, seconds, workload=folder)
