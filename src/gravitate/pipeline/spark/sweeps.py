"""Sweeps: many independent pieces of work, dealt out to Spark's tasks.

    results = sweep(spark, settings, simulate_one, Outcome)

A piece is a struct, the work a module's function from one to another; both travel as JSON, so
that a cluster needs nothing but the package. Pieces take seconds, so each is a task; they are dealt
out in rounds, so that somebody who waits sees how far it is. What a piece gives depends on the
piece alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

Piece = TypeVar("Piece", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)

_RESULTS = "number long, result binary"


def sweep(
    spark: Any,
    pieces: Sequence[Piece],
    work: Callable[[Piece], Result],
    result: type[Result],
    *,
    done: Callable[[int], None] = lambda count: None,
    at_once: int = 0,
) -> list[Result]:
    """The results of all pieces, in their order; `done` is told how many there are so far.

    `at_once` is how many make a round (0: four a core of this machine): few where pieces take
    minutes, so that `done` is told sooner."""
    if not pieces:
        return []
    at_once = at_once or 4 * (os.cpu_count() or 2)
    found: dict[int, Result] = {}
    for start in range(0, len(pieces), at_once):
        dealt = pieces[start : start + at_once]
        # As many partitions as numbers: each has one. Dealt out by a hash, some would have several.
        numbers = spark.range(0, len(dealt), 1, len(dealt))
        for row in numbers.mapInArrow(_worker(dealt, work), _RESULTS).collect():
            found[start + row.number] = msgspec.json.decode(row.result, type=result)
        done(len(found))
    return [found[number] for number in range(len(pieces))]


def _worker(
    dealt: Sequence[Piece], work: Callable[[Piece], Result]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    kind = type(dealt[0])
    encoded = [msgspec.json.encode(piece) for piece in dealt]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                made = msgspec.json.encode(work(msgspec.json.decode(encoded[number], type=kind)))
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [made]})

    return run
