"""What is published, by whom, and where it is wanted: the leading topics, publishers, pairs.

The constants bound what comes to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline.report.figures import (
    Audience,
    PairFigures,
    PublisherFigures,
    TopicFigures,
)
from gravitate.pipeline.store import Store

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
            *_sums("publications"),
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
    total = published.select("publisher").distinct().count()
    most = (
        published.groupBy("publisher")
        .agg(F.sum("count").alias("published"))
        .join(profiles.groupBy("publisher").agg(*_sums("deliveries")), "publisher", "left")
        .fillna(0, ["deliveries"])
        .orderBy(F.desc("deliveries"), F.desc("published"), "publisher")
        .limit(PUBLISHERS_MAX)
        .collect()
    )
    names = [row["publisher"] for row in most]
    theirs = profiles.where(F.col("publisher").isin(names))
    nearest = [
        row["broker"]
        for row in theirs.groupBy("broker")
        .agg(*_sums("deliveries"))
        .orderBy(F.desc("deliveries"), "broker")
        .limit(AUDIENCE_MAX)
        .collect()
    ]
    audiences: dict[str, list[Audience]] = defaultdict(list)
    # A word can have rows in two periods; an event in both is one event.
    for row in (
        theirs.where(F.col("broker").isin(nearest))
        .groupBy("publisher", "broker", "incarnation", "word")
        .agg(F.bit_or("bits").alias("bits"), *_sums("deliveries"))
        .groupBy("publisher", "broker")
        .agg(F.sum(F.bit_count("bits")).alias("events"), *_sums("deliveries"))
        .orderBy(F.desc("deliveries"), "broker")
        .collect()
    ):
        audiences[row["publisher"]].append(
            Audience(
                broker=row["broker"],
                events=row["events"] * scale,
                deliveries=row["deliveries"] * scale,
            )
        )
    homes: dict[str, list[str]] = defaultdict(list)
    for row in (
        published.where(F.col("publisher").isin(names)).orderBy(F.desc("count"), "broker").collect()
    ):
        homes[row["publisher"]].append(row["broker"])
    return total, tuple(
        PublisherFigures(
            publisher=row["publisher"],
            published=row["published"] * scale,
            homes=tuple(homes[row["publisher"]]),
            deliveries=row["deliveries"] * scale,
            audience=tuple(audiences[row["publisher"]]),
        )
        for row in most
    )


def common_interest(common: Any, scale: float) -> tuple[tuple[PairFigures, ...], float | None]:
    """Pairs among the brokers with the most in common, and what Bloom filters add, over all."""
    exact, bloom = common.agg(F.sum("events"), F.sum("events_bloom")).collect()[0]
    leading = [
        row["broker"]
        for row in common.groupBy("broker")
        .agg(*_sums("events"))
        .orderBy(F.desc("events"), "broker")
        .limit(INTEREST_MAX)
        .collect()
    ]
    rows = (
        common.where(F.col("broker").isin(leading) & F.col("other").isin(leading))
        .groupBy("broker", "other")
        .agg(*_sums("events", "events_bloom"))
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
    return pairs, (bloom - exact) / exact if exact else None


def _sums(*columns: str) -> list[Any]:
    return [F.sum(column).alias(column) for column in columns]
