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

_PIECES = "number long, piece binary"
_RESULTS = "number long, result binary"


def sweep(
    spark: Any,
    pieces: Sequence[Piece],
    work: Callable[[Piece], Result],
    result: type[Result],
    *,
    at_once: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> list[Result]:
    """The results of all pieces, in their order; `done` is told how many there are so far.

    `at_once` is how many are dealt out before the next are (0: four for each core here)."""
    if not pieces:
        return []
    kind = type(pieces[0])
    rows = [(number, msgspec.json.encode(piece)) for number, piece in enumerate(pieces)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, piece in zip(
                batch.column("number").to_pylist(), batch.column("piece").to_pylist(), strict=True
            ):
                made = msgspec.json.encode(work(msgspec.json.decode(piece, type=kind)))
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [made]})

    found: dict[int, Result] = {}
    at_once = at_once or 4 * (os.cpu_count() or 2)
    for start in range(0, len(rows), at_once):
        dealt = spark.createDataFrame(rows[start : start + at_once], _PIECES)
        parts = dealt.repartition(min(at_once, len(rows) - start), "number")
        for row in parts.mapInArrow(run, _RESULTS).collect():
            found[row.number] = msgspec.json.decode(row.result, type=result)
        done(len(found))
    return [found[number] for number in range(len(pieces))]
