"""The job that makes a plan: read a run, let a planner choose and predict.

    plan = make_plan(spark, Path("traces"), PublisherPlanner(PublisherOptions()))

Read, transform, write: the tables of the run's store in, a `config.plan.Plan` out. Owns what all
plans from a run have in common; what is chosen is the planner's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from pyspark.sql import functions as F

from gravitate.config import network as network_file
from gravitate.config.network import Network
from gravitate.config.plan import Metrics, Plan, plan_of
from gravitate.model.moves import Move
from gravitate.pipeline.evaluate.measured import evaluate_run
from gravitate.pipeline.evaluate.metrics import Evaluation, Terms
from gravitate.pipeline.planning.prediction import Frame
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.report.write import complete_store
from gravitate.pipeline.store.store import Store

Tell = Callable[[str], None]
PlanRow = tuple[str, int, str, str, str, float, float, str]


class Draft(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a planner found."""

    moves: Sequence[Move]
    before: Metrics
    after: Metrics
    parameters: dict[str, str | float]
    """What it went by."""
    yardstick: Metrics = {}
    notes: tuple[str, ...] = ()


class Planner(Protocol):
    """Chooses for one kind of client where it should be."""

    kind: str

    def draft(self, spark: Any, store: Store, run: Run, tell: Tell) -> Draft:
        """Moves for a run whose tables are complete, and what they are predicted to change."""


def make_plan(
    spark: Any,
    run: Path,
    planner: Planner,
    terms: Terms | None = None,
    tell: Tell = lambda sentence: None,
) -> Plan:
    """Where clients of a run should be, as a plan; traces are taken in where needed."""
    name = run.name or str(run)
    store = complete_store(spark, run, tell)
    found = Run.read(spark, store, name, terms, tell)
    draft = planner.draft(spark, store, found, tell)
    return plan_of(
        kind=planner.kind,
        run=name,
        network=found.network,
        parameters=draft.parameters | found.parameters(),
        moves=draft.moves,
        recorded=found.measured.metrics,
        before=draft.before,
        after=draft.after,
        yardstick=draft.yardstick,
        notes=draft.notes,
    )


class Run(msgspec.Struct, frozen=True, eq=False):
    """What every plan from a run needs."""

    network: Network
    overlay: Overlay
    """With the latencies of links that were measured."""
    measured: Evaluation
    frame: Frame

    @classmethod
    def read(cls, spark: Any, store: Store, name: str, terms: Terms | None, tell: Tell) -> Run:
        """From the tables of a store that are complete."""
        terms = terms or Terms()
        manifest = store.manifest()
        network = network_file.loads(manifest.network, "the network of the run")
        latency_s = link_latencies(store.derived(spark, "link_load"))
        overlay = Overlay.of(network, terms.service, latency_s)
        tell(f"reading what {name} measured")
        measured = evaluate_run(spark, store, name=name, terms=terms)
        frame = Frame(
            duration_s=measured.metrics["duration_s"] or 1.0,
            sampling_rate=manifest.sampling_rate,
            subscribers={
                broker: int(figures["subscribers"] or 0)
                for broker, figures in measured.brokers.items()
            },
            terms=terms,
        )
        return cls(network, overlay, measured, frame)

    def parameters(self) -> dict[str, str | float]:
        """What a plan tells about how figures were weighed."""
        service_ms = self.frame.terms.service_ms
        return {"service_ms": service_ms} if service_ms else {}


def link_latencies(link_load: Any) -> dict[frozenset[str], float]:
    """Half the mean round trip of each link that was measured; as many values as links."""
    ends = F.array_sort(F.array("broker", "peer"))
    rows = (
        link_load.where(F.col("rtt_count") > 0)
        .groupBy(ends.alias("ends"))
        .agg((F.sum("rtt_s_sum") / F.sum("rtt_count")).alias("rtt_s"))
        .collect()
    )
    return {frozenset(row["ends"]): row["rtt_s"] / 2 for row in rows}


def plan_rows(plan: Plan) -> Iterator[PlanRow]:
    """The rows of `schemas.PLANS`."""
    for number, move in enumerate(plan.moves, start=1):
        details = msgspec.json.encode(move).decode()
        kind = str(move.__struct_config__.tag)
        why = move.why
        yield plan.id, number, move.id, kind, why.reason, why.gain, why.cost, details
