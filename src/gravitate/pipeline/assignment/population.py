"""A population on Spark: what SLP asks of all subscribers, answered by tasks.

    with FramePopulation(blocks, Shape(...), seed) as population:
        decision = decide(level, population, capacity, seed, "", parameters)

Every question is one pass over the blocks. A task answers for each of its blocks with the functions
of `plan.assignment.population`, and puts the answers of its blocks together; the driver does the
same with the tasks' answers. So what comes to the driver is as large as a sample, a histogram, or
the sets of leaves that there are, and is the same however blocks are dealt out.

Weights are a column of the blocks. Doubling them makes the next DataFrame, which is kept in place
of the one before; the blocks themselves are kept, or not, by whoever made them.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.pipeline.assignment.blocks import SCHEMA, block_of, doublings_of
from gravitate.plan.assignment.greedy.balance import Spread
from gravitate.plan.assignment.problem.problem import Ints, Longs, Words
from gravitate.plan.assignment.problem.solution import Filters
from gravitate.plan.assignment.slp.level import Level
from gravitate.plan.assignment.slp.population import (
    Block,
    Choices,
    Coverage,
    Doublings,
    Drawn,
    choices_together,
    coverage_of,
    coverage_together,
    doubled,
    drawn_from,
    first_drawn,
    groups_of,
    leaves_in_turn,
    positions,
)

_ANSWERS: Final = "answer binary"

Answer = Callable[[Block, Doublings], Any]


class Shape(msgspec.Struct, frozen=True):
    """How many subscribers there are, and in which spaces."""

    subscribers: int
    dimensions: int
    """Of the network space."""
    axes: int
    """Of the event space."""


class FramePopulation:
    """A `plan.assignment.population.Population` on Spark."""

    def __init__(self, blocks: Any, shape: Shape, seed: int) -> None:
        self._start = blocks
        self._frame = blocks
        self._shape = shape
        self._seed = seed
        self._in_blocks: list[tuple[int, Words, Longs]] = []
        """Of the last `choices`: block, masks and sizes."""

    def __enter__(self) -> FramePopulation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.forget_weights()

    def __len__(self) -> int:
        return self._shape.subscribers

    def sample(self, size: int, about: str, by_weight: bool = False) -> Drawn:
        seed = self._seed
        drawn = self._asked(
            lambda block, doublings: drawn_from(block, doublings, size, seed, about, by_weight),
            lambda answers: [first_drawn(answers, size)],
        )
        return first_drawn(drawn, size)

    def coverage(self, level: Level, filters: Filters) -> Coverage:
        found = self._asked(
            lambda block, doublings: coverage_of(block, doublings, level, filters),
            lambda answers: [coverage_together(answers)],
        )
        return coverage_together(found)

    def double_uncovered(self, level: Level, filters: Filters) -> None:
        work = functools.partial(_double, self._shape, level, filters)
        following = self._frame.mapInArrow(work, SCHEMA).persist()
        following.count()
        if self._frame is not self._start:
            self._frame.unpersist()
        self._frame = following

    def forget_weights(self) -> None:
        if self._frame is not self._start:
            self._frame.unpersist()
            self._frame = self._start

    def choices(self, level: Level, filters: Filters, short: Words) -> Choices:
        def answer(block: Block, _: Doublings) -> tuple[int, Words, Longs, int]:
            groups, uncovered = groups_of(block, level, filters, short)
            return block.number, groups.masks, groups.sizes, uncovered

        found = sorted(self._asked(answer), key=lambda part: part[0])
        self._in_blocks = [(number, masks, sizes) for number, masks, sizes, _ in found]
        return choices_together([part[1:] for part in found])

    def assign(
        self, level: Level, filters: Filters, short: Words, choices: Choices, spread: Spread
    ) -> Ints:
        before: dict[int, tuple[Longs, Longs]] = {}
        taken = np.zeros(len(choices.sizes), dtype=np.int64)
        for number, masks, sizes in self._in_blocks:
            group = positions(choices.masks, masks)
            before[number] = group, taken[group]
            taken[group] += sizes

        def answer(block: Block, _: Doublings) -> tuple[int, Ints]:
            groups = groups_of(block, level, filters, short)[0]
            group, count = before[block.number]
            passed = np.zeros(len(choices.sizes), dtype=np.int64)
            passed[group] = count
            return block.number, leaves_in_turn(groups, choices, spread, passed)

        parts = sorted(self._asked(answer), key=lambda part: part[0])
        return np.concatenate([leaf for _, leaf in parts])

    def _asked(
        self, answer: Answer, together: Callable[[list[Any]], list[Any]] = list
    ) -> list[Any]:
        """What tasks answer, as a list; `together` makes the answers of a task's blocks a list that
        is no longer than needed. Neither may hold on to this population: tasks get them whole."""
        work = functools.partial(_answer, self._shape, answer, together)
        rows = self._frame.mapInArrow(work, _ANSWERS).collect()
        return [part for row in rows for part in pickle.loads(row["answer"])]


# --- in tasks -------------------------------------------------------------------------------------


def _answer(
    shape: Shape,
    answer: Answer,
    together: Callable[[list[Any]], list[Any]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    found = [
        answer(block_of(row, shape.dimensions, shape.axes), doublings_of(row))
        for batch in batches
        for row in batch.to_pylist()
    ]
    if found:
        yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(together(found))]})


def _double(
    shape: Shape, level: Level, filters: Filters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        more = [
            doubled(
                block_of(row, shape.dimensions, shape.axes), doublings_of(row), level, filters
            ).tobytes()
            for row in batch.to_pylist()
        ]
        at = batch.schema.get_field_index("doublings")
        yield batch.set_column(at, "doublings", pa.array(more, pa.binary()))
