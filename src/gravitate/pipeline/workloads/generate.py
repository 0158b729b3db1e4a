"""Making tables on Spark, the same rows whatever the number of partitions.

A table is made in *blocks* of a fixed number of rows. A block's rows are a function of the seed,
the table and the block's number alone, and become one Parquet file, written by the task that
made them and renamed into place when it is complete; the driver sees counts only. How blocks are
dealt out to tasks therefore changes nothing, down to the bytes of the files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.config.workload_tables import TABLES
from gravitate.model.seeds import generator as generator
from gravitate.pipeline.spark.failures import writing
from gravitate.pipeline.spark.shared import check_shared

ROWS_PER_BLOCK = 262_144


class Block(msgspec.Struct, frozen=True):
    """Items `start` to `stop` (not included) of a table."""

    seed: int
    table: str
    number: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def file(self) -> str:
        """The name of the file with its rows."""
        return f"part-{self.number:05d}.parquet"

    def generator(self, purpose: str = "") -> np.random.Generator:
        """Random numbers of this block; another purpose, other numbers."""
        return generator(self.seed, self.table, purpose, self.number)


class Tallied(msgspec.Struct, frozen=True):
    """Rows of a block, and counts that are summed over all blocks for the manifest.

    Counts are whole numbers, so that their sum does not depend on the order of summing."""

    rows: pa.Table
    counts: dict[str, int]


class TablePlan(msgspec.Struct, frozen=True):
    """How one table is made: `make` gives the rows of a block, in the table's schema.

    `make` runs in Spark's Python workers: a module's function, or `functools.partial` of one
    over small arguments. A block of `items` may have any number of rows (a publisher has many
    publications); blocks should stay below some 500,000 rows."""

    table: str
    items: int
    make: Callable[[Block], pa.Table | Tallied]
    items_per_block: int = ROWS_PER_BLOCK

    def blocks(self, seed: int) -> Iterator[Block]:
        for number, start in enumerate(range(0, self.items, self.items_per_block)):
            stop = min(start + self.items_per_block, self.items)
            yield Block(seed, self.table, number, start, stop)


def in_process(plan: TablePlan, seed: int) -> pa.Table:
    """All rows of a table, made here: for small workloads and tests."""
    made = [_tallied(plan.make(block)).rows for block in plan.blocks(seed)]
    return pa.concat_tables(made) if made else TABLES[plan.table].empty_table()


class Generated(msgspec.Struct, frozen=True):
    """What was written: the rows of each table, and the counts of all blocks summed."""

    rows: dict[str, int]
    counts: dict[str, int]


def generate(
    spark: Any,
    plans: Sequence[TablePlan],
    directory: str | Path,
    seed: int,
    *,
    tasks: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Generated:
    """Write the tables below `directory`.

    Refuses a folder in which files that tasks wrote are not seen from here.

    `tasks` is how many pieces the work is cut into (0: four a core of this machine);
    `progress` is told how many blocks of how many are done."""
    todo = [(plan, block) for plan in plans for block in plan.blocks(seed)]
    target = str(Path(directory).absolute())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                plan, block = todo[number]
                yield _report(plan.table, write_block(plan, block, target))

    pieces = min(tasks or 4 * (os.cpu_count() or 2), len(todo)) or 1
    written = spark.range(0, len(todo), 1, pieces).mapInArrow(
        run, "table string, name string, count long"
    )
    with _watched(todo, Path(target), progress):
        sums = written.groupBy("table", "name").sum("count").collect()
    for plan in plans:
        check_shared(Path(target) / plan.table, {block.file for block in plan.blocks(seed)})
    rows = {plan.table: 0 for plan in plans}
    rows |= {table: count for table, name, count in sums if not name}
    return Generated(rows, {name: count for _, name, count in sorted(sums) if name})


def _report(table: str, made: Tallied) -> pa.RecordBatch:
    """What a task tells the driver of a block: its rows (under no name) and its counts."""
    counts = {"": made.rows.num_rows, **made.counts}
    return pa.RecordBatch.from_pydict(
        {
            "table": [table] * len(counts),
            "name": list(counts),
            "count": pa.array(list(counts.values()), pa.int64()),
        }
    )


@contextmanager
def _watched(
    todo: Sequence[tuple[TablePlan, Block]], folder: Path, progress: Callable[[int, int], None]
) -> Iterator[None]:
    """Tells `progress` twice a second how many files are in place."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.5):
            progress(sum(1 for _ in folder.glob("*/part-*.parquet")), len(todo))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
    progress(len(todo), len(todo))


def write_block(plan: TablePlan, block: Block, directory: str) -> Tallied:
    """Make a block and put its file in place."""
    made = _tallied(plan.make(block))
    schema = TABLES[plan.table]
    assert made.rows.schema.names == schema.names, (plan.table, made.rows.schema.names)
    folder = Path(directory) / plan.table
    target = folder / block.file
    temporary = folder / f".{target.name}.{os.getpid()}.writing"
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(made.rows.cast(schema), temporary, compression="zstd")
        temporary.replace(target)
    return made


def _tallied(made: pa.Table | Tallied) -> Tallied:
    return made if isinstance(made, Tallied) else Tallied(made, {})
