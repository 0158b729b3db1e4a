"""Sweeps: every piece is a task of its own, and results come in the order of pieces."""

from __future__ import annotations

import os
from typing import Any

from pyspark import TaskContext

from gravitate.config.network import BrokerSpec
from gravitate.pipeline.spark.sweeps import sweep


def test_every_piece_is_a_task_and_results_have_their_order(spark: Any) -> None:
    def where(piece: BrokerSpec) -> BrokerSpec:
        context = TaskContext.get()
        assert context is not None
        return BrokerSpec(f"{piece.id} {context.partitionId()}")

    round_of = 4 * (os.cpu_count() or 2)
    told: list[int] = []
    pieces = [BrokerSpec(f"b{number}") for number in range(round_of + 3)]
    found = [it.id.split() for it in sweep(spark, pieces, where, BrokerSpec, done=told.append)]
    assert [id for id, _ in found] == [piece.id for piece in pieces]
    tasks = [int(task) for _, task in found]
    assert sorted(tasks[:round_of]) == list(range(round_of))
    assert sorted(tasks[round_of:]) == [0, 1, 2]
    assert told == [round_of, round_of + 3]


def test_rounds_can_be_smaller(spark: Any) -> None:
    told: list[int] = []
    pieces = [BrokerSpec(f"b{number}") for number in range(5)]
    found = sweep(spark, pieces, lambda piece: piece, BrokerSpec, done=told.append, at_once=2)
    assert found == pieces
    assert told == [2, 4, 5]


def test_nothing_to_do_takes_no_session() -> None:
    assert sweep(None, [], lambda piece: piece, BrokerSpec) == []
