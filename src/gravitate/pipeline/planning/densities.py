"""How the events of a run are spread over the axes of an event space, counted on Spark.

    found = densities(publications, space, marks)          one `Density` an axis

Tasks put events into the bins between the bounds of all interests; Spark adds the bins up. The
driver sees as many numbers as there are different bounds, however many events there were, and the
measure of every interest is still exact.

Owns that counting; what a density is, is `plan.assignment.event_space`'s business.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from gravitate.errors import InputError
from gravitate.model.events import Value
from gravitate.plan.assignment.problem.event_space import Density, EventSpace, Floats, bins_of

_BINS: Final = "axis int, bin long, events long"
_MISSING: Final = -1
"""The bin of events without a coordinate."""

_attributes = msgspec.json.Decoder(dict[str, Value | None])
"""Numbers that are none have no JSON and are null."""


def densities(publications: Any, space: EventSpace, marks: Sequence[Floats]) -> list[Density]:
    """The density on each axis, with these marks."""
    rows = bins(publications, space, marks).collect()
    found = []
    for axis, bounds in enumerate(marks):
        counts = np.zeros(2 * len(bounds) + 1, dtype=np.int64)
        missing = 0
        for row in rows:
            if row["axis"] == axis and row["bin"] == _MISSING:
                missing = row["events"]
            elif row["axis"] == axis:
                counts[row["bin"]] = row["events"]
        found.append(Density(bounds, counts, missing))
    return found


def bins(publications: Any, space: EventSpace, marks: Sequence[Floats]) -> Any:
    """`axis, bin, events`: how many events fall where; bins without any are left out."""
    return (
        publications.select("topic", "attributes")
        .mapInArrow(functools.partial(_task, space, tuple(marks)), _BINS)
        .groupBy("axis", "bin")
        .agg(F.sum("events").alias("events"))
    )


def _task(
    space: EventSpace, marks: tuple[Floats, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    counts = [np.zeros(2 * len(bounds) + 1, dtype=np.int64) for bounds in marks]
    missing = np.zeros(len(marks), dtype=np.int64)
    for batch in batches:
        texts = batch.column("attributes").to_pylist()
        # Without axes of attributes their texts need not be read.
        told = [_read(text) for text in texts] if space.attributes else [{}] * len(texts)
        points = space.coordinates(batch.column("topic").to_pylist(), told)
        for axis, values in enumerate(points):
            known = values[~np.isnan(values)]
            missing[axis] += len(values) - len(known)
            counts[axis] += np.bincount(bins_of(known, marks[axis]), minlength=len(counts[axis]))
    for axis, found in enumerate(counts):
        used = np.flatnonzero(found)
        number = np.concatenate(([_MISSING], used))
        yield pa.RecordBatch.from_pydict(
            {
                "axis": pa.array(np.full(len(number), axis), pa.int32()),
                "bin": pa.array(number, pa.int64()),
                "events": pa.array(np.concatenate(([missing[axis]], found[used])), pa.int64()),
            }
        )


def _read(text: str | None) -> dict[str, Value | None]:
    if text is None:
        return {}
    try:
        return _attributes.decode(text)
    except msgspec.DecodeError as problem:
        raise InputError(
            f"the run has a publication with attributes {text[:200]!r}: {problem}; they must be a "
            "JSON object of numbers, texts and truths"
        ) from None
