"""Subscribers as a DataFrame of blocks.

    blocks = packed(interests, network, delay_max)

In: rows of the workload table `interests`, subscribers numbered from 0 on. Out: a row a block, its
subscribers in order, as the bytes of the arrays that `plan.assignment.population.Block` has; who
may go where (`candidates`) is worked out by the tasks that pack. A block is a few megabytes, so a
million subscribers are some sixty rows, and a pass over all of them is one over large arrays.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from gravitate.errors import InputError
from gravitate.plan.assignment.problem.problem import Floats, Network, reach_of
from gravitate.plan.assignment.slp.population import BLOCK, Block

SCHEMA: Final = (
    "block int, subscribers int, locations binary, interests binary, candidates binary, "
    "doublings binary"
)
"""`doublings`: how often the weight of each was doubled, a byte each."""


def packed(interests: Any, network: Network, delay_max: float) -> Any:
    """`SCHEMA` rows of all subscribers."""
    number = F.floor(F.col("subscriber") / F.lit(BLOCK)).cast("int").alias("block")
    rows = interests.select(number, "subscriber", "location", "low", "high")
    # A lambda: Spark stumbles over annotations that are strings.
    return rows.groupBy("block").applyInArrow(
        lambda table: _pack(network, delay_max, table), SCHEMA
    )


def block_of(row: dict[str, Any], dimensions: int, axes: int) -> Block:
    """A row of `SCHEMA` as arrays. `dimensions` are those of the network space, `axes` those of the
    event space."""
    count = row["subscribers"]
    words = len(row["candidates"]) // (8 * max(1, count))
    # Copies: kernels are compiled for arrays that may be written.
    return Block(
        row["block"],
        np.frombuffer(row["locations"]).reshape(count, dimensions).copy(),
        np.frombuffer(row["interests"]).reshape(count, 2, axes).copy(),
        np.frombuffer(row["candidates"], dtype=np.uint64).reshape(count, words).copy(),
    )


def doublings_of(row: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(row["doublings"], dtype=np.uint8).copy()


def require_numbered(interests: Any) -> int:
    """How many subscribers there are; they have to be numbered from 0 on."""
    told = interests.agg(
        F.count("*").alias("rows"),
        F.min("subscriber").alias("least"),
        F.max("subscriber").alias("most"),
        F.countDistinct("subscriber").alias("different"),
    ).first()
    count = int(told["rows"])
    if count == 0:
        raise InputError("there are no subscribers: write at least one row of interests")
    if (told["least"], told["most"], told["different"]) != (0, count - 1, count):
        raise InputError(
            f"{count} subscribers are numbered from {told['least']} to {told['most']}, "
            f"{told['different']} of them different: number them 0 to {count - 1}"
        )
    return count


def _pack(network: Network, delay_max: float, rows: pa.Table) -> pa.Table:
    ordered = rows.sort_by("subscriber")
    locations = _points(ordered.column("location"))
    interests = np.ascontiguousarray(
        np.stack([_points(ordered.column("low")), _points(ordered.column("high"))], axis=1)
    )
    candidates = reach_of(network, locations, delay_max).candidates
    return pa.table(
        {
            "block": pa.array(rows.column("block").slice(0, 1).to_pylist(), pa.int32()),
            "subscribers": pa.array([len(locations)], pa.int32()),
            "locations": pa.array([locations.tobytes()], pa.binary()),
            "interests": pa.array([interests.tobytes()], pa.binary()),
            "candidates": pa.array([candidates.tobytes()], pa.binary()),
            "doublings": pa.array([bytes(len(locations))], pa.binary()),
        }
    )


def _points(column: pa.ChunkedArray) -> Floats:
    lists = column.combine_chunks()
    found = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    return np.ascontiguousarray(found.reshape(len(lists), -1))
