"""What brokers and links of a run carried, in the form that `pipeline.metrics` assesses, too.

One row a broker and two a link come to the driver. Links count every event, brokers those of the
sample, so only the latter are scaled.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import Any

import numpy as np
from pyspark.sql import functions as F

from gravitate.config.network import Network
from gravitate.pipeline.metrics import Carried
from gravitate.pipeline.report.figures import BrokerFigures, LinkFigures
from gravitate.pipeline.store import Store
from gravitate.trace import histogram

FLOWS = ("in_links", "in_clients", "out_links", "out_clients")


def broker_figures(
    spark: Any, store: Store, network: Network, scale: float, seconds: float
) -> tuple[BrokerFigures, ...]:
    """Every broker of the network and of the traces, in the order of the network file."""
    rows = _broker_rows(spark, store)
    named = {broker.id: broker.coordinates for broker in network.brokers}
    found = []
    for broker in (*named, *sorted(rows.keys() - named.keys())):
        counts = rows.get(broker, {})
        deliveries = counts.get("deliveries") or 0
        found.append(
            BrokerFigures(
                broker=broker,
                coordinates=named.get(broker, ()),
                **{
                    f"{flow}_msgs_per_s": (counts.get(flow) or 0) * scale / seconds
                    for flow in FLOWS
                },
                arrivals=(counts.get("arrivals") or 0) * scale,
                pure_forwarders=(counts.get("pure_forwarders") or 0) * scale,
                deliveries=deliveries * scale,
                delay_ms_mean=1000 * counts["delay_s_sum"] / deliveries if deliveries else None,
                subscribers=counts.get("subscribers") or 0,
            )
        )
    return tuple(found)


def _broker_rows(spark: Any, store: Store) -> dict[str, dict[str, Any]]:
    """All counts of each broker, from all tables at once."""
    parts = {
        "broker_load": FLOWS,
        "yield": ("arrivals", "pure_forwarders"),
        "delays": ("deliveries", "delay_s_sum"),
    }
    sessions = (
        store.traces(spark, "subscriptions")
        .where(F.col("change") == "subscribed")
        .groupBy("broker")
        .agg(F.countDistinct("session").alias("subscribers"))
    )
    counted = [store.derived(spark, name).select("broker", *of) for name, of in parts.items()]
    together = reduce(lambda one, other: one.unionByName(other, True), [*counted, sessions])
    columns = [column for of in parts.values() for column in of] + ["subscribers"]
    rows = together.groupBy("broker").agg(*_sums(*columns)).collect()
    return {row["broker"]: row.asDict() for row in rows}


def link_figures(load: Any, network: Network, seconds: float) -> tuple[LinkFigures, ...]:
    """Every primary link, and every other that carried something."""
    sent = {
        (row["broker"], row["peer"]): row
        for row in load.groupBy("broker", "peer")
        .agg(*_sums("events", "size_bytes"), F.avg("rtt_s_mean").alias("rtt_s"))
        .collect()
    }
    latencies = {_sorted(*link.between): link.latency_ms for link in network.links}
    carried = {_sorted(*pair) for pair, row in sent.items() if row["events"]}
    found = []
    for between in sorted({*latencies, *carried}):
        forth, back = sent.get(between), sent.get((between[1], between[0]))
        measured = [row["rtt_s"] for row in (forth, back) if row and row["rtt_s"] is not None]
        found.append(
            LinkFigures(
                between=between,
                primary=between in latencies,
                latency_ms=latencies.get(between),
                forth_msgs_per_s=forth["events"] / seconds if forth else 0.0,
                back_msgs_per_s=back["events"] / seconds if back else 0.0,
                forth_bytes_per_s=forth["size_bytes"] / seconds if forth else 0.0,
                back_bytes_per_s=back["size_bytes"] / seconds if back else 0.0,
                rtt_ms_mean=1000 * sum(measured) / len(measured) if measured else None,
            )
        )
    return tuple(found)


def carried(
    network: Network,
    brokers: tuple[BrokerFigures, ...],
    links: tuple[LinkFigures, ...],
    delays: list[Any],
    scale: float,
    seconds: float,
    moves_cost: float,
) -> Carried:
    """The same for `pipeline.metrics.assessed`; `delays` are the rows of `delay_rows`."""
    known = {broker.broker: broker for broker in brokers}
    of_network = [known[broker.id] for broker in network.brokers]
    directions: dict[tuple[str, str], tuple[float, float]] = {}
    for link in links:
        one, other = link.between
        directions[one, other] = (
            link.forth_msgs_per_s * seconds,
            link.forth_bytes_per_s * seconds,
        )
        directions[other, one] = (link.back_msgs_per_s * seconds, link.back_bytes_per_s * seconds)
    hops: dict[int, float] = defaultdict(float)
    buckets = np.zeros(histogram.BUCKETS)
    for row in delays:
        hops[row["hops"]] += row["deliveries"] * scale
        buckets[row["bucket"]] += row["deliveries"] * scale
    counts = {
        flow: np.array([getattr(broker, f"{flow}_msgs_per_s") * seconds for broker in of_network])
        for flow in FLOWS
    }
    pure_forwarders = np.array([broker.pure_forwarders for broker in of_network])
    return Carried(
        duration_s=seconds,
        **counts,
        useful=counts["in_links"] - pure_forwarders,
        links=directions,
        hops=hops,
        delay_buckets=buckets,
        delay_s_sum=sum(row["delay_s_sum"] for row in delays) * scale,
        delay_s_max=max((row["delay_s_max"] for row in delays), default=0.0),
        subscribers={broker.broker: broker.subscribers for broker in brokers},
        reconfiguration_cost=moves_cost,
    )


def _sums(*columns: str) -> list[Any]:
    return [F.sum(column).alias(column) for column in columns]


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
