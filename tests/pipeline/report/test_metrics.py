"""How two runs differ, and which direction is good."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.reports import headline, run_figures

from gravitate.pipeline.evaluate.registry import BROKER, LINK, METRICS, NAMED, REPORTED, Metric
from gravitate.pipeline.report.metrics import caveats, difference, differences

LOWER, HIGHER, NEITHER = (NAMED[name] for name in ("delay_ms_mean", "yield_share", "published"))


def test_every_metric_is_explained_once() -> None:
    for metrics in (METRICS, BROKER, LINK):
        assert len({metric.name for metric in metrics}) == len(metrics)
        assert all(metric.meaning and metric.group for metric in metrics)


@pytest.mark.parametrize(
    ("metric", "first", "second", "verdict"),
    [
        (LOWER, 10.0, 8.0, "better"),
        (LOWER, 10.0, 12.0, "worse"),
        (LOWER, 0.0, 1.0, "worse"),
        (HIGHER, 0.5, 0.6, "better"),
        (HIGHER, 0.6, 0.5, "worse"),
        (NEITHER, 10.0, 20.0, ""),
        (NEITHER, 10.0, 10.0, "same"),
        (LOWER, None, 12.0, ""),
        (LOWER, 12.0, None, ""),
    ],
)
def test_a_change_is_judged_by_the_direction_of_its_metric(
    metric: Metric, first: float | None, second: float | None, verdict: str
) -> None:
    assert difference(metric, first, second).verdict == verdict


def test_changes_are_absolute_and_relative_to_the_first_run() -> None:
    found = difference(LOWER, 10.0, 8.0)
    assert (found.change, found.change_share) == (-2.0, pytest.approx(-0.2))
    assert difference(LOWER, 0.0, 8.0).change_share is None


def test_percentiles_that_differ_by_less_than_their_classes_are_the_same() -> None:
    median = NAMED["delay_ms_p50"]
    assert difference(median, 100.0, 101.5).verdict == "same"
    assert difference(median, 100.0, 103.0).verdict == "worse"


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_swapping_the_runs_swaps_better_and_worse(first: float, second: float) -> None:
    swapped = {"better": "worse", "worse": "better", "same": "same", "": ""}
    forth, back = difference(LOWER, first, second), difference(LOWER, second, first)
    # Near the tolerance, which is relative to the first run, one may be a change and one not.
    if "same" not in (forth.verdict, back.verdict):
        assert back.verdict == swapped[forth.verdict]


def test_differences_are_of_all_metrics_in_order() -> None:
    found = differences(headline(), headline(hops_mean=2.0))
    assert [one.metric for one in found] == [metric.name for metric in REPORTED]
    assert [one.metric for one in found if one.verdict == "worse"] == ["hops_mean"]


def test_runs_that_differ_in_more_than_the_network_come_with_a_warning() -> None:
    facts = run_figures().facts
    other = msgspec.structs.replace(facts, seed=7, observed_s=10.0, scenario="")
    said = " ".join(caveats(facts, other))
    assert "The seed differs: 1 and 7." in said
    assert "compare rates, not counts" in said
    assert "and none" in said
    assert caveats(facts, facts) == ()
