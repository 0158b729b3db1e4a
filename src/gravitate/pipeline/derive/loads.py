"""What brokers and links carry, and how much of it is wanted there.

Counted as `trace.metrics` counts: a row of `hops` is an event that came to a broker, over a link
unless it is the event's first; an arrival over a link is useful when a local session matched it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from gravitate.pipeline import schemas


def broker_load(hops: Any) -> Any:
    """`schemas.BROKER_LOAD` from hops."""
    in_links = F.count("came_from")
    return (
        hops.groupBy("period", "broker")
        .agg(
            in_links.alias("in_links"),
            (F.count(F.lit(1)) - in_links).alias("in_clients"),
            F.sum(F.size("links").cast("long")).alias("out_links"),
            F.sum("local_deliveries").alias("out_clients"),
        )
        .select(*schemas.BROKER_LOAD.names)
    )


def yields(hops: Any) -> Any:
    """`schemas.YIELD` from hops; a broker that got nothing over links has no row."""
    arrivals = F.count(F.lit(1))
    useful = F.count(F.when(F.col("local_deliveries") > 0, 1))
    return (
        hops.where(F.col("came_from").isNotNull())
        .groupBy("period", "broker")
        .agg(
            arrivals.alias("arrivals"),
            useful.alias("useful"),
            (arrivals - useful).alias("pure_forwarders"),
        )
        .select(*schemas.YIELD.names)
    )


def link_load(links: Any) -> Any:
    """`schemas.LINK_LOAD` from link rows, each of which counts what was sent since the one before.

    A row's count belongs to the period in which the row was written."""
    return (
        links.groupBy("period", "broker", "peer")
        .agg(
            F.sum("events").alias("events"),
            F.sum("size_bytes").alias("size_bytes"),
            F.avg("rtt_s").alias("rtt_s_mean"),
        )
        .select(*schemas.LINK_LOAD.names)
    )
