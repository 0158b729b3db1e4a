"""Columns of workload tables made from arrays: names, sentences, lists, times.

Everything works on whole columns in Arrow or numpy; no workload builds its texts row by row.
Knows nothing of any particular workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gravitate.config.workload_tables import TABLES
from gravitate.pipeline.workloads.generate import Block, TablePlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def numbered(prefix: str, indices: Integers, count: int) -> pa.Array:
    """Names of things that are counted from 0 in arrays and from 1 in names: `b001`.

    `count` is how many there are in all, so that names of one kind are equally long; two digits
    at least, as in network files."""
    width = max(2, len(str(count)))
    digits = pc.utf8_lpad(pc.cast(pa.array(indices + 1), pa.string()), width=width, padding="0")
    return joined(prefix, digits)


def joined(*parts: str | pa.Array | NDArray[Any]) -> pa.Array:
    """The parts one after the other in every row; numbers are written out."""
    texts = [
        part if isinstance(part, str) else pc.cast(_array(part), pa.string()) for part in parts
    ]
    return pc.binary_join_element_wise(*texts, "")


def lists(values: pa.Array | NDArray[Any], per_row: int) -> pa.Array:
    """A list of `per_row` values for every row."""
    flat = _array(values)
    rows = len(flat) // per_row if per_row else 0
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * per_row), flat)


def table(name: str, columns: dict[str, Any], rows: int) -> pa.Table:
    """The rows of a workload table; a single value stands for a whole column."""
    schema = TABLES[name]
    made = []
    for field in schema:
        values = columns[field.name]
        if values is None or isinstance(values, str | int | float):
            values = pa.repeat(pa.scalar(values, field.type), rows)
        made.append(_array(values).cast(field.type))
    return pa.Table.from_arrays(made, schema=schema)


def occurrences(
    generator: np.random.Generator, counts: Integers, duration_s: float, *, begin: bool = False
) -> tuple[Integers, Integers, Floats]:
    """When things happen to several owners: owner, number from 1 and time of each occurrence.

    `counts` says how often for each owner; the times of one owner are uniform and ascending,
    which makes a Poisson process where the counts are Poisson-distributed. With `begin` every
    owner has one more, at the very start."""
    counts = counts + 1 if begin else counts
    owners = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    at_s = generator.random(len(owners)) * duration_s
    if begin:
        at_s[first] = 0.0
    at_s = at_s[np.lexsort((at_s, owners))]
    numbers = np.arange(len(owners)) - np.repeat(first, counts) + 1
    return owners, numbers, at_s


def items_per_block(rows_per_item: float, rows_max: int = 200_000) -> int:
    """How many items make a block of about `rows_max` rows."""
    return max(1, min(rows_max, int(rows_max / max(rows_per_item, 1e-9))))


def no_places(rows: int) -> pa.Array:
    """Locations of brokers that have none."""
    return pa.array([[]] * rows, TABLES["brokers"].field("location").type)


def brokers_plan(count: int) -> TablePlan:
    """Brokers that are alike in everything: no location, equal weights, cost 1."""
    return TablePlan("brokers", count, partial(_brokers, count))


def _brokers(count: int, block: Block) -> pa.Table:
    rows = len(block)
    return table(
        "brokers",
        {
            "broker": numbered("b", np.arange(block.start, block.stop), count),
            "location": no_places(rows),
            "weight": 1.0 / count,
            "processing_cost": 1.0,
        },
        rows,
    )


def _array(values: pa.Array | NDArray[Any] | Sequence[Any]) -> pa.Array:
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
