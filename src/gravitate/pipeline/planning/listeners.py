"""What a run tells about its subscribers, as planning needs it: where they are, what they want.

    seen = vocabulary(spark, publications, subscriptions)        topics, constrained attributes
    rows = listeners(subscriptions, deliveries, seen.space(axes))

Filters are read in tasks, each different one once. A subscriber with several subscriptions has
one box around all of them, because it moves as a whole.

Owns these tables and `Listeners`, the same as arrays at the driver: their size is that of the
subscribers, never of the traffic. A subscriber is at the broker where it subscribed last; one that
holds no subscription any more is where it was last delivered to, and wants nothing.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from gravitate.errors import FilterError, InputError
from gravitate.model.events import TOPIC
from gravitate.model.filters import Filter
from gravitate.model.language import parse
from gravitate.model.topic_order import TopicOrder, topics_named
from gravitate.pipeline.evaluate.measured import held
from gravitate.pipeline.planning.recorded import positions
from gravitate.plan.assignment.problem.event_space import EventSpace

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

ATTRIBUTES_MAX: Final = 16
"""So many attributes are looked for in the events, those constrained most first."""

_WORDS: Final = "kind string, name string, filters long"
_BOXES: Final = "filter string, lows array<double>, highs array<double>"


class Vocabulary(msgspec.Struct, frozen=True):
    """What events and filters speak of."""

    topics: tuple[str, ...]
    """Of events, and those that filters name."""
    attributes: tuple[str, ...]
    """Those that filters bound as numbers, from the most subscriptions to the fewest."""

    def space(self, attributes: Iterable[str] | None = None) -> EventSpace:
        """All axes that there can be, or the topic with some attributes.

        Where all topics are alike they tell nothing, and there is no axis of them unless there
        would be none at all."""
        chosen = self.attributes if attributes is None else tuple(attributes)
        order = TopicOrder(self.topics)
        return EventSpace(order if len(order) > 1 or not chosen else None, chosen)


class Listeners(msgspec.Struct, frozen=True, eq=False):
    """Subscribers by number: their place in `names`."""

    names: list[str]
    home: Ints
    """Position of the broker."""
    deliveries: Floats
    lows: Floats
    """(subscribers, axes); infinite where there is no bound."""
    highs: Floats
    is_subscribed: NDArray[np.bool_]
    """Whether it still holds a subscription."""
    is_interested: NDArray[np.bool_]
    """Whether it holds one that events of a known topic could match."""

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, rows: Any, axes: int, brokers: tuple[str, ...]) -> Listeners:
        """All rows of `listeners`, in the order of names."""
        table = rows.toArrow().sort_by("subscriber").combine_chunks()
        count = table.num_rows
        if not count:
            raise InputError(
                "the run has no subscribers to plan for: neither subscriptions nor deliveries"
            )
        is_interested = table.column("low_0").is_valid().to_numpy()
        home = positions(table, "broker", pa.array(brokers, pa.string()))
        sides = [
            np.stack([table.column(f"{side}_{axis}").to_numpy() for axis in range(axes)], axis=1)
            for side in ("low", "high")
        ]
        return cls(
            names=table.column("subscriber").to_pylist(),
            home=home.astype(np.int32),
            deliveries=table.column("deliveries").to_numpy().astype(np.float64),
            lows=sides[0].reshape(count, axes),
            highs=sides[1].reshape(count, axes),
            is_subscribed=table.column("is_subscribed").to_numpy(),
            is_interested=is_interested,
        )


# --- steps ----------------------------------------------------------------------------------------


def filters_held(changes: Any) -> Any:
    """`filter, subscriptions`: every filter that is held, and by how many."""
    return held(changes).groupBy("filter").agg(F.count(F.lit(1)).alias("subscriptions"))


def vocabulary(publications: Any, changes: Any) -> Vocabulary:
    """Topics and attributes of a run; collects as many values as there are of them."""
    topics = publications.where(F.col("topic").isNotNull()).select("topic").distinct().collect()
    words = (
        filters_held(changes)
        .mapInArrow(_words, _WORDS)
        .groupBy("kind", "name")
        .agg(F.sum("filters").alias("filters"))
        .orderBy(F.desc("filters"), "name")
        .collect()
    )
    named = [row["name"] for row in words if row["kind"] == TOPIC]
    attributes = [row["name"] for row in words if row["kind"] != TOPIC]
    return Vocabulary(
        tuple(sorted({*named, *(row["topic"] for row in topics)})),
        tuple(attributes[:ATTRIBUTES_MAX]),
    )


def boxes(changes: Any, space: EventSpace) -> Any:
    """`filter, lows, highs` for every filter that lets pass something of a known topic."""
    return filters_held(changes).mapInArrow(functools.partial(_boxes, space), _BOXES)


def listeners(changes: Any, deliveries: Any, space: EventSpace) -> Any:
    """`subscriber, broker, deliveries, is_subscribed` and `low_0, high_0, ...`, the bounds on each
    axis, which are null for who wants nothing any more."""
    wanted = held(changes).join(boxes(changes, space), "filter", "left")
    bounds = [
        bound
        for axis in range(len(space))
        for bound in (
            F.min(F.col("lows")[axis]).alias(f"low_{axis}"),
            F.max(F.col("highs")[axis]).alias(f"high_{axis}"),
        )
    ]
    last = F.max_by("broker", F.struct("begun_s", "broker"))
    asking = wanted.groupBy("session").agg(last.alias("asked_at"), *bounds)
    hearing = deliveries.groupBy("session").agg(
        F.count(F.lit(1)).alias("heard"),
        F.max_by("broker", F.struct("at_s", "broker")).alias("heard_at"),
    )
    return asking.join(hearing, "session", "full").select(
        F.col("session").alias("subscriber"),
        F.coalesce("asked_at", "heard_at").alias("broker"),
        F.coalesce("heard", F.lit(0)).alias("deliveries"),
        F.col("asked_at").isNotNull().alias("is_subscribed"),
        *(f"{side}_{axis}" for axis in range(len(space)) for side in ("low", "high")),
    )


# --- in a task ------------------------------------------------------------------------------------


def _words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        texts, counts = (batch.column(name).to_pylist() for name in ("filter", "subscriptions"))
        for text, count in zip(texts, counts, strict=True):
            wanted = _read(text)
            for name in set(topics_named(wanted)):
                found[TOPIC, name] += count
            for name in _bounded(wanted):
                found["attribute", name] += count
    yield pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([kind for kind, _ in found], pa.string()),
            "name": pa.array([name for _, name in found], pa.string()),
            "filters": pa.array(found.values(), pa.int64()),
        }
    )


def _bounded(filter: Filter) -> set[str]:
    """The attributes that a filter bounds as numbers, beside the topic."""
    names = {
        predicate.attribute
        for conjunction in filter.conjunctions
        for predicate in conjunction
        if predicate.attribute != TOPIC
    }
    ordered = sorted(names)
    box = EventSpace(None, ordered).box([filter])
    if box is None:
        return set()
    return {
        name
        for name, low, high in zip(ordered, box.lows, box.highs, strict=True)
        if np.isfinite(low) or np.isfinite(high)
    }


def _boxes(space: EventSpace, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = batch.column("filter").to_pylist()
        found = [(text, space.box([_read(text)])) for text in texts]
        known = [(text, box) for text, box in found if box is not None]
        yield pa.RecordBatch.from_pydict(
            {
                "filter": pa.array([text for text, _ in known], pa.string()),
                "lows": pa.array([box.lows for _, box in known], pa.list_(pa.float64())),
                "highs": pa.array([box.highs for _, box in known], pa.list_(pa.float64())),
            }
        )


def _read(text: str | None) -> Filter:
    try:
        return parse(text or "")
    except FilterError as problem:
        sentence = f"the run has a subscription for {text!r}, which does not parse: {problem}"
        raise InputError(" ".join(sentence.split())) from None
