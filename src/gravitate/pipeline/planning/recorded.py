"""What a run tells about its publishers, as planning needs it: where they are, who listened.

    told = recorded(publications, profiles)          a step: one row a word of a bit vector

Owns that table and how tasks read it: sorted by publisher, so that a task has all rows of a
publisher together (`whole_publishers`) and takes as many publishers at once as make a batch
worth while. `Audience` is such a batch as arrays. Nothing here knows what is planned.

A publisher is at the broker that took in its last publication. One whose events nobody wanted
has a single row without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import functions as F

from gravitate.errors import InputError

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

ROWS_PER_CHUNK: Final = 50_000
"""A row can stand for 64 events; a chunk of events then takes some 100 MB."""

COLUMNS: Final = (
    "publisher",
    "source",
    "published",
    "size_bytes",
    "incarnation",
    "word",
    "broker",
    "bits",
    "deliveries",
)


# --- steps ----------------------------------------------------------------------------------------


def places(publications: Any) -> Any:
    """`publisher, source, published, size_bytes`: where each publisher is, how many events it
    published and what one of them weighs."""
    return publications.groupBy("publisher").agg(
        F.max_by("broker", F.struct("at_s", "broker")).alias("source"),
        F.count(F.lit(1)).alias("published"),
        F.avg("size_bytes").alias("size_bytes"),
    )


def recorded(publications: Any, profiles: Any) -> Any:
    """`COLUMNS` from publications and `schemas.PUBLISHER_PROFILES`, whole publishers together."""
    heard = profiles.groupBy("publisher", "incarnation", "word", "broker").agg(
        F.bit_or("bits").alias("bits"), F.sum("deliveries").alias("deliveries")
    )
    return places(publications).join(heard, "publisher", "left").select(*COLUMNS)


def by_publisher(rows: Any) -> Any:
    """All rows of a publisher in one task, one after the other."""
    return rows.repartition("publisher").sortWithinPartitions("publisher")


# --- in a task ------------------------------------------------------------------------------------


def whole_publishers(
    batches: Iterator[pa.RecordBatch], rows_per_chunk: int = ROWS_PER_CHUNK
) -> Iterator[pa.Table]:
    """The rows of a task in chunks of whole publishers."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        kept.append(batch)
        if sum(part.num_rows for part in kept) < rows_per_chunk:
            continue
        rows = pa.Table.from_batches(kept)
        last = rows.column("publisher")[-1]
        complete = pc.sum(pc.not_equal(rows.column("publisher"), last)).as_py()
        if complete:
            yield rows.slice(0, complete).combine_chunks()
            kept = rows.slice(complete).combine_chunks().to_batches()
    if kept:
        yield pa.Table.from_batches(kept).combine_chunks()


class Audience(msgspec.Struct, frozen=True, eq=False):
    """Some publishers, and where their events were delivered.

    `publishers` to `size_bytes` have an entry for each publisher, the others one for each word of
    a bit vector that is not 0, sorted by owner and word."""

    publishers: list[str]
    source: Longs
    """Position of its broker."""
    published: Floats
    size_bytes: Floats
    owner: Longs
    """Position of the publisher."""
    word: Longs
    """Events of one publisher with the same number are of the same 64; nothing else is meant."""
    broker: Longs
    bits: Words
    deliveries: Floats

    @classmethod
    def of(cls, rows: pa.Table, brokers: tuple[str, ...]) -> Audience:
        """Rows of `COLUMNS`, all of a publisher together."""
        known = pa.array(brokers, pa.string())
        names = rows.column("publisher").combine_chunks()
        codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        is_first = np.diff(codes, prepend=-1) != 0
        first = rows.take(pa.array(np.flatnonzero(is_first)))
        is_heard = pc.is_valid(rows.column("broker"))
        heard = rows.filter(is_heard)
        owner = (np.cumsum(is_first) - 1)[is_heard.to_numpy()]
        word = _numbered(np.stack([_longs(heard, "word"), _longs(heard, "incarnation")]))
        order = np.lexsort((word, owner))
        return cls(
            publishers=first.column("publisher").to_pylist(),
            source=positions(first, "source", known),
            published=_longs(first, "published").astype(np.float64),
            size_bytes=first.column("size_bytes").to_numpy().astype(np.float64),
            owner=owner[order],
            word=word[order],
            broker=positions(heard, "broker", known)[order],
            bits=_longs(heard, "bits").view(np.uint64)[order],
            deliveries=_longs(heard, "deliveries").astype(np.float64)[order],
        )

    def starts_word(self) -> NDArray[np.bool_]:
        """Whether a row is the first of its word."""
        starts = np.ones(len(self.owner), dtype=np.bool_)
        starts[1:] = (np.diff(self.owner) != 0) | (np.diff(self.word) != 0)
        return starts

    def heard(self) -> Floats:
        """For each publisher the events that somebody wanted."""
        starts = np.flatnonzero(self.starts_word())
        if not len(starts):
            return np.zeros(len(self))
        joined = np.bitwise_or.reduceat(self.bits, starts)
        counts: Floats = np.bitwise_count(joined).astype(np.float64)
        found: Floats = np.bincount(self.owner[starts], counts, len(self)).astype(np.float64)
        return found

    def __len__(self) -> int:
        return len(self.publishers)


def _longs(rows: pa.Table, column: str) -> Longs:
    return np.ascontiguousarray(rows.column(column).to_numpy(), dtype=np.int64)


def positions(rows: pa.Table, column: str, known: pa.Array) -> Longs:
    """The brokers of a column by their place among those that are known."""
    names = rows.column(column).combine_chunks()
    found = pc.index_in(names, value_set=known)
    if found.null_count:
        stranger = names.filter(pc.is_null(found))[0].as_py()
        raise InputError(
            f"the run has clients on broker '{stranger}', which its network lacks: it has "
            f"{', '.join(known[:5].to_pylist())}{', ...' if len(known) > 5 else ''}"
        )
    positions: Longs = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _numbered(columns: Longs) -> Longs:
    """The number of each column of values among all different ones."""
    order = np.lexsort(columns)
    is_new = np.ones(columns.shape[1], dtype=np.bool_)
    in_order = columns[:, order]
    is_new[1:] = (in_order[:, 1:] != in_order[:, :-1]).any(axis=0)
    numbers = np.empty(columns.shape[1], dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return numbers
