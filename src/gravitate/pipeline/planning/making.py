"""The job that makes a plan for publishers: read a run, choose, predict.

    plan = plan_publishers(spark, Path("traces"), Mechanism())

Read, transform, write: the tables of the run's store in, a `config.plan.Plan` out. The driver sees
the moves, and figures of the size of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import functions as F

from gravitate.config import network as network_file
from gravitate.config.network import Network
from gravitate.config.plan import Plan, plan_of
from gravitate.pipeline.evaluate.measured import evaluate_run
from gravitate.pipeline.evaluate.metrics import Evaluation, Terms
from gravitate.pipeline.planning.prediction import Frame, predicted
from gravitate.pipeline.planning.publishers import Mechanism, Overlay, choices, moves_of
from gravitate.pipeline.planning.recorded import recorded
from gravitate.pipeline.report.write import complete_store
from gravitate.pipeline.store.store import Store

Tell = Callable[[str], None]
PlanRow = tuple[str, int, str, str, str, float, float, str]


def plan_publishers(
    spark: Any,
    run: Path,
    mechanism: Mechanism,
    terms: Terms | None = None,
    tell: Tell = lambda sentence: None,
) -> Plan:
    """Where the publishers of a run should be, as a plan; traces are taken in where needed."""
    store = complete_store(spark, run, tell)
    return plan_from_store(spark, store, run.name or str(run), mechanism, terms, tell)


def plan_from_store(
    spark: Any,
    store: Store,
    name: str,
    mechanism: Mechanism,
    terms: Terms | None = None,
    tell: Tell = lambda sentence: None,
) -> Plan:
    """The same from tables that are complete."""
    run = Run.read(spark, store, name, terms, tell)
    rows = recorded(store.traces(spark, "publications"), store.derived(spark, "publisher_profiles"))
    tell("choosing a broker for every publisher")
    better = choices(rows, run.overlay, mechanism).where("target <> source").collect()
    moves = moves_of(better, run.overlay, mechanism)
    tell(f"predicting what {len(moves)} moves change")
    before, after = predicted(
        rows,
        spark.createDataFrame(
            [(move.publisher, move.target) for move in moves], "publisher string, target string"
        ),
        run.network,
        run.overlay,
        run.frame,
        cost=sum(move.why.cost for move in moves),
    )
    return plan_of(
        kind="publishers",
        run=name,
        network=run.network,
        parameters=mechanism.parameters() | run.parameters(),
        moves=moves,
        recorded=run.measured.metrics(),
        before=before.metrics(),
        after=after.metrics(),
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
            duration_s=measured.duration_s,
            sampling_rate=manifest.sampling_rate,
            subscribers={b.broker: b.subscribers or 0 for b in measured.brokers},
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
