"""The drawn distribution of delays holds what the delay classes hold."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.support.reports import headline, run_figures

from gravitate.pipeline.report.answers.delays import cumulative, delay_plots
from gravitate.pipeline.report.figures import DelayClass, RunFigures


def delayed(*classes: tuple[float, float, float], **figures: float) -> RunFigures:
    parts = tuple(DelayClass(*part) for part in classes)
    return msgspec.structs.replace(run_figures(), delays=parts, headline=headline(**figures))


def test_shares_grow_evenly_within_a_class_and_not_between_classes() -> None:
    run = delayed((10.0, 20.0, 30), (40.0, 50.0, 10))
    at_ms = np.array([0.0, 10.0, 15.0, 20.0, 39.0, 45.0, 50.0, 99.0])
    assert cumulative(run, at_ms).tolist() == pytest.approx([0, 0, 0.375, 0.75, 0.75, 0.875, 1, 1])


def test_bins_of_the_drawing_hold_all_deliveries() -> None:
    run = delayed(
        (10.0, 10.2, 30), (40.0, 40.8, 10), delay_ms_p50=10.1, delay_ms_p99=40.4, delay_ms_max=40.8
    )
    spread, within = delay_plots([("", run)])
    assert sum(spread.data[0]["y"]) == pytest.approx(100, abs=0.01)
    assert within.data[0]["y"][-1] == pytest.approx(100)
    assert spread.layout["xaxis"]["type"] == "linear"


def test_delays_of_very_different_size_get_a_logarithmic_axis() -> None:
    run = delayed(
        (1.0, 1.02, 90),
        (900.0, 918.0, 10),
        delay_ms_p50=1.0,
        delay_ms_p99=905.0,
        delay_ms_max=918.0,
    )
    assert delay_plots([("", run)])[0].layout["xaxis"]["type"] == "log"


def test_a_straggler_does_not_press_all_others_together() -> None:
    run = delayed(
        (10.0, 20.0, 999), (9000.0, 9180.0, 1), delay_ms_p50=15, delay_ms_p99=20, delay_ms_max=9100
    )
    assert max(delay_plots([("", run)])[0].data[0]["x"]) < 31
