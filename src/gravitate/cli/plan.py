"""`gravitate plan`: moves from recorded traffic. `gravitate verify`: whether a prediction held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs
from gravitate.config.planning import PublisherOptions, SubscriberOptions
from gravitate.model.moves import described

if TYPE_CHECKING:
    from gravitate.config.plan import Plan
    from gravitate.pipeline.planning.making import Planner
    from gravitate.pipeline.planning.verification import Verification

EXIT_DOES_NOT_HOLD = 1
MOVES_SHOWN = 20
PLAN = Path("plan.json")

app = typer.Typer(help="Make plans from recorded traffic.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file.")]
Run = Annotated[
    Path, typer.Argument(metavar="TRACES", help="The folder of a run: its traces, or its tables.")
]


class MadePlan(msgspec.Struct, frozen=True):
    """Of every plan: how figures are weighed, and where it goes."""

    service: Annotated[
        float,
        typer.Option(
            "--service-ms", help="How long a broker is busy with one event.", min=0.0, metavar="MS"
        ),
    ] = 0.0
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--plan",
            help="The plan to write. Default: plan.json, and none with --json.",
            show_default=False,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A new folder for the moves as Parquet too.", metavar="DIR"),
    ] = None


@app.callback()
def _plan() -> None:
    """Make plans from recorded traffic."""


@app.command()
@from_structs
def publishers(
    run: Run,
    choice: PublisherOptions,
    made: MadePlan,
    where: spark.Place,
    json: output.AsJson = False,
) -> None:
    """Choose the best broker for every publisher of a run, and predict what the moves change.

    Nothing is moved: `gravitate apply` carries the plan out. Takes traces in where needed."""
    spark.require()
    from gravitate.pipeline.planning.making_publishers import PublisherPlanner

    _plan_with(PublisherPlanner(choice), run, made, where, json)


@app.command()
@from_structs
def subscribers(
    run: Run,
    choice: SubscriberOptions,
    made: MadePlan,
    where: spark.Place,
    json: output.AsJson = False,
) -> None:
    """Choose a broker for every subscriber of a run, and predict what the moves change.

    Within bounds on latency and on the brokers' shares of subscribers. Nothing is moved:
    `gravitate apply` carries the plan out. Takes traces in where needed."""
    spark.require()
    from gravitate.pipeline.planning.making_subscribers import SubscriberPlanner

    _plan_with(SubscriberPlanner(choice), run, made, where, json)


def _plan_with(planner: Planner, run: Path, made: MadePlan, where: spark.Place, json: bool) -> None:
    from gravitate.config import plan as plans
    from gravitate.config.script import ServiceTimes
    from gravitate.pipeline.evaluate.metrics import Terms
    from gravitate.pipeline.planning import making
    from gravitate.pipeline.report.write import check_page, check_run

    check_run(run)
    target = made.plan_file or (None if json else PLAN)
    if target is not None:
        check_page(target)
    output.check_new(made.out)
    terms = Terms(ServiceTimes(event_ms=made.service))
    with spark.started(where, hidden=json) as session:
        with output.activity("reading the run", hidden=json) as tell:
            plan = making.make_plan(session, run, planner, terms, tell)
        if made.out is not None:
            _save_rows(session, plan, made.out)
    if target is not None:
        plans.save(plan, target)
    output.answer(plan, json, show_plan)
    if target is not None:
        output.say(f"plan: {target}")


def _save_rows(session: Any, plan: Plan, out: Path) -> None:
    """Write the moves as Parquet."""
    from gravitate.pipeline.planning.making import plan_rows
    from gravitate.pipeline.tables import schemas

    rows = session.createDataFrame(list(plan_rows(plan)), schemas.PLANS)
    rows.coalesce(1).write.parquet(str(out / "plans"))


def show_plan(plan: Plan) -> None:
    """The predictions of a plan, and its first moves."""
    rows = []
    for metric, before in plan.before.items():
        after = plan.after.get(metric)
        rows.append(
            (in_words(metric), plan.recorded.get(metric), before, after, change_of(before, after))
        )
    output.show_table(
        ("", "recorded", "predicted before", "predicted after", "change"),
        rows,
        title=f"plan '{plan.id}' from {plan.run}: {len(plan.moves)} moves",
    )
    if plan.moves:
        output.show_table(
            ("move", "what", "why"),
            [(move.id, described(move), move.why.reason) for move in plan.moves[:MOVES_SHOWN]],
            title="moves, in order"
            if len(plan.moves) <= MOVES_SHOWN
            else f"the first {MOVES_SHOWN} of {len(plan.moves)} moves",
        )
    if plan.yardstick:
        output.show_facts(
            [(name.replace("_", " "), value) for name, value in plan.yardstick.items()],
            title="by the chooser's own measure",
        )
    for sentence in plan.notes:
        output.say(sentence)


def in_words(metric: str) -> str:
    """A metric's name for people; of delays also what they are counted to."""
    from gravitate.pipeline.evaluate.registry import NAMED

    name = metric.removeprefix("client_")
    words = NAMED[name].in_words if name in NAMED else name.replace("_", " ")
    if metric.startswith("client_delay_ms_"):
        return f"{words}, to the client"
    return f"{words}, between brokers" if metric.startswith("delay_ms_") else words


def change_of(before: float | None, after: float | None) -> str:
    """A change in percent; empty where there is none to tell."""
    if before is None or after is None or not before:
        return ""
    return f"{100 * (after - before) / before:+.1f} %"


@from_structs
def verify(
    path: PlanFile,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run with the plan's moves done: its traces.")
    ],
    tolerance: Annotated[
        float,
        typer.Option(help="Percent that the message rate may be off the prediction.", min=0.0),
    ] = 10.0,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Compare what a plan predicted with what a run measured.

    The prediction is made again for the events and the audience of the run. Where the run has the
    moves in it, what came after the last of them counts. Exit status 1 when the message rate is off
    by more than the tolerance."""
    spark.require()
    from gravitate.config import plan as plans
    from gravitate.pipeline.planning import verification
    from gravitate.pipeline.report.write import check_run

    plan = plans.load(path)
    check_run(run)
    with (
        spark.started(where, hidden=json) as session,
        output.activity("reading the run", hidden=json) as tell,
    ):
        found = verification.verify(session, plan, run, tolerance / 100, tell)
    output.answer(found, json, _show_verification)
    raise typer.Exit(0 if found.holds else EXIT_DOES_NOT_HOLD)


def _show_verification(found: Verification) -> None:
    output.show_table(
        ("", "before", "predicted", "for what came", "measured", "off by"),
        [
            (
                in_words(it.metric),
                it.before,
                it.predicted,
                it.expected,
                it.measured,
                "" if it.difference_share is None else f"{100 * it.difference_share:+.1f} %",
            )
            for it in found.metrics
        ],
        title=f"plan '{found.plan}' and run {found.run}",
    )
    for sentence in found.caveats:
        output.say(sentence)
    off = "unknown" if found.off_share is None else f"{100 * found.off_share:+.1f} %"
    output.say(
        f"message rate: {off} off the prediction for what came, "
        f"{'within' if found.holds else 'not within'} {100 * found.tolerance_share:g} %"
    )
