"""What a run measured: its tables added up, and evaluated on the metrics of a model of it.

    found = measured(spark, store)                   brokers, links, delays, time observed
    evaluate_run(spark, store)                       every metric

Owns how rows of `broker_load`, `link_load`, `delays` and `yield` become what a network carried;
`gravitate evaluate --run` and the report both take it from here. What was sampled is scaled up;
links are counted in full already. Everything collected has the size of the network, or of a
histogram.

A *subscriber* is a session that still holds a subscription at the end of the run; it is counted
once, at the broker where it subscribed last. Rates are taken over the time *observed*, from the
first to the last that happened to any event; over 1 s when that is no time.

What a run does not tell: service times (utilisation of inputs and processing costs are taken from
`terms`), and how many control messages there were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

import msgspec
import numpy as np
from pyspark.sql import functions as F

from gravitate.config import network as networks
from gravitate.config import toml
from gravitate.config.network import Network
from gravitate.errors import FileError
from gravitate.model.moves import MoveOutcome
from gravitate.pipeline.evaluate.metrics import (
    FLOWS,
    Carried,
    Evaluation,
    Link,
    Terms,
    assessed,
    check_duration,
)
from gravitate.pipeline.store.store import Store, StoreManifest
from gravitate.pipeline.tables.aggregates import sums
from gravitate.trace import histogram

_SUMMED: Final = {
    "broker_load": FLOWS,
    "yield": ("arrivals", "useful", "pure_forwarders"),
    "delays": ("deliveries", "delay_s_sum"),
}
"""What is added up for each broker, by derived table; all of it is of the sample."""


class BrokerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker did, scaled up to all events."""

    in_links: float = 0.0
    in_clients: float = 0.0
    out_links: float = 0.0
    out_clients: float = 0.0
    arrivals: float = 0.0
    useful: float = 0.0
    pure_forwarders: float = 0.0
    deliveries: float = 0.0
    delay_s_sum: float = 0.0
    subscribers: int = 0


class LinkCounts(msgspec.Struct, frozen=True):
    """One direction of a link."""

    events: float
    size_bytes: float
    rtt_s_mean: float | None


class Measured(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The tables of a run, added up."""

    begun_s: float
    """When the first event was taken in, on the clock of the run."""
    observed_s: float
    scale: float
    """How many events one of the sample stands for."""
    brokers: Mapping[str, BrokerCounts]
    links: Mapping[Link, LinkCounts]
    delays: list[Any]
    """Rows `hops, bucket, deliveries, delay_s_sum, delay_s_max`, sorted, not scaled."""
    moves_cost: float
    """What the moves that were carried out were predicted to cost."""

    @property
    def duration_s(self) -> float:
        """What rates are taken over."""
        return self.observed_s or 1.0

    def carried(self, network: Network, duration_s: float | None = None) -> Carried:
        """The same for `metrics.assessed`; brokers that the network lacks are left out."""
        nothing = BrokerCounts()
        counts = [self.brokers.get(broker.id, nothing) for broker in network.brokers]
        hops: dict[int, float] = defaultdict(float)
        buckets = np.zeros(histogram.BUCKETS)
        for row in self.delays:
            hops[row["hops"]] += row["deliveries"] * self.scale
            buckets[row["bucket"]] += row["deliveries"] * self.scale
        return Carried(
            duration_s=self.duration_s if duration_s is None else duration_s,
            **{
                name: np.array([getattr(broker, name) for broker in counts])
                for name in (*FLOWS, "useful")
            },
            links={
                between: (link.events, link.size_bytes)
                for between, link in self.links.items()
                if link.events
            },
            hops=hops,
            delay_buckets=buckets,
            delay_s_sum=sum(row["delay_s_sum"] for row in self.delays) * self.scale,
            delay_s_max=max((row["delay_s_max"] for row in self.delays), default=0.0),
            subscribers={name: counts.subscribers for name, counts in self.brokers.items()},
            reconfiguration_cost=self.moves_cost,
        )


def measured(spark: Any, store: Store) -> Measured:
    """Add up the tables of a run."""
    manifest = store.manifest()
    scale = 1.0 / manifest.sampling_rate if manifest.sampling_rate > 0 else 1.0
    begun_s, observed_s = _observed(spark, store)
    changes = _until(store.traces(spark, "subscriptions"), begun_s, observed_s)
    return Measured(
        begun_s=begun_s,
        observed_s=observed_s,
        scale=scale,
        brokers=_brokers(spark, store, scale, changes),
        links=_links(store.derived(spark, "link_load")),
        delays=_delays(store.derived(spark, "delays")),
        moves_cost=_moving_cost(store.traces(spark, "moves"))
        if manifest.rows.get("moves")
        else 0.0,
    )


def evaluate_run(
    spark: Any,
    store: Store,
    *,
    name: str = "",
    terms: Terms | None = None,
    duration_s: float | None = None,
) -> Evaluation:
    """Every metric of the run whose tables are in `store`.

    Rates are taken over `duration_s`; by default over the time observed."""
    check(store)
    check_duration(duration_s)
    manifest = store.manifest()
    network = network_of(manifest, str(store.directory))
    carried = measured(spark, store).carried(network, duration_s)
    return assessed(name or manifest.scenario or "run", network, carried, terms)


def check(store: Store) -> None:
    """Refuse a folder that is no store, and one whose tables lack what has been taken in."""
    if not store.exists():
        raise FileError(
            "has no tables of a run: take its traces in with `gravitate ingest RUN`",
            str(store.directory),
        )
    if not store.is_complete():
        raise FileError(
            "has not all tables of its run: it is still being written, or an ingest was ended "
            "before it was done; run `gravitate ingest RUN` when its brokers have ended",
            str(store.directory),
        )


def network_of(manifest: StoreManifest, place: str) -> Network:
    """The network a store is of, whatever mechanisms it names."""
    document = toml.parse(manifest.network, place)
    return networks.from_document(document, document.data.get("mechanisms", {}))


def subscription_changes(spark: Any, store: Store) -> Any:
    """What subscribers changed while there were events. A run that is ended in order closes its
    sessions after the last event, and that is nobody's wish."""
    return _until(store.traces(spark, "subscriptions"), *_observed(spark, store))


def _until(changes: Any, begun_s: float, observed_s: float) -> Any:
    return changes.where(F.col("at_s") <= begun_s + observed_s) if observed_s else changes


def held(changes: Any) -> Any:
    """The subscriptions that are held after all `changes`: rows `session, broker, subscription,
    begun_s, filter`."""
    ended = F.max(F.when(F.col("change") == "unsubscribed", F.col("at_s")))
    begun_s = F.when(F.col("change") == "subscribed", F.col("at_s"))
    return (
        changes.groupBy("session", "broker", "subscription")
        .agg(
            F.max(begun_s).alias("begun_s"),
            F.max_by("filter", begun_s).alias("filter"),
            ended.alias("ended_s"),
        )
        .where(F.col("ended_s").isNull() | (F.col("begun_s") > F.col("ended_s")))
        .drop("ended_s")
    )


def subscribers(changes: Any) -> Any:
    """The sessions that hold a subscription after all `changes`, by the broker where they
    subscribed last: rows `broker, session`."""
    return (
        held(changes)
        .groupBy("session")
        .agg(F.max_by("broker", F.struct("begun_s", "broker")).alias("broker"))
        .select("broker", "session")
    )


# --- the sums -------------------------------------------------------------------------------------


def _observed(spark: Any, store: Store) -> tuple[float, float]:
    """When the first event was taken in, and how long after that anything happened to events."""
    spans = [
        store.traces(spark, table).agg(F.min("at_s").alias("first"), F.max("at_s").alias("last"))
        for table in ("publications", "hops", "deliveries")
    ]
    first_s, last_s = (
        reduce(lambda one, other: one.unionByName(other), spans)
        .agg(F.min("first"), F.max("last"))
        .collect()[0]
    )
    if first_s is None:
        return store.manifest().started_at_s, 0.0
    return first_s, last_s - first_s


def _brokers(spark: Any, store: Store, scale: float, changes: Any) -> dict[str, BrokerCounts]:
    """All counts of each broker, from all tables at once."""
    sessions = subscribers(changes).groupBy("broker").agg(F.count("*").alias("subscribers"))
    counted = [store.derived(spark, name).select("broker", *of) for name, of in _SUMMED.items()]
    together = reduce(lambda one, other: one.unionByName(other, True), [*counted, sessions])
    columns = [column for of in _SUMMED.values() for column in of]
    rows = together.groupBy("broker").agg(*sums(*columns, "subscribers")).collect()
    return {
        row["broker"]: BrokerCounts(
            **{column: (row[column] or 0) * scale for column in columns},
            subscribers=row["subscribers"] or 0,
        )
        for row in rows
    }


def _links(load: Any) -> dict[Link, LinkCounts]:
    rows = load.groupBy("broker", "peer").agg(
        *sums("events", "size_bytes", "rtt_s_sum", "rtt_count")
    )
    return {
        (row["broker"], row["peer"]): LinkCounts(
            float(row["events"]),
            float(row["size_bytes"]),
            row["rtt_s_sum"] / row["rtt_count"] if row["rtt_count"] else None,
        )
        for row in rows.collect()
    }


def _delays(delays: Any) -> list[Any]:
    """Deliveries by hops and delay class: at most `histogram.BUCKETS` rows a number of hops."""
    rows: list[Any] = (
        delays.groupBy("hops", "bucket")
        .agg(*sums("deliveries", "delay_s_sum"), F.max("delay_s_max").alias("delay_s_max"))
        .orderBy("hops", "bucket")
        .collect()
    )
    return rows


def _moving_cost(moves: Any) -> float:
    done = moves.where(F.col("outcome") == MoveOutcome.DONE.value)
    return float(done.agg(F.sum("cost")).collect()[0][0] or 0.0)
