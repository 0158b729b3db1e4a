"""What is published, by whom, and where it is wanted: the leading topics, publishers, pairs.

The constants bound what comes to the driver.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline.report.figures import (
    Audience,
    PairFigures,
    PublisherFigures,
    TopicFigures,
)
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables.aggregates import sums

TOPICS_MAX: Final = 20
PUBLISHERS_MAX: Final = 15
AUDIENCE_MAX: Final = 40
"""Brokers for which the audience of publishers is told apart."""
INTEREST_MAX: Final = 40
"""Brokers among which common interest is told, pair by pair."""


def leading_topics(
    rates: Any, scale: float, seconds: float
) -> tuple[int, tuple[TopicFigures, ...]]:
    total = rates.agg(F.countDistinct("topic")).collect()[0][0]
    most = (
        rates.groupBy("topic")
        .agg(
            *sums("publications"),
            F.max_by("rate_smoothed_msgs_per_s", "period").alias("smoothed"),
        )
        .orderBy(F.desc("publications"), "topic")
        .limit(TOPICS_MAX)
        .collect()
    )
    return total, tuple(
        TopicFigures(
            topic=row["topic"],
            publications=row["publications"] * scale,
            rate_msgs_per_s=row["publications"] * scale / seconds,
            rate_smoothed_msgs_per_s=row["smoothed"] * scale,
        )
        for row in most
    )


def leading_publishers(
    spark: Any, store: Store, scale: float
) -> tuple[int, tuple[PublisherFigures, ...]]:
    """The publishers with the most deliveries, where they are and where their audience is."""
    profiles = store.derived(spark, "publisher_profiles")
    published = store.traces(spark, "publications").groupBy("publisher", "broker").count()
    total = published.agg(F.countDistinct("publisher")).collect()[0][0]
    most = (
        published.groupBy("publisher")
        .agg(
            F.sum("count").alias("published"),
            F.sort_array(F.collect_list(F.struct(-F.col("count"), "broker"))).alias("homes"),
        )
        .join(profiles.groupBy("publisher").agg(*sums("deliveries")), "publisher", "left")
        .fillna(0, ["deliveries"])
        .orderBy(F.desc("deliveries"), F.desc("published"), "publisher")
        .limit(PUBLISHERS_MAX)
        .collect()
    )
    audiences = _audiences(profiles, [row["publisher"] for row in most], scale)
    return total, tuple(
        PublisherFigures(
            publisher=row["publisher"],
            published=row["published"] * scale,
            homes=tuple(home["broker"] for home in row["homes"]),
            deliveries=row["deliveries"] * scale,
            audience=audiences.get(row["publisher"], ()),
        )
        for row in most
    )


def _audiences(
    profiles: Any, publishers: list[str], scale: float
) -> dict[str, tuple[Audience, ...]]:
    """Where the events of these few publishers are wanted: a row a publisher and broker."""
    rows = (
        profiles.where(F.col("publisher").isin(publishers))
        # A word can have rows in two periods; an event in both is one event.
        .groupBy("publisher", "broker", "incarnation", "word")
        .agg(F.bit_or("bits").alias("bits"), *sums("deliveries"))
        .groupBy("publisher", "broker")
        .agg(F.sum(F.bit_count("bits")).alias("events"), *sums("deliveries"))
        .orderBy(F.desc("deliveries"), "broker")
        .collect()
    )
    handed: Counter[str] = Counter()
    for row in rows:
        handed[row["broker"]] += row["deliveries"]
    nearest = {broker for broker, _ in handed.most_common(AUDIENCE_MAX)}
    found: dict[str, list[Audience]] = defaultdict(list)
    for row in rows:
        if row["broker"] in nearest:
            found[row["publisher"]].append(
                Audience(
                    broker=row["broker"],
                    events=row["events"] * scale,
                    deliveries=row["deliveries"] * scale,
                )
            )
    return {publisher: tuple(parts) for publisher, parts in found.items()}


def common_interest(common: Any, scale: float) -> tuple[tuple[PairFigures, ...], float | None]:
    """Pairs among the brokers with the most in common, and what Bloom filters add, over all."""
    brokers = (
        common.groupBy("broker")
        .agg(*sums("events", "events_bloom"))
        .orderBy(F.desc("events"), "broker")
        .collect()
    )
    exact = sum(row["events"] for row in brokers)
    if not exact:
        return (), None
    leading = [row["broker"] for row in brokers[:INTEREST_MAX]]
    rows = (
        common.where(F.col("broker").isin(leading) & F.col("other").isin(leading))
        .groupBy("broker", "other")
        .agg(*sums("events", "events_bloom"))
        .orderBy("broker", "other")
        .collect()
    )
    pairs = tuple(
        PairFigures(
            broker=row["broker"],
            other=row["other"],
            events=row["events"] * scale,
            events_bloom=row["events_bloom"] * scale,
        )
        for row in rows
    )
    return pairs, sum(row["events_bloom"] for row in brokers) / exact - 1.0
