"""Evaluating a network for a workload: every metric, from the flow model, on Spark.

    evaluate(spark, network, "quotes/")                      as the workload places its clients
    evaluate(spark, network, "quotes/", placement_of(spark, moves))

The way: publications and subscriptions get their brokers (`placed_...`), matching gives every
publication its audience, publications with the same source and audience become one flow, tasks
run the flow model over their flows, and Spark adds up their totals. The driver sees brokers,
links and a histogram. A workload of notification types gives its flows as they are.

Owns where clients are and how flows are made and summed. What matches is `matches`' business,
what flows do `plan.flow`'s, what the metrics are `registry`'s.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.config.network import Network
from gravitate.config.workload_tables import WorkloadManifest, load_manifest
from gravitate.errors import FileError, InputError
from gravitate.model.moves import Move, ReassignSubscriber, RelocatePublisher
from gravitate.overlay.strategies import S0, Forwarding, forwarding_named
from gravitate.pipeline.evaluate.matches import Cut, audience_lists
from gravitate.pipeline.evaluate.metrics import (
    Evaluation,
    Terms,
    assessed,
    check_duration,
    tree_of,
)
from gravitate.pipeline.evaluate.totals import SCHEMA, Totals, carried, collected
from gravitate.pipeline.tables.workload_frames import read, tasks
from gravitate.plan.flow.flow import Flows, Tree, flow, flows_of

FLOW_COLUMNS: Final = ("source", "size_bytes", "audience", "events")


class Placement(msgspec.Struct, frozen=True):
    """Where some clients are instead of where the workload has them."""

    publishers: Any = None
    """A DataFrame `publisher, broker`, one row a publisher; None: all as in the workload."""
    subscribers: Any = None
    """A DataFrame `subscriber, broker`."""
    moves_cost: float | None = None
    """What the moves are predicted to cost that bring them there; None: not known."""


NOBODY_MOVES: Final = Placement()


def placement_of(spark: Any, moves: Iterable[Move]) -> Placement:
    """Where clients are after the moves, and what all of them cost. Moves that concern no client
    change the network, which is given as it is afterwards."""
    moves = tuple(moves)
    publishers: dict[str, str] = {}
    subscribers: dict[str, str] = {}
    for move in moves:
        match move:
            case RelocatePublisher(publisher=client, target=broker):
                publishers[client] = broker
            case ReassignSubscriber(subscriber=client, target=broker):
                subscribers[client] = broker
            case _:
                pass

    def frame(column: str, places: dict[str, str]) -> Any:
        if not places:
            return None
        return spark.createDataFrame(list(places.items()), f"{column} string, broker string")

    return Placement(
        frame("publisher", publishers),
        frame("subscriber", subscribers),
        math.fsum(move.why.cost for move in moves),
    )


# --- the job --------------------------------------------------------------------------------------


def evaluate(
    spark: Any,
    network: Network,
    workload: str | Path,
    placement: Placement = NOBODY_MOVES,
    *,
    name: str = "",
    terms: Terms | None = None,
    forwarding: str | None = None,
    duration_s: float | None = None,
    cut: Cut | None = None,
) -> Evaluation:
    """Every metric of `network` under the workload in a folder.

    `duration_s` is what rates are taken over: by default the workload's parameter of that name,
    else the time of its last publication, else 1 s. Costs that the workload gives (tables
    `brokers` and `links`) take the place of milliseconds unless `terms` has others."""
    terms = terms or Terms()
    check_duration(duration_s)
    chosen = forwarding_named(forwarding or network.forwarding)
    folder = Path(workload)
    manifest = load_manifest(folder)
    tables = {table: read(spark, folder, table) for table in manifest.rows}
    limited = any(link.bandwidth_bytes_per_s for link in network.links)
    if "notifications" in tables:
        flows = notification_flows(tables["notifications"])
        subscribers = _subscribers(flows.select(F.explode("audience").alias("at")), "at.broker")
        duration_s = 1.0 if duration_s is None else duration_s
    elif {"publications", "subscriptions"} <= tables.keys():
        events = placed_publications(
            tables["publications"], tables.get("publishers"), placement.publishers
        )
        held = placed_subscriptions(tables["subscriptions"], placement.subscribers)
        cut = cut or Cut.of(manifest.rows["subscriptions"], tasks(spark))
        flows = flow_groups(audience_lists(events, held, cut), by_size=limited)
        subscribers = _subscribers(held.select("broker", "subscriber").distinct(), "broker")
        if duration_s is None:
            duration_s = _duration_s(manifest, tables["publications"])
    else:
        raise FileError(
            "has neither publications and subscriptions nor notifications to evaluate; "
            f"its tables are {', '.join(manifest.rows)}",
            str(folder),
        )
    totals = totals_of(flows, network, terms, chosen)
    found = carried(
        totals,
        tree_of(network),
        [broker.id for broker in network.brokers],
        network,
        duration_s=duration_s,
        subscribers=subscribers,
        cost=placement.moves_cost,
    )
    terms = _with_costs(spark, network, tables, terms)
    return assessed(name or manifest.workload, network, found, terms, chosen)


def totals_of(flows: Any, network: Network, terms: Terms, forwarding: Forwarding = S0) -> Totals:
    """What the flows amount to; collects values of the size of the network."""
    names = tuple(broker.id for broker in network.brokers)
    tree = tree_of(network, terms.service)
    partial = functools.partial(_task, names, tree, forwarding)
    rows = flows.select(*FLOW_COLUMNS).mapInArrow(partial, SCHEMA)
    return collected(rows.withColumn("state", F.lit("")), ("",), len(names))[""]


# --- steps ----------------------------------------------------------------------------------------


def placed_publications(publications: Any, publishers: Any = None, moved: Any = None) -> Any:
    """Publications with the broker where they are published: where their publisher was moved to,
    else the publication's own, else the publisher's."""
    placed = publications
    if publishers is not None:
        home = publishers.select("publisher", F.col("broker").alias("home"))
        placed = placed.join(home, "publisher", "left")
    else:
        placed = placed.withColumn("home", F.lit(None).cast("string"))
    placed = _with_moved(placed, moved, "publisher")
    broker = F.coalesce("moved_to", "broker", "home").alias("broker")
    return placed.select(*(c for c in publications.columns if c != "broker"), broker)


def placed_subscriptions(subscriptions: Any, moved: Any = None) -> Any:
    """Subscriptions with the broker of their subscriber."""
    placed = _with_moved(subscriptions, moved, "subscriber")
    broker = F.coalesce("moved_to", "broker").alias("broker")
    return placed.select(*(c for c in subscriptions.columns if c != "broker"), broker)


def _with_moved(clients: Any, moved: Any, column: str) -> Any:
    if moved is None:
        return clients.withColumn("moved_to", F.lit(None).cast("string"))
    return clients.join(moved.select(column, F.col("broker").alias("moved_to")), column, "left")


def flow_groups(audiences: Any, by_size: bool = True) -> Any:
    """Publications with the same source and audience as one flow.

    Unless `by_size`, a flow has the mean size of its events: exact for what links carry, and for
    delays where no bandwidth is limited."""
    keys = ("source", "audience", *(("size_bytes",) if by_size else ()))
    size_bytes = F.first("size_bytes") if by_size else F.avg("size_bytes")
    return (
        audiences.groupBy(*keys)
        .agg(
            F.count(F.lit(1)).cast("double").alias("events"),
            size_bytes.cast("double").alias("mean_bytes"),
        )
        .select("source", F.col("mean_bytes").alias("size_bytes"), "audience", "events")
    )


def notification_flows(notifications: Any) -> Any:
    """A flow for each type of notification; one session at each of its brokers."""
    return notifications.select(
        F.col("publisher").alias("source"),
        F.lit(0.0).alias("size_bytes"),
        F.transform(
            "subscribers",
            lambda broker: F.struct(
                broker.alias("broker"), F.lit(1).cast("long").alias("sessions")
            ),
        ).alias("audience"),
        F.col("rate_per_tick").alias("events"),
    )


# --- the tasks ------------------------------------------------------------------------------------


def _task(
    names: tuple[str, ...], tree: Tree, forwarding: Forwarding, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The totals of one task's flows."""
    yield added_up(names, tree, forwarding, batches).rows()


def added_up(
    names: tuple[str, ...], tree: Tree, forwarding: Forwarding, batches: Iterator[pa.RecordBatch]
) -> Totals:
    known = pa.array(names, pa.string())
    totals = Totals(len(names))
    for batch in batches:
        flows = _flows(batch, known)
        totals.add(flows, *flow(tree, flows, forwarding))
    return totals


def _flows(batch: pa.RecordBatch, known: pa.Array) -> Flows:
    audience = batch.column("audience")
    at = audience.flatten()
    first = np.concatenate(([0], np.cumsum(pc.list_value_length(audience).to_numpy())))
    return flows_of(
        _numbers(batch.column("source"), known),
        first,
        _numbers(at.field("broker"), known),
        at.field("sessions").to_numpy(),
        batch.column("events").to_numpy(),
        batch.column("size_bytes").to_numpy(),
    )


def _numbers(brokers: pa.Array, known: pa.Array) -> Any:
    """The positions of brokers in the network."""
    found = pc.index_in(brokers, value_set=known)
    if found.null_count:
        stranger = brokers.filter(pc.is_null(found))[0].as_py()
        names = ", ".join(known[:5].to_pylist()) + (", ..." if len(known) > 5 else "")
        raise InputError(
            f"the workload has clients on broker '{stranger}', which the network lacks: it has "
            f"{names}; evaluate it on a network of its own brokers, or move these clients first"
        )
    return found.to_numpy()


# --- what is read beside the flows ----------------------------------------------------------------


def _duration_s(manifest: WorkloadManifest, publications: Any) -> float:
    stated = manifest.parameters.get("duration_s")
    if isinstance(stated, int | float) and stated > 0:
        return float(stated)
    last = publications.agg(F.max("at_s")).collect()[0][0]
    return float(last or 0.0)


def _subscribers(clients: Any, broker: str) -> dict[str, int]:
    """How many rows each broker has; as many values as brokers."""
    counted = clients.groupBy(F.col(broker).alias("broker")).count().collect()
    return {row[0]: row[1] for row in counted if row[0] is not None}


def _with_costs(spark: Any, network: Network, tables: dict[str, Any], terms: Terms) -> Terms:
    """The terms with the costs that the workload gives for the network's brokers and links."""
    if terms.processing_costs is None and "brokers" in tables and "links" in tables:
        ids = [broker.id for broker in network.brokers]
        wanted = tables["brokers"].where(F.col("broker").isin(ids))
        costs = {row[0]: row[1] for row in wanted.select("broker", "processing_cost").collect()}
        terms = msgspec.structs.replace(terms, processing_costs=costs)
    if terms.link_costs is None and "links" in tables and network.links:
        ends = spark.createDataFrame(
            [tuple(sorted(link.between)) for link in network.links], "broker string, peer string"
        )
        rows = tables["links"].join(ends, ["broker", "peer"]).select("broker", "peer", "cost")
        found = {(row[0], row[1]): row[2] for row in rows.collect()}
        terms = msgspec.structs.replace(terms, link_costs=found)
    return terms
