"""Delivery delays as histograms over the classes of `trace.histogram`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from gravitate.pipeline.derive.grouping import Groups, codes, numbers, texts
from gravitate.pipeline.derive.scanning import Summary, together
from gravitate.pipeline.tables import schemas
from gravitate.trace.histogram import bucket_of


def delays(summaries: Any) -> Any:
    """`schemas.DELAYS` from `DELAYS`."""
    return (
        together(summaries, "period")
        .groupBy("period", "broker", "hops", "bucket")
        .agg(
            F.sum("deliveries").alias("deliveries"),
            F.sum("delay_s_sum").alias("delay_s_sum"),
            F.max("delay_s_max").alias("delay_s_max"),
        )
        .select(*schemas.DELAYS.names)
    )


def _delays(rows: pa.Table) -> pa.Table:
    brokers, broker = codes(rows["broker"])
    delay_s = numbers(rows["delay_s"])
    hops = numbers(rows["hops"]).astype(np.int32)
    groups = Groups(numbers(rows["period"]), broker, hops, bucket_of(delay_s))
    return pa.table(
        {
            "period": groups.keys[0],
            "broker": texts(brokers, groups.keys[1]),
            "hops": groups.keys[2],
            "bucket": groups.keys[3],
            "deliveries": groups.counts(),
            "delay_s_sum": groups.sums(delay_s),
            "delay_s_max": groups.maxima(delay_s),
        }
    )


DELAYS: Final = Summary(
    "deliveries",
    ("broker", "hops", "delay_s"),
    _delays,
    "period int, broker string, hops int, bucket int, deliveries long, delay_s_sum double, "
    "delay_s_max double",
)
