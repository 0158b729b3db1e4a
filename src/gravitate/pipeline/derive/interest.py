"""Common interest of broker pairs, from publisher profiles.

An event counts for the pair (i, j) in the period in which i got it, when j got it too, then or at
most `TRAVEL_S_MAX` earlier or later. So an event that is under way when a period ends counts like
any other, and sums over periods are those of the whole run.

Owns how periods are brought together: a *span* is some consecutive periods that are computed
together, from their own rows and those of the periods around them that events may be under way
to. Every period is in one span. A span with many rows is dealt out by words into *shares*, each
computed in one call with its share of the Bloom filters' bits, and what the shares found is added
up. How many there are follows from the span's rows alone, so the estimates do too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import ceil
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.pipeline.derive.filters import FilterShape, Ints, Vectors, Words, shared_events
from gravitate.pipeline.derive.grouping import codes
from gravitate.pipeline.derive.periods import is_one_of
from gravitate.trace.sampling import publisher_hash

TRAVEL_S_MAX: Final = 120.0
"""An event that takes longer from one broker to another, as over a link that was cut, may not be
counted as common to the two."""
REACHES_PER_SPAN: Final = 4
"""The longer a span, the fewer rows go to two of them, and the more a call has to hold."""
ROWS_PER_SHARE: Final = 1 << 17
SHARES_MAX: Final = 16
"""Filters with few bits and long words fill unevenly; above, shares grow with the traffic."""

_NOTHING: Final = pa.table(
    {
        "period": pa.array([], pa.int32()),
        "broker": pa.array([], pa.string()),
        "other": pa.array([], pa.string()),
        "events": pa.array([], pa.int64()),
        "events_bloom": pa.array([], pa.int64()),
    }
)


def common_interest(
    profiles: Any,
    period_s: float,
    periods: Collection[int] | None = None,
    shape: FilterShape | None = None,
) -> Any:
    """`schemas.COMMON_INTEREST` from publisher profiles, for the given periods or for all.

    `profiles` must have all rows of the periods `needed`. Pairs with nothing in common have no
    row, unless a Bloom filter pretends that they have."""
    margin, span = reach(period_s), _span(period_s)
    counts = (
        dealt(profiles, period_s)
        .groupBy("span", "shares", "share")
        .applyInArrow(_counted(span, margin, shape or FilterShape()), schemas.COMMON_INTEREST)
    )
    return (
        (counts if periods is None else counts.where(is_one_of(periods)))
        .repartition("period")
        .groupBy("period", "broker", "other")
        .agg(F.sum("events").alias("events"), F.sum("events_bloom").alias("events_bloom"))
    )


def dealt(profiles: Any, period_s: float, rows_per_share: int = ROWS_PER_SHARE) -> Any:
    """Publisher profiles with the spans they go to, and with the share of each span."""
    margin, span = reach(period_s), _span(period_s)
    first, last = (F.floor((F.col("period") + by) / span) for by in (-margin, margin))
    spans = F.explode(F.sequence(first, last)).alias("span")
    shares = F.least(F.ceil(F.sum("count") / rows_per_share), F.lit(SHARES_MAX))
    sizes = profiles.groupBy("period").count().select(spans, "count").groupBy("span")
    word = ("publisher", "incarnation", "word")
    return (
        profiles.select("period", *word, "broker", "bits", spans)
        .join(F.broadcast(sizes.agg(shares.alias("shares"))), "span")
        .withColumn("share", F.pmod(F.xxhash64(*word), F.col("shares")))
    )


def needed(periods: Collection[int], period_s: float) -> set[int]:
    """The periods whose profiles the given periods are made from: their spans and those around."""
    margin, span = reach(period_s), _span(period_s)
    firsts = {period // span * span for period in periods}
    return {period for first in firsts for period in range(first - margin, first + span + margin)}


def reach(period_s: float) -> int:
    """How many periods away from its own an event may be found at another broker."""
    return max(1, ceil(TRAVEL_S_MAX / period_s))


def _span(period_s: float) -> int:
    return reach(period_s) * REACHES_PER_SPAN


def _counted(
    span: int, margin: int, shape: FilterShape
) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """The Arrow function of one share of a span."""

    def count(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        first, shares = key[0].as_py() * span, key[1].as_py()
        return span_interest(rows, range(first, first + span), margin, shape.share(shares))

    return count


def span_interest(rows: pa.Table, periods: range, margin: int, shape: FilterShape) -> pa.Table:
    """Rows of `schemas.COMMON_INTEREST` of the given periods, from profiles of these and of
    `margin` periods around."""
    names, broker = codes(rows["broker"])
    base, number, word = _words(rows)
    bits = rows.column("bits").to_numpy().view(np.uint64)
    period = rows.column("period").to_numpy()
    made = []
    for now in periods:
        is_own = period == now
        if not is_own.any():
            continue
        seen = np.zeros(len(base), dtype=np.uint64)
        np.bitwise_or.at(seen, word[is_own], bits[is_own])
        shared = np.where(is_own, bits, bits & seen[word])
        near = (np.abs(period - now) <= margin) & (shared != 0)
        vectors = Vectors(base, number, word, broker.astype(np.int64), shared, is_own).select(near)
        events, found = shared_events(vectors, len(names), shape)
        one, other = np.nonzero(found)
        made.append(
            pa.table(
                [
                    pa.array(np.full(len(one), now, dtype=np.int32)),
                    names.take(pa.array(one)),
                    names.take(pa.array(other)),
                    pa.array(events[one, other]),
                    pa.array(found[one, other]),
                ],
                names=schemas.COMMON_INTEREST.names,
            )
        )
    return pa.concat_tables(made) if made else _NOTHING


def _words(rows: pa.Table) -> tuple[Words, Ints, Ints]:
    """The words that rows are about: the hash of the publisher and the number of each, and for
    each row the position of its word."""
    names, publisher = codes(rows["publisher"])
    incarnation = rows.column("incarnation").to_numpy()
    number = rows.column("word").to_numpy()
    order = np.lexsort((number, incarnation, publisher))
    sorted_columns = [column[order] for column in (publisher, incarnation, number)]
    new = np.zeros(len(order), dtype=np.bool_)
    for column in sorted_columns:
        new[1:] |= column[1:] != column[:-1]
    word = np.empty(len(order), dtype=np.int64)
    word[order] = np.cumsum(new)
    firsts = np.append(0, np.flatnonzero(new)) if len(order) else np.flatnonzero(new)
    publishers, incarnations, numbers = (column[firsts].tolist() for column in sorted_columns)
    texts = names.to_pylist()
    lives = list(zip(publishers, incarnations, strict=True))
    hashes = {life: publisher_hash(texts[life[0]], life[1]) for life in set(lives)}
    bases = np.array([hashes[life] for life in lives], dtype=np.uint64)
    return bases, np.array(numbers, dtype=np.int64), word
