"""A prediction made again for what came: a run's events, and clients where a plan has them.

    expected(spark, store, run, plan).metrics["broker_rate_msgs_per_s_mean"]

A plan predicts for the events and the audience that were recorded. Later ones are others, so they
go through the flow model too: each event from the broker that took it in to the brokers that
delivered it, but for the clients that the plan moves, which count where it wants them. What a run
measured differs from that where moves are not in effect, or where the model is wrong.

Owns how a run and a plan become such flows. It knows neither metrics nor what is compared.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from pyspark.sql import functions as F

from gravitate.config.plan import Plan
from gravitate.model.moves import ReassignSubscriber, RelocatePublisher
from gravitate.pipeline.evaluate.evaluation import flow_groups
from gravitate.pipeline.evaluate.measured import subscribers, subscription_changes
from gravitate.pipeline.evaluate.metrics import Evaluation
from gravitate.pipeline.planning.audiences import RecordedEvents, Served
from gravitate.pipeline.planning.making import Run
from gravitate.pipeline.planning.prediction import evaluated
from gravitate.pipeline.store.store import Store

EXPECTED: Final = "expected"

_EVENT: Final = ("publisher", "incarnation", "counter")


def expected(spark: Any, store: Store, run: Run, plan: Plan) -> Evaluation:
    """Every metric of the events in a store, as the plan would have it for them."""
    publishers = {m.publisher: m.target for m in plan.moves if isinstance(m, RelocatePublisher)}
    listeners = {m.subscriber: m.target for m in plan.moves if isinstance(m, ReassignSubscriber)}
    brokers = run.overlay.brokers
    rows = audiences_placed(
        placed(spark, store.traces(spark, "publications"), "publisher", publishers),
        placed(spark, store.traces(spark, "deliveries"), "session", listeners),
        spark.createDataFrame(list(enumerate(brokers)), "position int, broker string"),
        by_size=any(link.bandwidth_bytes_per_s for link in run.network.links),
    )
    there = Served(np.arange(len(brokers), dtype=np.int32))
    totals = RecordedEvents(rows, run.overlay).totals({EXPECTED: there}, run.network.forwarding)
    held = placed(spark, subscribers(subscription_changes(spark, store)), "session", listeners)
    counts = {row["broker"]: row["count"] for row in held.groupBy("broker").count().collect()}
    frame = msgspec.structs.replace(run.frame, subscribers=counts)
    cost = sum(move.why.cost for move in plan.moves)
    return evaluated(EXPECTED, totals[EXPECTED], run.network, run.overlay, frame, cost)


def placed(spark: Any, rows: Any, client: str, targets: dict[str, str]) -> Any:
    """Rows with `broker` where a plan has their client, if it moves it."""
    moved = spark.createDataFrame(list(targets.items()), f"{client} string, target string")
    return (
        rows.join(F.broadcast(moved), client, "left")
        .withColumn("broker", F.coalesce("target", "broker"))
        .drop("target")
    )


def audiences_placed(publications: Any, deliveries: Any, positions: Any, by_size: bool) -> Any:
    """`source, size_bytes, audience, events` as `audiences` makes them, with the positions of
    brokers in the place of subscribers: one for every session there."""
    got = (
        deliveries.join(F.broadcast(positions), "broker")
        .groupBy(*_EVENT)
        .agg(F.sort_array(F.collect_list("position")).alias("audience"))
    )
    events = (
        publications.select(*_EVENT, "size_bytes", F.col("broker").alias("source"))
        .join(got, list(_EVENT), "left")
        .withColumn("audience", F.coalesce("audience", F.array().cast("array<int>")))
    )
    return flow_groups(events, by_size)
