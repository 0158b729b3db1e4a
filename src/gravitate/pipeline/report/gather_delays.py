"""Delays of a run: its histogram by hops and delay class, and what follows from it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline.report.figures import DelayClass, HopsFigures
from gravitate.trace import histogram

_SHARES: Final = (0.5, 0.95)


def delay_rows(delays: Any) -> list[Any]:
    """Deliveries by hops and delay class: at most `histogram.BUCKETS` rows a number of hops."""
    rows: list[Any] = (
        delays.groupBy("hops", "bucket")
        .agg(
            F.sum("deliveries").alias("deliveries"),
            F.sum("delay_s_sum").alias("delay_s_sum"),
            F.max("delay_s_max").alias("delay_s_max"),
        )
        .orderBy("hops", "bucket")
        .collect()
    )
    return rows


def delay_classes(rows: list[Any], scale: float) -> tuple[DelayClass, ...]:
    """The histogram over all hops."""
    counts: dict[int, float] = defaultdict(float)
    for row in rows:
        counts[row["bucket"]] += row["deliveries"] * scale
    return tuple(
        DelayClass(_bound_ms(bucket - 1), _bound_ms(bucket), counts[bucket])
        for bucket in sorted(counts)
    )


def _bound_ms(bucket: int) -> float:
    """Where a delay class ends."""
    return 1000 * histogram.DELAY_S_MIN * histogram.RATIO**bucket if bucket >= 0 else 0.0


def delays_by_hops(rows: list[Any], scale: float) -> tuple[HopsFigures, ...]:
    """The spread of the delays for each number of hops."""
    parts: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        parts[row["hops"]].append(row)
    return tuple(_spread(hops, part, scale) for hops, part in sorted(parts.items()))


def _spread(hops: int, rows: list[Any], scale: float) -> HopsFigures:
    counts = [row["deliveries"] for row in rows]
    longest_s = max(row["delay_s_max"] for row in rows)
    buckets = [row["bucket"] for row in rows]
    p50_s, p95_s = histogram.percentiles_s(buckets, counts, _SHARES, longest_s)
    return HopsFigures(
        hops=hops,
        deliveries=sum(counts) * scale,
        delay_ms_mean=1000 * sum(row["delay_s_sum"] for row in rows) / sum(counts),
        delay_ms_p50=1000 * p50_s,
        delay_ms_p95=1000 * p95_s,
        delay_ms_max=1000 * longest_s,
    )
