"""Whatever cuts the work, the rows are the same; another seed, other rows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gravitate.config.workload_tables import TABLES
from gravitate.pipeline.workloads.catalogue import named
from gravitate.pipeline.workloads.definition import Made
from gravitate.pipeline.workloads.generate import generate, in_process
from gravitate.pipeline.workloads.making import parameters_of

SMALL: dict[str, dict[str, Any]] = {
    **{
        name: {"subscribers": 400, "duration_s": 5.0, "brokers": 20, "publishers": 50}
        for name in ("dt1", "dt2", "dt3", "dt4", "dt5", "dt-c")
    },
    "dt-fb": {"subscribers": 400, "duration_s": 5.0, "users": 200, "pairs": 400},
    "psoop": {"brokers": 20, "network": {"transit_domains": 2, "stub_nodes": 5}},
    "location": {"users": 2500, "checkins_per_user": 4},
    "poisson": {"subscribers": 12_000, "changes_per_h": 0.01, "duration_s": 36_000.0},
}


def made(name: str, seed: int = 4) -> Made:
    definition = named(name)
    return definition.make(parameters_of(definition, SMALL[name]), seed, None)


@pytest.mark.parametrize("name", SMALL)
def test_blocks_depend_on_nothing_but_their_number(name: str) -> None:
    """In the opposite order, and by a plan that has travelled to a worker."""
    for plan in made(name).plans:
        travelled = pickle.loads(pickle.dumps(plan.make))
        backwards = [travelled(block) for block in reversed(list(plan.blocks(4)))]
        rows = in_process(plan, 4)
        assert rows.equals(pa.concat_tables(reversed(backwards)))
        assert rows.schema.equals(TABLES[plan.table])
        assert rows.num_rows > 0
        rows.validate(full=True)
        for field in rows.schema:
            assert field.nullable or not rows[field.name].null_count


@pytest.mark.parametrize("name", SMALL)
def test_another_seed_gives_other_rows_and_the_same_seed_the_same(name: str) -> None:
    plans = {seed: {plan.table: plan for plan in made(name, seed).plans} for seed in (4, 5)}
    again = {plan.table: plan for plan in made(name).plans}
    changed = "notifications" if name == "psoop" else "publications"
    for table, plan in plans[4].items():
        assert in_process(plan, 4).equals(in_process(again[table], 4))
    assert not in_process(plans[4][changed], 4).equals(in_process(plans[5][changed], 5))


def test_one_task_and_eight_write_the_same_files(spark: Any, tmp_path: Path) -> None:
    plans = (*made("location").plans, *(plan for plan in made("psoop").plans[1:3]))
    rows = {}
    for tasks in (1, 8):
        rows[tasks] = generate(spark, plans, tmp_path / str(tasks), 4, tasks=tasks).rows
    assert rows[1] == rows[8]
    assert rows[1] == {plan.table: in_process(plan, 4).num_rows for plan in plans}
    one = {path.relative_to(tmp_path / "1"): path for path in (tmp_path / "1").rglob("*.parquet")}
    assert len(one) > len(plans)
    for relative, path in one.items():
        assert path.read_bytes() == (tmp_path / "8" / relative).read_bytes()
