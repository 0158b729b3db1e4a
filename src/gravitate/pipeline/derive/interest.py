"""Common interest of broker pairs, from publisher profiles.

An event counts for the pair (i, j) in the period in which i got it, when j got it too, then or at
most `TRAVEL_S_MAX` earlier or later. So an event that is under way when a period ends counts
like any other, and sums over periods are those of the whole run.

Owns how the events of a period are dealt out to *rounds*: groups of bounded size, each of which
is one call of `filters.shared_events`. A broker that caches 8,192 ids and has more of them sends
more than one filter a period; a round is what goes into one. All events of a word are in one
round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import ceil
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.pipeline.derive.filters import FilterShape, Marks, shared_events
from gravitate.pipeline.derive.periods import is_one_of
from gravitate.pipeline.derive.profiles import WORD

TRAVEL_S_MAX: Final = 600.0
"""An event that takes longer from one broker to another, as over a link that was cut, may not be
counted as common to the two."""


def common_interest(
    profiles: Any,
    period_s: float,
    periods: Collection[int] | None = None,
    shape: FilterShape | None = None,
) -> Any:
    """`schemas.COMMON_INTEREST` from publisher profiles, for the given periods or for all.

    `profiles` must reach `travel_periods` further than `periods` on both sides."""
    shape = shape or FilterShape()
    own = profiles if periods is None else profiles.where(is_one_of(periods))
    marks = (
        own.select("period", "broker", *WORD, "bits", F.lit(True).alias("own"))
        .union(_also_there(own, profiles, travel_periods(period_s)))
        .join(F.broadcast(_rounds(own, shape.ids_max)), "period")
        .withColumn("round", F.pmod(F.xxhash64(*WORD), F.col("rounds")))
    )
    pairs = marks.groupBy("period", "round").applyInArrow(_counted(shape), schemas.COMMON_INTEREST)
    return (
        pairs.groupBy("period", "broker", "other")
        .agg(F.sum("events").alias("events"), F.sum("events_bloom").alias("events_bloom"))
        .select(*schemas.COMMON_INTEREST.names)
    )


def travel_periods(period_s: float) -> int:
    """How many periods away from its own an event may be found at another broker."""
    return max(1, ceil(TRAVEL_S_MAX / period_s))


def periods_sharing(profiles: Any, periods: Collection[int], period_s: float) -> Any:
    """The periods (column `period`) that have an event in common with one of `periods`: those
    whose common interest changes when profiles of `periods` do."""
    seen = _seen(profiles)
    changed = seen.where(is_one_of(periods)).select(
        *WORD, F.col("period").alias("changed"), F.col("seen").alias("seen_changed")
    )
    near = F.abs(F.col("period") - F.col("changed")) <= travel_periods(period_s)
    overlap = F.col("seen").bitwiseAND(F.col("seen_changed")) != 0
    return seen.join(changed, list(WORD)).where(near & overlap).select("period").distinct()


def _seen(profiles: Any) -> Any:
    """The events of each period and word that any broker got."""
    return profiles.groupBy("period", *WORD).agg(F.bit_or("bits").alias("seen"))


def _also_there(own: Any, profiles: Any, reach: int) -> Any:
    """Who else got the events of `own`, in another period: rows of that other period with the
    number of the period that asks."""
    asking = _seen(own).select(*WORD, F.col("period").alias("asking"), "seen")
    shared = F.col("bits").bitwiseAND(F.col("seen"))
    distance = F.abs(F.col("period") - F.col("asking"))
    return (
        profiles.join(asking, list(WORD))
        .where((distance > 0) & (distance <= reach) & (shared != 0))
        .select(
            F.col("asking").alias("period"),
            "broker",
            *WORD,
            shared.alias("bits"),
            F.lit(False).alias("own"),
        )
    )


def _rounds(own: Any, ids_max: int) -> Any:
    """How many rounds a period needs so that no broker has many more than `ids_max` ids in one."""
    ids = own.groupBy("period", "broker").agg(F.sum(F.bit_count("bits")).alias("ids"))
    return ids.groupBy("period").agg(F.ceil(F.max("ids") / ids_max).cast("long").alias("rounds"))


def _counted(shape: FilterShape) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """The Arrow function of one period and round."""

    def count(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        publishers = pc.dictionary_encode(rows.column("publisher").combine_chunks())
        brokers = pc.dictionary_encode(rows.column("broker").combine_chunks())
        marks = Marks(
            publishers=publishers.dictionary.to_pylist(),
            publisher=publishers.indices.to_numpy().astype(np.int64),
            incarnation=rows.column("incarnation").to_numpy(),
            word=rows.column("word").to_numpy(),
            broker=brokers.indices.to_numpy().astype(np.int64),
            bits=rows.column("bits").to_numpy().view(np.uint64),
            own=rows.column("own").to_numpy(),
        )
        names = brokers.dictionary
        events, found = shared_events(marks, len(names), shape)
        one, other = np.nonzero(found)
        return pa.table(
            [
                pa.array(np.full(len(one), key[0].as_py(), dtype=np.int32)),
                names.take(pa.array(one)),
                names.take(pa.array(other)),
                pa.array(events[one, other]),
                pa.array(found[one, other]),
            ],
            names=schemas.COMMON_INTEREST.names,
        )

    return count
