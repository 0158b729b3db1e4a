"""The publisher-placement study: runs, and the statements they are held against."""

from __future__ import annotations

import msgspec
import pytest

from gravitate.studies.findings import mean_interval
from gravitate.studies.placement_runs import Seen, Setting, simulate
from gravitate.studies.publishers import findings, settings

SMALL = Setting(brokers=15, publishers=4, subscribers_each=10, duration_s=120.0, threshold=20)


def seen(setting: Setting, **figures: float) -> Seen:
    given: dict[str, float] = {
        "message_rate": 10.0,
        "input_utilisation": 0.1,
        "delay_ms": 100.0,
        "hops": 5.0,
        "overhead": 0.05,
    }
    return Seen(setting=setting, moves=1, deliveries=1, violations=0, **(given | figures))


def test_a_publisher_ends_up_where_all_its_subscribers_are() -> None:
    alone = msgspec.structs.replace(SMALL, subscriber_brokers=1)
    still = simulate(alone)
    moved = simulate(msgspec.structs.replace(alone, mechanism="grape", prioritised="load"))
    assert still.violations == moved.violations == 0
    assert moved.moves >= 3
    assert moved.hops < 0.2 < still.hops
    assert moved.message_rate < still.message_rate / 2
    assert moved.deliveries == still.deliveries


def test_a_run_is_a_function_of_its_setting() -> None:
    setting = msgspec.structs.replace(SMALL, mechanism="pop", duration_s=60.0)
    assert simulate(setting) == simulate(setting)


def test_every_run_that_moves_publishers_has_one_in_which_they_stay() -> None:
    for quick in (True, False):
        runs = settings(quick)
        still = {run for run in runs if run.mechanism == "static"}
        for run in runs:
            same = msgspec.structs.replace(
                run, mechanism="static", prioritised="delay", weight_percent=100.0, threshold=0
            )
            assert same in still


def test_statements_hold_or_not_by_the_figures() -> None:
    good = [
        seen(run)
        if run.mechanism == "static"
        else seen(run, message_rate=1.5, delay_ms=20.0, input_utilisation=0.02)
        for run in settings()
    ]
    by_figure = {finding.figure: finding for finding in findings(good)}
    rate = by_figure["average delivery delay (Fig. 5c)"]
    assert rate.holds
    assert rate.measured == "-80 %"
    assert by_figure["nothing is lost, doubled or reordered"].holds
    bad = [seen(run, overhead=0.5) for run in settings()]
    assert not any(f.holds for f in findings(bad) if "up to" in f.paper or "at most" in f.paper)


def test_a_mean_has_an_interval_once_there_are_two_values() -> None:
    assert mean_interval([3.0]) == (3.0, 0.0)
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.30 / 3**0.5)
