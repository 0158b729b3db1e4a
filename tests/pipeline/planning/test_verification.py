"""Predicted against measured: what is compared, from when on, and what is told beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.planning.worlds import Recorded, record, with_clients_at

from gravitate.config import network as network_file
from gravitate.config.plan import Plan
from gravitate.config.planning import PublisherOptions
from gravitate.config.script import Script
from gravitate.errors import FileError
from gravitate.model.moves import MoveOutcome
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.planning.making import make_plan
from gravitate.pipeline.planning.making_publishers import PublisherPlanner
from gravitate.pipeline.planning.verification import compared, verify
from gravitate.trace.writer import TraceWriter


@pytest.fixture(scope="module")
def plan(spark: Any, run: Recorded) -> Plan:
    return make_plan(spark, run.folder, PublisherPlanner(PublisherOptions(at_least=1)))


@pytest.fixture(scope="module")
def moved_run(
    spark: Any, script: Script, plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same traffic with the moves done; traces say that they were done in the first period
    with publications, and those of another plan after the last of these."""
    folder = tmp_path_factory.mktemp("verification") / "run"
    places = {move.publisher: move.target for move in plan.moves}  # type: ignore[union-attr]
    record(with_clients_at(script, places), folder)
    with TraceWriter(folder, "operator") as writer:
        for number, move in enumerate(plan.moves):
            applied = msgspec.structs.replace(move, id=f"{move.id}-17")
            writer.on_move("b1", applied, MoveOutcome.DONE, 44.5)
            # The plan was taken back in between, and applied again.
            earlier = msgspec.structs.replace(move, id=f"{move.id}-16")
            writer.on_move("b1", earlier, MoveOutcome.DONE, 43.5)
            late = msgspec.structs.replace(move, id=f"late-{number}-17")
            writer.on_move("b1", late, MoveOutcome.DONE, 1000.0)
        writer.on_move("b1", plan.moves[0], MoveOutcome.REFUSED, 1000.0)
    ingest(spark, folder, period_s=5.0)
    return folder


def test_a_run_of_the_moved_network_is_what_was_predicted(
    spark: Any, plan: Plan, moved_run: Path
) -> None:
    found = verify(spark, plan, moved_run)
    assert found.holds
    assert (found.moves_done, found.since_s) == (len(plan.moves), 45.0)
    by_metric = {it.metric: it for it in found.metrics}
    # The first seconds are left out, and what they carried was not quite the same.
    assert found.message_rate.measured == pytest.approx(found.message_rate.predicted, rel=0.1)
    assert found.off_share == pytest.approx(0.0, abs=0.01)
    assert by_metric["hops_mean"].difference_share == pytest.approx(0.0, abs=0.01)
    assert found.message_rate.before > found.message_rate.predicted  # type: ignore[operator]
    assert by_metric["control_overhead_share"].difference_share is None


def test_a_run_that_began_with_the_moves_done_is_compared_as_a_whole(
    spark: Any, plan: Plan, moved_run: Path
) -> None:
    found = verify(spark, msgspec.structs.replace(plan, id="unheard-of"), moved_run)
    assert (found.moves_done, found.since_s) == (0, None)
    for it in found.metrics:
        # Percentiles come from classes 2 % wide; what moves cost is said by those of the run.
        if it.difference_share is not None and it.metric != "reconfiguration_cost":
            assert abs(it.difference_share) < 0.02, it


def test_the_network_as_it_was_is_not_what_was_predicted(
    spark: Any, plan: Plan, run: Recorded
) -> None:
    found = verify(spark, plan, run.folder)
    assert not found.holds
    assert (found.moves_done, found.since_s) == (0, None)
    assert found.message_rate.measured == pytest.approx(found.message_rate.before)


def test_a_run_without_anything_after_the_moves_is_refused(
    spark: Any, plan: Plan, moved_run: Path
) -> None:
    late = msgspec.structs.replace(plan, id="late")
    with pytest.raises(FileError, match="nothing was published after the last move, from 1,000 s"):
        verify(spark, late, moved_run)


def test_a_run_of_another_network_is_refused(
    spark: Any, script: Script, plan: Plan, run: Recorded
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


@pytest.mark.parametrize("after", [{}, {"broker_rate_msgs_per_s_mean": None}])
def test_a_plan_that_predicts_nothing_is_refused(
    spark: Any, plan: Plan, run: Recorded, after: dict[str, float | None]
) -> None:
    silent = msgspec.structs.replace(plan, after=after)
    with pytest.raises(FileError, match="predicts nothing to compare with: plan anew"):
        verify(spark, silent, run.folder)


def test_a_plan_without_the_rate_of_publications_is_compared_all_the_same(plan: Plan) -> None:
    stated: dict[str, float | None] = {"broker_rate_msgs_per_s_mean": 3.0}
    assert compared(msgspec.structs.replace(plan, after=stated), "run", stated, stated).holds


def figures(
    published: float, rate: float, duration_s: float = 10.0, each: float = 3.0
) -> dict[str, float | None]:
    return {
        "duration_s": duration_s,
        "published": published,
        "delivered": each * published,
        "hops_mean": 0.0,
        "broker_rate_msgs_per_s_mean": rate,
    }


def test_totals_are_compared_a_second_and_other_traffic_is_told_of(plan: Plan) -> None:
    stated = msgspec.structs.replace(plan, before=figures(100.0, 9.0), after=figures(100.0, 3.0))
    came = figures(200.0, 3.1, duration_s=20.0)
    found = compared(stated, "run", figures(200.0, 3.2, duration_s=20.0), came)
    assert [(it.metric, it.predicted, it.expected, it.measured) for it in found.metrics] == [
        ("published_rate_msgs_per_s", 10.0, 10.0, 10.0),
        ("delivered_rate_msgs_per_s", 30.0, 30.0, 30.0),
        ("hops_mean", 0.0, 0.0, 0.0),
        ("broker_rate_msgs_per_s_mean", 3.0, 3.1, 3.2),
    ]
    assert found.holds
    assert found.off_share == pytest.approx(0.1 / 3.1)
    assert found.caveats == ()
    busier = compared(stated, "run", figures(150.0, 4.5), figures(150.0, 4.5), moves_done=1)
    assert busier.holds
    assert busier.off_share == 0.0
    assert "15 events a second with 3 deliveries each instead of 10 with 3" in busier.caveats[0]
    assert "the run has 1 done" in busier.caveats[1]
    fewer = figures(100.0, 2.0, each=2.0)
    assert "with 2 deliveries each instead of" in compared(stated, "run", fewer, fewer).caveats[0]


def test_less_traffic_does_not_hide_that_each_event_costs_more(plan: Plan) -> None:
    stated = msgspec.structs.replace(plan, before=figures(100.0, 9.0), after=figures(100.0, 3.0))
    found = compared(stated, "run", figures(80.0, 3.0), figures(80.0, 2.4))
    assert found.message_rate.predicted == found.message_rate.measured
    assert found.off_share == pytest.approx(0.25)
    assert not found.holds
