"""`gravitate plan subscribers`: which broker should serve which subscriber of a recorded run."""

from __future__ import annotations

from typing import Annotated

import typer

from gravitate.cli import output, plan, spark


def complete_algorithm(incomplete: str) -> list[str]:
    from gravitate.plan.assignment.algorithms import ALGORITHMS

    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def subscribers(
    run: plan.Run,
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="Gr, Gr*, SLP, ...; default: best, a local search from the better of Gr* and SLP.",
            show_default=False,
            autocompletion=complete_algorithm,
        ),
    ] = None,
    delay_max: Annotated[
        float,
        typer.Option(help="How much longer than the shortest a way may be, as a share of it."),
    ] = 0.3,
    delay_ms_max: Annotated[
        float,
        typer.Option(help="So much longer is accepted whatever the share is.", metavar="MS"),
    ] = 0.0,
    beta: Annotated[
        float, typer.Option(help="How many times its share of subscribers a broker should have.")
    ] = 1.5,
    beta_max: Annotated[float, typer.Option(help="How many times it may have at most.")] = 1.8,
    complexity: Annotated[
        int, typer.Option(help="Of how many boxes a broker's filter is reckoned to be.")
    ] = 3,
    axes: Annotated[
        int, typer.Option(help="Dimensions of interests: topic, then most constrained attributes.")
    ] = 2,
    seed: Annotated[int, typer.Option(help="What the algorithm draws from.", min=0)] = 0,
    moves_max: Annotated[
        int | None,
        typer.Option(help="At most so many moves, those that bring most.", show_default=False),
    ] = None,
    rounds: Annotated[
        int, typer.Option(help="Of improving the choice on the recorded events; 0: none.")
    ] = 8,
    at_least: Annotated[
        int, typer.Option(help="Subscribers with fewer recorded deliveries stay.")
    ] = 10,
    service: plan.ServiceMs = 0.0,
    plan_file: plan.NewPlan = None,
    out: plan.NewRows = None,
    master: spark.Master = None,
    remote: spark.Remote = None,
    memory: spark.Memory = None,
    json: output.AsJson = False,
) -> None:
    """Choose a broker for every subscriber of a run, and predict what the moves change.

    Within bounds on latency and on the brokers' shares of subscribers. Nothing is moved:
    `gravitate apply` carries the plan out. Takes traces in where needed."""
    spark.require()
    from gravitate.config.script import ServiceTimes
    from gravitate.pipeline.evaluate.metrics import Terms
    from gravitate.pipeline.planning.making_subscribers import plan_subscribers
    from gravitate.pipeline.planning.subscribers import ALGORITHM, Choice

    choice = Choice(
        algorithm=algorithm or ALGORITHM,
        delay_max=delay_max,
        delay_ms_max=delay_ms_max,
        beta=beta,
        beta_max=beta_max,
        complexity=complexity,
        axes=axes,
        seed=seed,
        moves_max=moves_max,
        rounds=rounds,
        evidence_min=at_least,
    )
    target = plan.checked(run, plan_file, out, json)
    with spark.started(master, remote, memory, hidden=json) as session:
        with output.activity("reading the run", hidden=json) as tell:
            found = plan_subscribers(
                session, run, choice, Terms(ServiceTimes(event_ms=service)), tell
            )
        if out is not None:
            plan.save_rows(session, found, out)
    plan.hand_over(found, target, json)
