"""The slow loop on sockets: record, plan, apply, measure again; the prediction holds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.planning.worlds import stock_world
from tests.serve.mqtt.talk import on_loop
from typer.testing import CliRunner

from gravitate.cli.main import app
from gravitate.config import network as network_file
from gravitate.config import plan as plans
from gravitate.config.planning import PublisherOptions, SubscriberOptions
from gravitate.pipeline.planning.making import make_plan
from gravitate.pipeline.planning.making_publishers import PublisherPlanner
from gravitate.pipeline.planning.making_subscribers import SubscriberPlanner
from gravitate.pipeline.planning.verification import verify
from gravitate.serve.node.traces import TraceSettings
from gravitate.serve.scenarios.stage import perform, staged


@pytest.mark.parametrize("kind", ["publishers", "subscribers"])
def test_a_plan_applied_to_a_running_network_reaches_the_predicted_message_rate(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    script = stock_world(7, quotes=250, every_s=0.012)
    before, after = tmp_path / "before", tmp_path / "after"

    async def as_it_is() -> None:
        result = await perform(script, traces=TraceSettings(str(before)))
        assert result.is_sound()

    async def as_planned() -> None:
        async with staged(script, traces=TraceSettings(str(after))) as stage:
            assert stage.live is not None
            network_file.save(stage.live.network, tmp_path / "network.toml")
            command = ["apply", str(tmp_path / "plan.json"), str(tmp_path / "network.toml")]
            applied = await asyncio.to_thread(CliRunner().invoke, app, [*command, "--json"])
            assert applied.exit_code == 0, applied.output
            assert json.loads(applied.stdout)["done"] == len(plan.moves)
            result = await stage.play()
            assert result.is_sound()

    on_loop(as_it_is)
    if kind == "publishers":
        plan = make_plan(spark, before, PublisherPlanner(PublisherOptions(at_least=1)))
    else:
        plan = make_plan(
            spark, before, SubscriberPlanner(SubscriberOptions(at_least=1, delay_max=1.0))
        )
    assert len(plan.moves) >= 2
    plans.save(plan, tmp_path / "plan.json")
    on_loop(as_planned)
    found = verify(spark, plan, after)
    assert found.moves_done == len(plan.moves)
    assert found.holds, found.message_rate
    rates = found.message_rate
    assert rates.predicted < 0.9 * rates.before  # type: ignore[operator]
    hops = next(it for it in found.metrics if it.metric == "hops_mean")
    assert abs(hops.difference_share or 0.0) < 0.02
