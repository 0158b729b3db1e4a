"""Common interest of broker pairs, from publisher profiles.

An event counts for the pair (i, j) in the period in which i got it, when j got it too, then or at
most `TRAVEL_S_MAX` earlier or later. So an event that is under way when a period ends counts like
any other, and sums over periods are those of the whole run.

Owns how periods are brought together: a *span* is some consecutive periods that are computed
together, from their own rows and those of the periods around them that events may be under way
to. Every period is in one span. Tasks read the files of a span themselves, so that no row is sent
anywhere. A span with many rows is dealt out by words into *shares*, a task each with its share of
the Bloom filters' bits, and what the shares found is added up. How many there are follows from the
span's rows alone, so the estimates do too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from gravitate.pipeline.derive.filters import FilterShape, Ints, Vectors, Words, shared_events
from gravitate.pipeline.derive.grouping import codes
from gravitate.pipeline.derive.scanning import together
from gravitate.pipeline.derive.writing import Make
from gravitate.pipeline.tables import schemas
from gravitate.trace.sampling import event_hashes, publisher_hash

TRAVEL_S_MAX: Final = 120.0
"""An event that takes longer from one broker to another, as over a link that was cut, may not be
counted as common to the two."""
REACHES_PER_SPAN: Final = 4
"""The longer a span, the fewer rows go to two of them, and the more a call has to hold."""
ROWS_PER_SHARE: Final = 1 << 20
SHARES_MAX: Final = 16
"""Filters with few bits and long words fill unevenly; above, shares grow with the traffic."""

_COLUMNS: Final = ("publisher", "incarnation", "word", "broker", "bits")


class Share(msgspec.Struct, frozen=True):
    """What one task computes."""

    periods: tuple[int, ...]
    """Those of the span whose rows are wanted."""
    files: tuple[tuple[int, str], ...]
    """Profiles of the span and around it, each file with its period."""
    number: int = 0
    shares: int = 1
    """In how many the span is dealt out."""


def counting(shares: Sequence[Share], period_s: float, shape: FilterShape | None = None) -> Make:
    """Makes rows of `schemas.COMMON_INTEREST` of the positions of shares, for `mapInArrow`.

    Pairs with nothing in common have no row, unless a Bloom filter pretends that they have."""
    return partial(
        _count, shares=list(shares), margin=reach(period_s), shape=shape or FilterShape()
    )


def added_up(found: Any) -> Any:
    """What the shares of spans have found, together."""
    return (
        together(found, "period")
        .groupBy("period", "broker", "other")
        .agg(F.sum("events").alias("events"), F.sum("events_bloom").alias("events_bloom"))
    )


def dealt(
    profiles: Mapping[int, Sequence[Path]],
    period_s: float,
    periods: Collection[int] | None = None,
    rows_per_share: int = ROWS_PER_SHARE,
) -> list[Share]:
    """The work for the given periods, or for all, from the files of publisher profiles by period;
    files of all `needed` periods must be among them."""
    margin, span = reach(period_s), _span(period_s)
    wanted = sorted(profiles if periods is None else profiles.keys() & set(periods))
    spans: dict[int, list[int]] = {}
    for period in wanted:
        spans.setdefault(period // span * span, []).append(period)
    rows = {
        period: sum(pq.read_metadata(file).num_rows for file in profiles[period])
        for first in spans
        for period in _around(first, span, margin)
        if period in profiles
    }
    made = []
    for first, own in spans.items():
        around = [period for period in _around(first, span, margin) if period in profiles]
        files = tuple((period, str(file)) for period in around for file in profiles[period])
        shares = min(
            max(ceil(sum(rows[period] for period in around) / rows_per_share), 1), SHARES_MAX
        )
        made += [Share(tuple(own), files, number, shares) for number in range(shares)]
    return made


def needed(periods: Collection[int], period_s: float) -> set[int]:
    """The periods whose profiles the given periods are made from: their spans and those around."""
    margin, span = reach(period_s), _span(period_s)
    firsts = {period // span * span for period in periods}
    return {period for first in firsts for period in _around(first, span, margin)}


def reach(period_s: float) -> int:
    """How many periods away from its own an event may be found at another broker."""
    return max(1, ceil(TRAVEL_S_MAX / period_s))


def _span(period_s: float) -> int:
    return reach(period_s) * REACHES_PER_SPAN


def _around(first: int, span: int, margin: int) -> range:
    return range(first - margin, first + span + margin)


def _count(
    batches: Iterator[pa.RecordBatch], shares: list[Share], margin: int, shape: FilterShape
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: the rows of the shares whose positions come."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            share = shares[number]
            rows = pa.concat_tables([_read(period, file) for period, file in share.files])
            for found in share_interest(rows, share, margin, shape.share(share.shares)):
                yield from found.to_batches()


def _read(period: int, file: str) -> pa.Table:
    with pq.ParquetFile(file) as opened:
        rows = opened.read(list(_COLUMNS), use_threads=False)
    return rows.append_column("period", pa.array(np.full(len(rows), period, dtype=np.int32)))


def share_interest(
    rows: pa.Table, share: Share, margin: int, shape: FilterShape
) -> Iterator[pa.Table]:
    """Rows of `schemas.COMMON_INTEREST` of each period, from profiles of the periods and of
    `margin` periods around."""
    names, broker = codes(rows["broker"])
    base, number, word = _words(rows)
    bits = rows.column("bits").to_numpy().view(np.uint64)
    period = rows.column("period").to_numpy()
    if share.shares > 1:
        # Not the bits that deal out words to filters, or these would fill unevenly.
        of_word = (event_hashes(base, number) >> np.uint64(32)) % np.uint64(share.shares)
        own = of_word[word] == share.number
        broker, word, bits, period = broker[own], word[own], bits[own], period[own]
    for now in share.periods:
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
        yield pa.table(
            [
                pa.array(np.full(len(one), now, dtype=np.int32)),
                names.take(pa.array(one)),
                names.take(pa.array(other)),
                pa.array(events[one, other]),
                pa.array(found[one, other]),
            ],
            names=schemas.COMMON_INTEREST.names,
        )


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
