"""Tables made in blocks: the same bytes however the work is cut, and honest counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.config.workload_tables import BROKERS, LINKS
from gravitate.pipeline.workloads.generate import (
    Block,
    TablePlan,
    Tallied,
    generate,
    in_process,
    write_block,
)


def toy_plans(items: int = 50, per_block: int = 4) -> tuple[TablePlan, ...]:
    """Two small tables; functions made here travel to the workers as they are."""
    columns = BROKERS.names

    def brokers(block: Block) -> Tallied:
        numbers = range(block.start, block.stop)
        rows = pa.table(
            {
                columns[0]: [f"b{number}" for number in numbers],
                columns[1]: pa.array([[float(number)] for number in numbers]),
                columns[2]: block.generator("weights").random(len(block)),
                columns[3]: [0.0] * len(block),
            }
        )
        return Tallied(rows, {"even": sum(number % 2 == 0 for number in numbers)})

    def links(block: Block) -> pa.Table:
        return pa.table({"broker": ["a"], "peer": ["b"], "cost": block.generator().random(1)})

    return (
        TablePlan("brokers", items, brokers, per_block),
        TablePlan("links", 2, links, 1),
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*")}


def test_one_task_and_eight_give_the_same_files_to_the_byte(spark: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    one = generate(
        spark,
        toy_plans(),
        tmp_path / "one",
        seed=7,
        tasks=1,
        progress=lambda done, total: told.append((done, total)),
    )
    eight = generate(spark, toy_plans(), tmp_path / "eight", seed=7, tasks=8)
    assert one == eight
    assert one.rows == {"brokers": 50, "links": 2}
    assert one.counts == {"even": 25}
    assert files(tmp_path / "one") == files(tmp_path / "eight")
    assert sorted(path.name for path in (tmp_path / "one" / "brokers").iterdir()) == [
        f"part-{number:05d}.parquet" for number in range(13)
    ]
    assert told[-1] == (15, 15)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    for plan in toy_plans():
        parts = sorted((tmp_path / "one" / plan.table).glob("*.parquet"))
        written = pa.concat_tables([pq.read_table(part) for part in parts])
        made = in_process(plan, seed=7)
        assert written.equals(made.cast(written.schema))


def test_another_seed_gives_other_rows() -> None:
    plan = toy_plans()[0]
    assert in_process(plan, 7).equals(in_process(plan, 7))
    assert not in_process(plan, 7).equals(in_process(plan, 8))


def test_a_table_without_items_has_no_files_and_no_rows(spark: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    made = generate(
        spark,
        toy_plans(items=0)[:1],
        tmp_path,
        seed=7,
        progress=lambda done, total: told.append((done, total)),
    )
    assert made.rows == {"brokers": 0}
    assert made.counts == {}
    assert files(tmp_path) == {}
    assert told[-1] == (0, 0)
    assert in_process(toy_plans(items=0)[0], 7).schema == BROKERS


def test_blocks_cover_every_item_once() -> None:
    plan = toy_plans(items=50, per_block=7)[0]
    blocks = list(plan.blocks(seed=1))
    assert [item for block in blocks for item in range(block.start, block.stop)] == list(range(50))
    assert [block.number for block in blocks] == list(range(8))
    assert sum(map(len, blocks)) == 50


def test_a_block_is_written_in_the_schema_of_its_table_under_its_final_name(
    tmp_path: Path,
) -> None:
    plan = toy_plans()[1]
    (block, _) = plan.blocks(seed=1)
    write_block(plan, block, str(tmp_path))
    (path,) = (tmp_path / "links").iterdir()
    assert path.name == "part-00000.parquet"
    assert pq.read_schema(path).equals(LINKS)


def test_a_block_with_a_null_where_none_may_be_is_not_written(tmp_path: Path) -> None:
    def links(block: Block) -> pa.Table:
        return pa.table({"broker": pa.nulls(1, pa.string()), "peer": ["b"], "cost": [1.0]})

    plan = TablePlan("links", 1, links)
    with pytest.raises(ValueError, match="null"):
        write_block(plan, next(plan.blocks(1)), str(tmp_path))
    assert list((tmp_path / "links").iterdir()) == []
