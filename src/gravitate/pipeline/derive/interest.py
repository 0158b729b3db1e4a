"""Common interest of broker pairs, from publisher profiles.

An event counts for the pair (i, j) in the period in which i got it, when j got it too, then or at
most `TRAVEL_S_MAX` earlier or later. So an event that is under way when a period ends counts like
any other, and sums over periods are those of the whole run.

Owns how periods are brought together: a *span* is some consecutive periods that are computed in
one call, from their own rows and those of the periods around them that events may be under way
to. Every period is in one span, so a call gives its final rows.
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
from gravitate.pipeline.derive.filters import FilterShape, Ints, Vectors, Words, shared_events
from gravitate.pipeline.derive.periods import is_one_of
from gravitate.trace.sampling import publisher_hash

TRAVEL_S_MAX: Final = 120.0
"""An event that takes longer from one broker to another, as over a link that was cut, may not be
counted as common to the two."""
REACHES_PER_SPAN: Final = 4
"""The longer a span, the fewer rows go to two of them, and the more a call has to hold."""


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

    `profiles` must go `reach` further than `periods` on both sides. Pairs with nothing in common
    have no row, unless a Bloom filter pretends that they have."""
    margin = reach(period_s)
    span = margin * REACHES_PER_SPAN
    first, last = (F.floor((F.col("period") + by) / span) for by in (-margin, margin))
    pairs = (
        profiles.select(
            "period",
            "publisher",
            "incarnation",
            "word",
            "broker",
            "bits",
            F.explode(F.sequence(first, last)).alias("span"),
        )
        .groupBy("span")
        .applyInArrow(_counted(span, margin, shape or FilterShape()), schemas.COMMON_INTEREST)
    )
    return pairs if periods is None else pairs.where(is_one_of(periods))


def reach(period_s: float) -> int:
    """How many periods away from its own an event may be found at another broker."""
    return max(1, ceil(TRAVEL_S_MAX / period_s))


def _counted(
    span: int, margin: int, shape: FilterShape
) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """The Arrow function of one span."""

    def count(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        first = key[0].as_py() * span
        return span_interest(rows, range(first, first + span), margin, shape)

    return count


def span_interest(rows: pa.Table, periods: range, margin: int, shape: FilterShape) -> pa.Table:
    """Rows of `schemas.COMMON_INTEREST` of the given periods, from profiles of these and of
    `margin` periods around."""
    names, broker = _encoded(rows, "broker")
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
        vectors = Vectors(base, number, word, broker, shared, is_own).select(near)
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
    names, publisher = _encoded(rows, "publisher")
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
    publisher, incarnation, number = (column[firsts] for column in sorted_columns)
    texts = names.to_pylist()
    lives = list(zip(publisher.tolist(), incarnation.tolist(), strict=True))
    hashes = {life: publisher_hash(texts[life[0]], life[1]) for life in set(lives)}
    return np.array([hashes[life] for life in lives], dtype=np.uint64), number, word


def _encoded(rows: pa.Table, column: str) -> tuple[pa.Array, Ints]:
    """The distinct values of a column of texts, and for each row the position of its own."""
    encoded = pc.dictionary_encode(rows.column(column).combine_chunks())
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
