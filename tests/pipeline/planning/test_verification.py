"""Predicted against measured: what is compared, from when on, and what is told beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.planning.worlds import Recorded, record, with_publishers_at

from gravitate.config import network as network_file
from gravitate.config.plan import Plan
from gravitate.config.script import Script
from gravitate.errors import FileError
from gravitate.model.moves import MoveOutcome
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.planning.making import plan_publishers
from gravitate.pipeline.planning.publishers import Mechanism
from gravitate.pipeline.planning.verification import compared, verify
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceWriter


@pytest.fixture(scope="module")
def plan(spark: Any, run: Recorded) -> Plan:
    return plan_publishers(spark, run.folder, Mechanism(evidence_min=1))


def moved(script: Script, plan: Plan) -> Script:
    return with_publishers_at(script, {m.publisher: m.target for m in plan.moves})  # type: ignore[union-attr]


def test_a_run_of_the_moved_network_is_what_was_predicted(
    spark: Any, script: Script, plan: Plan, tmp_path: Path
) -> None:
    record(moved(script, plan), tmp_path / "run")
    # Each move is one period; those of the plan ended in the first of them.
    with TraceWriter(tmp_path / "run", "operator") as writer:
        for move in plan.moves:
            applied = msgspec.structs.replace(move, id=f"{move.id}-17")
            writer.on_move("b1", applied, MoveOutcome.DONE, 4.5)
        writer.on_move("b1", plan.moves[0], MoveOutcome.REFUSED, 1000.0)
    ingest(spark, tmp_path / "run", period_s=5.0)
    found = verify(spark, plan, tmp_path / "run")
    assert found.holds
    assert (found.moves_done, found.since_s) == (len(plan.moves), 5.0)
    by_metric = {it.metric: it for it in found.metrics}
    # The first seconds are left out, and others are a little different.
    assert found.message_rate.measured == pytest.approx(found.message_rate.predicted, rel=0.1)
    assert by_metric["hops_mean"].difference_share == pytest.approx(0.0, abs=0.1)
    assert found.message_rate.before > found.message_rate.predicted  # type: ignore[operator]
    assert by_metric["control_overhead_share"].difference_share is None


def test_the_network_as_it_was_is_not_what_was_predicted(
    spark: Any, plan: Plan, run: Recorded
) -> None:
    found = verify(spark, plan, run.folder)
    assert not found.holds
    assert (found.moves_done, found.since_s) == (0, None)
    assert found.message_rate.measured == pytest.approx(found.message_rate.before)


def test_another_network_is_refused_and_nothing_after_the_moves_too(
    spark: Any, script: Script, plan: Plan, run: Recorded, tmp_path: Path
) -> None:
    slow = msgspec.structs.replace(
        script.network,
        links=tuple(
            msgspec.structs.replace(link, latency_ms=99.0) for link in script.network.links
        ),
    )
    other = msgspec.structs.replace(plan, network=network_file.render(slow))
    with pytest.raises(FileError, match="is a run of another network than that of plan"):
        verify(spark, other, run.folder)
    with TraceWriter(tmp_path, "operator") as writer:
        writer.on_move("b1", plan.moves[0], MoveOutcome.DONE, 4.5)
    RunManifest(network_file.render(script.network), "virtual").save(tmp_path)
    with pytest.raises(FileError, match="nothing was published after the last move"):
        verify(spark, plan, tmp_path)


def figures(published: float, rate: float, duration_s: float = 10.0) -> dict[str, float | None]:
    return {
        "duration_s": duration_s,
        "published": published,
        "hops_mean": 0.0,
        "broker_rate_msgs_per_s_mean": rate,
    }


def test_totals_are_compared_a_second_and_other_traffic_is_told_of(plan: Plan) -> None:
    stated = msgspec.structs.replace(plan, before=figures(100.0, 9.0), after=figures(100.0, 3.0))
    found = compared(stated, "run", figures(200.0, 3.2, duration_s=20.0))
    assert [(it.metric, it.predicted, it.measured) for it in found.metrics] == [
        ("published_rate_msgs_per_s", 10.0, 10.0),
        ("hops_mean", 0.0, 0.0),
        ("broker_rate_msgs_per_s_mean", 3.0, 3.2),
    ]
    assert found.holds
    assert found.caveats == ()
    busier = compared(stated, "run", figures(150.0, 4.5), moves_done=1)
    assert not busier.holds
    assert "published 15 events a second and the recording 10" in busier.caveats[0]
    assert "the run has 1 done" in busier.caveats[1]
