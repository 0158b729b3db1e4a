"""Whether a prediction held: the figures of a plan beside those of a run with its moves done.

    checked = verify(spark, plan, Path("traces"))
    checked.off_share

Where the run has the plan's moves in it, only what came after the last of them counts, in whole
periods; a run in which they were done before it began counts as a whole. Other events and another
audience came than were recorded, so the prediction is made again for them (`expectation`), and what
was measured is held against that.

Owns the comparison. What a run measured is `measured`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from gravitate.config import network as network_file
from gravitate.config.plan import Plan, differences
from gravitate.config.script import ServiceTimes
from gravitate.errors import FileError
from gravitate.model.moves import MoveOutcome
from gravitate.pipeline.evaluate.metrics import Terms
from gravitate.pipeline.evaluate.registry import NAMED
from gravitate.pipeline.planning import expectation
from gravitate.pipeline.planning.making import Run
from gravitate.pipeline.report.write import complete_store
from gravitate.pipeline.store.store import Store

Tell = Callable[[str], None]
Figures = dict[str, float | None]

MESSAGE_RATE: Final = "broker_rate_msgs_per_s_mean"
TOLERANCE_SHARE: Final = 0.1
ALIKE_SHARE: Final = 0.02
"""Traffic that differs by less is not told of."""
PUBLISHED_RATE: Final = "published_rate_msgs_per_s"
DELIVERED_RATE: Final = "delivered_rate_msgs_per_s"


class Compared(msgspec.Struct, frozen=True):
    """One metric; None where it is not known."""

    metric: str
    before: float | None
    predicted: float | None
    """For the events that the plan was made from."""
    expected: float | None
    """The same for the events that came."""
    measured: float | None
    difference_share: float | None
    """From the expected value to the measured one, of the expected."""


class Verification(msgspec.Struct, frozen=True):
    plan: str
    run: str
    moves: int
    moves_done: int
    """Of the plan's moves, those that the run itself has in it."""
    since_s: float | None
    """What came before on the clock of the run was left out; None: nothing was."""
    metrics: tuple[Compared, ...]
    off_share: float | None
    """How far the message rate is off the prediction for the events that came."""
    tolerance_share: float
    holds: bool
    caveats: tuple[str, ...]

    @property
    def message_rate(self) -> Compared:
        return next(it for it in self.metrics if it.metric == MESSAGE_RATE)


def verify(
    spark: Any,
    plan: Plan,
    run: Path,
    tolerance_share: float = TOLERANCE_SHARE,
    tell: Tell = lambda sentence: None,
) -> Verification:
    """Every metric of the plan beside what the run measured; traces are taken in where needed."""
    if plan.after.get(MESSAGE_RATE) is None:
        raise FileError("predicts nothing to compare with: plan anew", f"plan '{plan.id}'")
    store = complete_store(spark, run, tell)
    _check_network(plan, store, run)
    done_at_s = _moves_done(store.traces(spark, "moves"), plan)
    since_s = None
    if done_at_s:
        store, since_s = _after(spark, store, run, max(done_at_s))
    found = Run.read(spark, store, run.name, _terms(plan), tell)
    tell("predicting the same for the events that came")
    came = expectation.expected(spark, store, found, plan).metrics
    return compared(
        plan, run.name, found.measured.metrics, came, len(done_at_s), since_s, tolerance_share
    )


def compared(
    plan: Plan,
    run: str,
    measured: Figures,
    expected: Figures,
    moves_done: int = 0,
    since_s: float | None = None,
    tolerance_share: float = TOLERANCE_SHARE,
) -> Verification:
    """The plan's figures, the message rate among them, beside those that were measured and those
    that the plan would have had for what was."""
    before, after, came, found = (
        _a_second(it) for it in (plan.before, plan.after, expected, measured)
    )
    metrics = tuple(
        Compared(
            name,
            before.get(name),
            value,
            came.get(name),
            found.get(name),
            _share(came.get(name), found.get(name)),
        )
        for name, value in after.items()
    )
    share = _share(came.get(MESSAGE_RATE), found.get(MESSAGE_RATE))
    caveats = _other_traffic(after, came)
    if 0 < moves_done < len(plan.moves):
        caveats.append(
            f"Of the {len(plan.moves)} moves of the plan the run has {moves_done} done: "
            "the prediction is for all."
        )
    return Verification(
        plan=plan.id,
        run=run,
        moves=len(plan.moves),
        moves_done=moves_done,
        since_s=since_s,
        metrics=metrics,
        off_share=share,
        tolerance_share=tolerance_share,
        holds=share is not None and abs(share) <= tolerance_share,
        caveats=tuple(caveats),
    )


def _other_traffic(recorded: Figures, came: Figures) -> list[str]:
    """A sentence where the events or the audience that came are not like those recorded."""
    (published, delivered), (now_published, now_delivered) = (
        [figures.get(name) or 0.0 for name in (PUBLISHED_RATE, DELIVERED_RATE)]
        for figures in (recorded, came)
    )
    if not published or not now_published:
        return []
    each, now_each = delivered / published, now_delivered / now_published
    if max(abs(_change(published, now_published)), abs(_change(each, now_each))) <= ALIKE_SHARE:
        return []
    return [
        f"The run had {now_published:.3g} events a second with {now_each:.3g} deliveries each "
        f"instead of {published:.3g} with {each:.3g} in the recording: differences are told from "
        "the prediction for what came."
    ]


def _change(before: float, after: float) -> float:
    return _share(before, after) or 0.0


def _a_second(metrics: Figures) -> Figures:
    """Totals as rates, since two runs are never observed for the same time."""
    duration_s = metrics.get("duration_s") or 1.0
    found: Figures = {}
    for name, value in metrics.items():
        rate = NAMED[name].rate if name in NAMED else ""
        if rate:
            found[rate] = None if value is None else value / duration_s
        elif name != "duration_s":
            found[name] = value
    return found


def _share(predicted: float | None, measured: float | None) -> float | None:
    if predicted is None or measured is None:
        return None
    if predicted == measured:
        return 0.0
    return (measured - predicted) / predicted if predicted else None


def _terms(plan: Plan) -> Terms:
    service_ms = plan.parameters.get("service_ms", 0.0)
    return Terms(ServiceTimes(event_ms=float(service_ms)))


def _check_network(plan: Plan, store: Store, run: Path) -> None:
    network = network_file.loads(store.manifest().network, "the network of the run")
    different = differences(plan.network_planned(), network)
    if different:
        raise FileError(
            f"is a run of another network than that of plan '{plan.id}': {different[0]}", str(run)
        )


def _moves_done(moves: Any, plan: Plan) -> list[float]:
    """When each of the plan's moves that the run has in it was done, for the last time."""
    # A move that is carried out has the plan's id and a mark of the occasion behind it.
    done = moves.where(F.col("move").startswith(f"{plan.id}-")).where(
        F.col("outcome") == MoveOutcome.DONE.value
    )
    planned = F.regexp_replace("move", "-[^-]*$", "").alias("planned")
    return [row["at_s"] for row in done.groupBy(planned).agg(F.max("at_s").alias("at_s")).collect()]


class _Part(Store):
    """The tables of a run from some period on; clients and moves are those of the whole run."""

    def __init__(self, directory: Path, first_period: int) -> None:
        super().__init__(directory)
        self._first_period = first_period

    def traces(self, spark: Any, table: str, periods: Collection[int] | None = None) -> Any:
        rows = super().traces(spark, table, periods)
        if table in {"subscriptions", "moves"}:
            return rows
        return rows.where(F.col("period") >= self._first_period)

    def derived(self, spark: Any, table: str, periods: Collection[int] | None = None) -> Any:
        rows = super().derived(spark, table, periods)
        return rows.where(F.col("period") >= self._first_period)


def _after(spark: Any, store: Store, run: Path, moved_at_s: float) -> tuple[Store, float]:
    """The part of a run after a moment: the periods in which nothing was published before it."""
    period_s = store.manifest().period_s
    first_period = int(moved_at_s // period_s)
    before = store.traces(spark, "publications").where(
        (F.col("period") == first_period) & (F.col("at_s") < moved_at_s)
    )
    if not before.isEmpty():
        first_period += 1
    part = _Part(store.directory, first_period)
    if part.traces(spark, "publications").isEmpty():
        raise FileError(
            f"has nothing to compare: nothing was published after the last move, from "
            f"{first_period * period_s:,.0f} s on; let the network run on, or take it in with "
            f"shorter periods than {period_s:g} s",
            str(run),
        )
    return part, first_period * period_s
