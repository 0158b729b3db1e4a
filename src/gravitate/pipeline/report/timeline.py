"""How a run went over time: its periods, put together where there are too many to draw."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F

from gravitate.pipeline.report.figures import PeriodFigures
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables.aggregates import sums
from gravitate.trace import histogram

STRETCHES_MAX: Final = 240
"""How many points a line over time has at most."""
COUNTS: Final = ("in_links", "in_clients", "out_clients", "arrivals", "useful")


def periods(
    spark: Any, store: Store, begun_s: float, observed_s: float, scale: float
) -> tuple[PeriodFigures, ...]:
    """The run in at most `STRETCHES_MAX` stretches of equal length, from first to last event."""
    carried = store.derived(spark, "broker_load")
    first, last = carried.agg(F.min("period"), F.max("period")).collect()[0]
    if first is None:
        return ()
    width = math.ceil((last - first + 1) / STRETCHES_MAX)
    stretch = F.floor((F.col("period") - first) / width).cast("int").alias("stretch")
    wanted = store.derived(spark, "yield").select("period", "arrivals", "useful")
    counts = {
        row["stretch"]: row.asDict()
        for row in carried.unionByName(wanted, True).groupBy(stretch).agg(*sums(*COUNTS)).collect()
    }
    delays = _delays(store.derived(spark, "delays"), stretch)
    period_s = store.manifest().period_s
    found = []
    for number in range((last - first) // width + 1):
        from_s = (first + number * width) * period_s - begun_s
        until_s = min(from_s + width * period_s, observed_s)
        from_s = max(from_s, 0.0)
        # The first and the last stretch are rarely whole.
        seconds = until_s - from_s if until_s > from_s else 1.0
        summed = counts.get(number, dict.fromkeys(COUNTS))
        mean_s, p95_s = delays.get(number, (None, None))
        found.append(
            PeriodFigures(
                from_s=from_s,
                seconds=seconds,
                published_msgs_per_s=(summed["in_clients"] or 0) * scale / seconds,
                delivered_msgs_per_s=(summed["out_clients"] or 0) * scale / seconds,
                links_msgs_per_s=(summed["in_links"] or 0) * scale / seconds,
                yield_share=summed["useful"] / summed["arrivals"] if summed["arrivals"] else None,
                delay_ms_mean=None if mean_s is None else 1000 * mean_s,
                delay_ms_p95=None if p95_s is None else 1000 * p95_s,
            )
        )
    return tuple(found)


def _delays(delays: Any, stretch: Any) -> dict[int, tuple[float, float]]:
    """Mean and 95 % of the delays of each stretch, from at most a row a stretch and class."""
    rows = (
        delays.groupBy(stretch, "bucket")
        .agg(
            *sums("deliveries", "delay_s_sum"),
            F.max("delay_s_max").alias("delay_s_max"),
        )
        .toArrow()
    )
    columns = {name: rows[name].to_numpy() for name in rows.column_names}
    found = {}
    for number in np.unique(columns["stretch"]):
        of = {name: values[columns["stretch"] == number] for name, values in columns.items()}
        (p95_s,) = histogram.percentiles_s(
            of["bucket"], of["deliveries"], (0.95,), float(of["delay_s_max"].max())
        )
        found[int(number)] = (float(of["delay_s_sum"].sum() / of["deliveries"].sum()), p95_s)
    return found
