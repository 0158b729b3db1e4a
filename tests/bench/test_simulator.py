"""The simulator benchmark runs its world soundly and reports in the common form."""

from __future__ import annotations

from gravitate.bench.simulator import run, tree_63


def test_the_world_is_the_one_that_is_promised() -> None:
    script = tree_63(5.0)
    assert len(script.network.brokers) == 63
    assert sum(bool(client.advertisements) for client in script.clients) == 40
    assert sum(bool(client.subscriptions) for client in script.clients) == 2000


def test_it_reports_steps_with_and_without_checkers() -> None:
    (record,) = run(duration_s=1.0)
    assert (record.bench, record.case, record.unit) == ("simulator", "tree-63", "steps/s")
    assert record.baseline is not None
    assert record.ratio == record.value / record.baseline
