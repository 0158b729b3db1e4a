"""`gravitate evaluate`: every metric of a network under a workload, or of a run.
`gravitate match`: who must get what, and whether a run delivered it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs

if TYPE_CHECKING:
    from gravitate.pipeline.evaluate.metrics import Evaluation

EXIT_UNSOUND = 1


@from_structs
def evaluate(
    workload: Annotated[
        Path | None, typer.Argument(help="A workload's folder.", show_default=False)
    ] = None,
    network: Annotated[
        Path | None, typer.Option(help="The network file.", show_default=False)
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="A run that was taken in, instead: what was measured.", metavar="RUN"),
    ] = None,
    moves: Annotated[
        Path | None,
        typer.Option(
            help="A JSON list of moves that were done first: clients are where they lead.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    forwarding: Annotated[
        str | None, typer.Option(help="A forwarding strategy. Default: the network's.")
    ] = None,
    service: Annotated[
        float,
        typer.Option(
            "--service-ms", help="How long a broker is busy with one event.", min=0.0, metavar="MS"
        ),
    ] = 0.0,
    duration: Annotated[
        float | None,
        typer.Option(
            help="Seconds that rates are taken over. Default: the workload's, or the run's."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A new folder for all figures as Parquet.", metavar="DIR"),
    ] = None,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Evaluate a network under a workload with the flow model, or what a run measured.

    Both give the same metrics, so that they can stand side by side."""
    from gravitate.errors import InputError

    if (run is None) == (workload is None):
        raise InputError("write either a workload's folder with --network FILE, or --run RUN")
    if workload is not None and network is None:
        raise InputError("a workload is evaluated on a network: give its file with --network FILE")
    if run is not None and not (network is None and forwarding is None and moves is None):
        raise InputError("a run has its own network, forwarding and moves: leave the option out")
    output.check_new(out)
    spark.require()
    from gravitate.pipeline.evaluate.metrics import check_duration

    check_duration(duration)
    # What is wrong with files is told before Spark is started.
    figure = (
        _measured(run, service, duration)
        if run is not None
        else _modelled(workload, network, moves, forwarding, service, duration)
    )
    with spark.started(where, hidden=json) as session:
        with output.activity("evaluating", hidden=json):
            figures = figure(session)
        if out is not None:
            _save(session, figures, out)
    if json:
        output.show_json(figures.told())
    else:
        _show(figures)


def _modelled(
    workload: Any,
    network: Any,
    moves: Path | None,
    forwarding: str | None,
    service_ms: float,
    duration_s: float | None,
) -> Callable[[Any], Evaluation]:
    from gravitate.config import moves as moves_file
    from gravitate.config import network as network_file
    from gravitate.config.script import ServiceTimes
    from gravitate.config.workload_tables import load_manifest
    from gravitate.pipeline.evaluate import evaluation
    from gravitate.pipeline.evaluate.metrics import Terms

    on = network_file.load(network)
    load_manifest(workload)
    done = None if moves is None else moves_file.load(moves)
    terms = Terms(ServiceTimes(event_ms=service_ms))

    def figure(session: Any) -> Evaluation:
        placement = evaluation.NOBODY_MOVES
        if done is not None:
            placement = evaluation.placement_of(session, done)
        return evaluation.evaluate(
            session,
            on,
            workload,
            placement,
            terms=terms,
            forwarding=forwarding,
            duration_s=duration_s,
        )

    return figure


def _measured(
    run: Path, service_ms: float, duration_s: float | None
) -> Callable[[Any], Evaluation]:
    from gravitate.config.script import ServiceTimes
    from gravitate.pipeline.evaluate import measured
    from gravitate.pipeline.evaluate.metrics import Terms
    from gravitate.pipeline.store.store import Store

    store = Store.of_run(run)
    measured.check(store)
    terms = Terms(ServiceTimes(event_ms=service_ms))
    return lambda session: measured.evaluate_run(session, store, terms=terms, duration_s=duration_s)


def _save(session: Any, figures: Evaluation, out: Path) -> None:
    from gravitate.pipeline.tables import schemas

    rows = session.createDataFrame(list(figures.rows()), schemas.EVALUATIONS)
    rows.coalesce(1).write.parquet(str(out / "evaluations"))


def _show(figures: Evaluation) -> None:
    from gravitate.pipeline.evaluate.registry import BROKER, NETWORK

    output.show_facts(
        [(metric.in_words, figures.metrics[metric.name]) for metric in NETWORK],
        title=f"{figures.evaluation}, forwarding {figures.forwarding}",
    )
    brokers = figures.brokers
    busiest = sorted(brokers, key=lambda broker: -(brokers[broker]["rate_msgs_per_s"] or 0.0))[:10]
    told = [metric for metric in BROKER if metric.label]
    output.show_table(
        ("broker", *(metric.label for metric in told)),
        [(one, *(brokers[one][metric.name] for metric in told)) for one in busiest],
        title="busiest brokers",
    )


@from_structs
def match(
    workload: Annotated[Path, typer.Argument(help="A workload's folder.")],
    run: Annotated[
        Path | None,
        typer.Option(help="Compare with what this run delivered: its traces, or its store."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A new folder for tables: matches, matches of each subscription, verdicts on RUN.",
            metavar="DIR",
        ),
    ] = None,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Find out who must get what of a workload, by matching everything with everything.

    With --run, exit status 1 when a delivery is missing, unexpected or doubled."""
    import msgspec

    output.check_new(out)
    spark.require()
    from gravitate.config.workload_tables import load_manifest
    from gravitate.pipeline.evaluate import truth

    load_manifest(workload)
    with spark.started(where, hidden=json) as session, output.activity("matching", hidden=json):
        counts, verdict = truth.match(session, workload, run, out)
    if json:
        answer = msgspec.structs.asdict(counts)
        output.show_json(answer if verdict is None else answer | {"run": verdict})
    else:
        output.show_facts(msgspec.structs.asdict(counts).items())
        if verdict is not None:
            output.show_facts(msgspec.structs.asdict(verdict).items(), title=str(run))
    raise typer.Exit(0 if verdict is None or verdict.is_sound() else EXIT_UNSOUND)
