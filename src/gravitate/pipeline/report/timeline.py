"""How a run went over time: its periods, put together where there are too many to draw."""

from __future__ import annotations

import math
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from gravitate.pipeline.report.figures import PeriodFigures
from gravitate.pipeline.store import Store
from gravitate.trace import histogram

STRETCHES_MAX: Final = 240
"""How many points a line over time has at most."""


def periods(
    spark: Any, store: Store, begun_s: float, observed_s: float, scale: float
) -> tuple[PeriodFigures, ...]:
    """The run in at most `STRETCHES_MAX` stretches of equal length, from first to last event."""
    load = store.derived(spark, "broker_load")
    first, last = load.agg(F.min("period"), F.max("period")).collect()[0]
    if first is None:
        return ()
    period_s = store.manifest().period_s
    width = math.ceil((last - first + 1) / STRETCHES_MAX)
    carried = _by_stretch(load, first, width, "in_links", "in_clients", "out_clients")
    wanted = _by_stretch(store.derived(spark, "yield"), first, width, "arrivals", "useful")
    delayed = {
        row["stretch"]: row
        for row in _in_stretches(store.derived(spark, "delays"), first, width)
        .select("stretch", "bucket", "deliveries", "delay_s_sum", "delay_s_max")
        .groupBy("stretch")
        .applyInArrow(_spread, "stretch int, mean_s double, p95_s double")
        .collect()
    }
    found = []
    for stretch in range((last - first) // width + 1):
        from_s = (first + stretch * width) * period_s - begun_s
        until_s = min(from_s + width * period_s, observed_s)
        from_s = max(from_s, 0.0)
        # The first and the last stretch are rarely whole.
        seconds = until_s - from_s if until_s > from_s else 1.0
        load_row, delay_row = carried.get(stretch), delayed.get(stretch)
        yield_row = wanted.get(stretch, {"arrivals": 0})
        arrivals = yield_row["arrivals"]
        found.append(
            PeriodFigures(
                from_s=from_s,
                seconds=seconds,
                published_msgs_per_s=_rate(load_row, "in_clients", scale / seconds),
                delivered_msgs_per_s=_rate(load_row, "out_clients", scale / seconds),
                links_msgs_per_s=_rate(load_row, "in_links", scale / seconds),
                yield_share=yield_row["useful"] / arrivals if arrivals else None,
                delay_ms_mean=1000 * delay_row["mean_s"] if delay_row else None,
                delay_ms_p95=1000 * delay_row["p95_s"] if delay_row else None,
            )
        )
    return tuple(found)


def _in_stretches(rows: Any, first: int, width: int) -> Any:
    return rows.withColumn("stretch", F.floor((F.col("period") - first) / width).cast("int"))


def _by_stretch(rows: Any, first: int, width: int, *columns: str) -> dict[int, Any]:
    sums = [F.sum(column).alias(column) for column in columns]
    return {
        row["stretch"]: row
        for row in _in_stretches(rows, first, width).groupBy("stretch").agg(*sums).collect()
    }


def _spread(rows: pa.Table) -> pa.Table:
    """Mean and 95 % of the delays of one stretch."""
    counts = rows["deliveries"].to_numpy()
    (p95_s,) = histogram.percentiles_s(
        rows["bucket"].to_numpy(), counts, (0.95,), rows["delay_s_max"].to_numpy().max()
    )
    return pa.table(
        {
            "stretch": pa.array(rows["stretch"].to_numpy()[:1], pa.int32()),
            "mean_s": [rows["delay_s_sum"].to_numpy().sum() / counts.sum()],
            "p95_s": [p95_s],
        }
    )


def _rate(row: Any, column: str, factor: float) -> float:
    return float(row[column] * factor) if row else 0.0
