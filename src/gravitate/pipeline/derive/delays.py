"""Delivery delays as histograms over the classes of `trace.histogram`."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.trace.histogram import BUCKETS, DELAY_S_MIN, RATIO


def delays(deliveries: Any) -> Any:
    """`schemas.DELAYS` from deliveries."""
    return (
        deliveries.groupBy("period", "broker", "hops", bucket(F.col("delay_s")).alias("bucket"))
        .agg(
            F.count(F.lit(1)).alias("deliveries"),
            F.sum("delay_s").alias("delay_s_sum"),
            F.max("delay_s").alias("delay_s_max"),
        )
        .withColumn("hops", F.col("hops").cast("int"))
        .select(*schemas.DELAYS.names)
    )


def bucket(delay_s: Any) -> Any:
    """The class of a delay, as `trace.histogram.bucket_of` has it."""
    steps = F.floor(F.log(delay_s / F.lit(DELAY_S_MIN)) / F.lit(math.log(RATIO))) + 1
    return (
        F.when(delay_s < F.lit(DELAY_S_MIN), 0)
        .otherwise(F.least(F.greatest(steps, F.lit(0)), F.lit(BUCKETS - 1)))
        .cast("int")
    )
