"""Which publication matches which subscriber: the truth that runs are measured by, on Spark.

    matches(publications, subscriptions, cut)      publisher, number, subscriber
    audience_lists(publications, ...)              publisher, number, source, size, audience
    subscription_matches(...)                      subscriber, subscription, matches, deliveries

Subscribers are dealt out to *buckets*, so that a session is counted once even when several of its
subscriptions match, and events to *chunks*. Each pair of a bucket and a chunk is one task: it
takes in its subscriptions, builds the matcher once and streams its events through it. Memory is
bounded by a bucket; the answer does not depend on the cut.

Owns how the work is cut and the columns of the answers; what matches is `interests`' business.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.config.script import payload_of
from gravitate.errors import InputError
from gravitate.pipeline.evaluate.interests import EventBatch, Interests
from gravitate.pipeline.tables import schemas

SUBSCRIPTIONS_PER_BUCKET: Final = 100_000
SUBSCRIPTION, EVENT = 0, 1


class Cut(msgspec.Struct, frozen=True):
    """Into how many pieces subscribers and events are cut."""

    buckets: int = 1
    chunks: int = 1

    @classmethod
    def of(cls, subscriptions: int, tasks: int) -> Cut:
        """Buckets of about `SUBSCRIPTIONS_PER_BUCKET`, and chunks until there are `tasks`."""
        buckets = max(1, math.ceil(subscriptions / SUBSCRIPTIONS_PER_BUCKET))
        return cls(buckets, max(1, math.ceil(tasks / buckets)))


WHOLE: Final = Cut()
"""Everything in one task."""


def matches(events: Any, subscriptions: Any, cut: Cut = WHOLE) -> Any:
    """A row for every publication and every subscriber that it matches."""
    return _asked(events, subscriptions, cut, match_rows, schemas.MATCHES)


def audience_lists(events: Any, subscriptions: Any, cut: Cut = WHOLE) -> Any:
    """A row for every publication, also one that nobody wants: where it is published, what it
    weighs on a link, and its whole audience, sorted by broker.

    Publications and subscriptions must be placed."""
    found = _asked(events, subscriptions, cut, flow_rows, schemas.AUDIENCES)
    if cut.buckets == 1:
        return found
    event = ("publisher", "number", "source", "size_bytes")
    per_broker = (
        found.select(*event, F.explode_outer("audience").alias("at"))
        .groupBy(*event, "at.broker")
        .agg(F.sum("at.sessions").alias("sessions"))
    )
    # An event that nobody wants has one row without a broker, which the list leaves out.
    at = F.when(F.col("broker").isNotNull(), F.struct("broker", "sessions"))
    return per_broker.groupBy(*event).agg(F.sort_array(F.collect_list(at)).alias("audience"))


def subscription_matches(events: Any, subscriptions: Any, cut: Cut = WHOLE) -> Any:
    """For every subscription how many publications it matches; `deliveries` counts a publication
    at the first subscription of a subscriber, by name, that it matches, so that their sum is that
    of all deliveries."""
    found = _asked(events, subscriptions, cut, count_rows, schemas.SUBSCRIPTION_MATCHES)
    return found.groupBy("subscriber", "subscription").agg(
        F.sum("matches").alias("matches"), F.sum("deliveries").alias("deliveries")
    )


# --- the tasks ------------------------------------------------------------------------------------

Rows = Callable[[Interests, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _asked(events: Any, subscriptions: Any, cut: Cut, rows: Rows, schema: Any) -> Any:
    """Bring the subscriptions of a bucket and the events of a chunk together, and let `rows`
    answer for each such pair."""
    bucket = F.pmod(F.xxhash64("subscriber"), F.lit(cut.buckets))
    chunk = F.pmod(F.xxhash64("publisher", "number"), F.lit(cut.chunks))
    held = subscriptions.select(
        _each(bucket * cut.chunks, cut.chunks).alias("part"),
        F.lit(SUBSCRIPTION).alias("kind"),
        F.col("subscriber").alias("client"),
        F.col("subscription").alias("name"),
        "broker",
        "topic",
        F.col("condition").alias("text"),
        F.col("from_s").alias("at_s"),
        "until_s",
    )
    published = events.select(
        _each(chunk, cut.buckets, cut.chunks).alias("part"),
        F.lit(EVENT).alias("kind"),
        F.col("publisher").alias("client"),
        "number",
        "broker",
        "topic",
        F.col("attributes").alias("text"),
        "at_s",
        "payload_bytes",
    )
    together = (
        held.unionByName(published, allowMissingColumns=True)
        .repartitionById(cut.buckets * cut.chunks, F.col("part"))
        .sortWithinPartitions("part", "kind")
    )
    return together.mapInArrow(functools.partial(task, rows), schema)


def _each(first: Any, count: int, step: int = 1) -> Any:
    """A row for each of `count` numbers from the column `first` on."""
    start = first.cast("int")
    return F.explode(F.sequence(start, start + (count - 1) * step, F.lit(step)))


def task(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers for the pairs of bucket and chunk that come one after the other."""
    for _, runs in groupby(_runs(batches), key=itemgetter(0)):
        interests = Interests()
        for kind, pieces in groupby(runs, key=itemgetter(1)):
            if kind == SUBSCRIPTION:
                for _, _, batch in pieces:
                    _take_in(interests, batch)
            else:
                yield from rows(interests, map(itemgetter(2), pieces))
                break
        else:
            yield from rows(interests, iter(()))


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The batches, cut where part or kind changes."""
    for batch in batches:
        part = batch.column("part").to_numpy()
        kind = batch.column("kind").to_numpy()
        changes = np.flatnonzero((np.diff(part) != 0) | (np.diff(kind) != 0)) + 1
        bounds = [0, *changes.tolist(), batch.num_rows]
        for low, high in pairwise(bounds):
            if high > low:
                yield int(part[low]), int(kind[low]), batch.slice(low, high - low)


def _take_in(interests: Interests, batch: pa.RecordBatch) -> None:
    columns = ("client", "name", "broker", "topic", "text", "at_s", "until_s")
    interests.add(*(batch.column(name) for name in columns))


def _decoded(batch: pa.RecordBatch) -> EventBatch:
    columns = ("client", "number", "at_s", "topic", "text")
    return EventBatch(*(batch.column(name) for name in columns))


def match_rows(interests: Interests, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    subscribers = pa.array(interests.subscribers, pa.string())
    for batch in batches:
        for event, subscription in interests.audience(_decoded(batch)):
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column("client").take(pa.array(event)),
                    batch.column("number").take(pa.array(event)),
                    subscribers.take(pa.array(subscription)),
                ],
                names=schemas.MATCHES.names,
            )


def count_rows(interests: Interests, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts, deliveries = np.zeros((2, len(interests)), dtype=np.int64)
    for batch in batches:
        for event, subscription in interests.pairs(_decoded(batch)):
            counts += np.bincount(subscription, minlength=len(counts))
            chosen = subscription[interests.once(event, subscription)]
            deliveries += np.bincount(chosen, minlength=len(counts))
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(interests.subscribers, pa.string()),
            pa.array(interests.subscriptions, pa.string()),
            pa.array(counts),
            pa.array(deliveries),
        ],
        names=schemas.SUBSCRIPTION_MATCHES.names,
    )


def audience_rows(
    interests: Interests, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    brokers = sorted(set(_placed(interests)))
    number_of = {name: number for number, name in enumerate(brokers)}
    broker_of = np.fromiter((number_of[name] for name in _placed(interests)), np.int64)
    names = pa.array(brokers, pa.string())
    for batch in batches:
        events = _decoded(batch)
        keys, counts = [], []
        for event, subscription in interests.audience(events):
            key, count = np.unique(
                event * len(brokers) + broker_of[subscription], return_counts=True
            )
            keys.append(key)
            counts.append(count)
        key = np.concatenate(keys) if keys else np.zeros(0, np.int64)
        sessions = np.concatenate(counts) if counts else np.zeros(0, np.int64)
        event, broker = np.divmod(key, max(1, len(brokers)))
        ends = np.searchsorted(event, np.arange(batch.num_rows + 1)).astype(np.int32)
        at = pa.StructArray.from_arrays(
            [names.take(pa.array(broker)), pa.array(sessions)], names=["broker", "sessions"]
        )
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("client"),
                batch.column("number"),
                batch.column("broker"),
                _sizes(batch, events),
                pa.ListArray.from_arrays(pa.array(ends), at),
            ],
            names=schemas.AUDIENCES.names,
        )


def flow_rows(interests: Interests, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`audience_rows` of publications that must be placed, too."""

    def placed() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column("broker").null_count:
                homeless = batch.filter(pc.is_null(batch.column("broker")))
                raise InputError(
                    f"publisher '{homeless.column('client')[0]}' is on no broker: place it in the "
                    "workload, or move it first"
                )
            yield batch

    yield from audience_rows(interests, placed())


def _placed(interests: Interests) -> Iterator[str]:
    """The broker of each subscription."""
    for subscriber, broker in zip(interests.subscribers, interests.brokers, strict=True):
        if broker is None:
            raise InputError(
                f"subscriber '{subscriber}' is on no broker: place it in the workload, "
                "or move it first"
            )
        yield broker


def _sizes(batch: pa.RecordBatch, events: EventBatch) -> pa.Array:
    """What events weigh on a link, as simulated brokers weigh them: 32 bytes an attribute, and
    the payload, which names at least its publication."""
    weights = []
    for publisher, number, payload_bytes, attributes in zip(
        batch.column("client").to_pylist(),
        batch.column("number").to_pylist(),
        batch.column("payload_bytes").to_pylist(),
        events.attributes,
        strict=True,
    ):
        name_bytes = len(payload_of(publisher, number))
        weights.append(32 * len(attributes) + max(payload_bytes, name_bytes))
    return pa.array(weights, pa.int64())
