"""How two runs differ, by the metrics of `evaluate.registry`, and why to compare with care."""

from __future__ import annotations

from typing import Literal

from gravitate.pipeline.evaluate.registry import REPORTED, Figures, Metric
from gravitate.pipeline.report.figures import Difference, Facts


def differences(first: Figures, second: Figures) -> tuple[Difference, ...]:
    """Every metric of two runs, with the change from the first to the second."""
    return tuple(difference(metric, first[metric.name], second[metric.name]) for metric in REPORTED)


def difference(metric: Metric, first: float | None, second: float | None) -> Difference:
    """One metric of two runs."""
    change = change_share = None
    verdict: Literal["better", "worse", "same", ""] = ""
    if first is not None and second is not None:
        change = second - first
        change_share = change / abs(first) if first else None
        if abs(change) <= metric.tolerance_share * abs(first):
            verdict = "same"
        elif metric.better:
            verdict = "better" if (change < 0) == (metric.better == "lower") else "worse"
    return Difference(
        metric=metric.name,
        first=first,
        second=second,
        change=change,
        change_share=change_share,
        verdict=verdict,
    )


def caveats(first: Facts, second: Facts) -> tuple[str, ...]:
    """Why two runs should be compared with care: what differs besides what was to be compared."""
    found = []
    for name, label in (
        ("scenario", "scenario"),
        ("seed", "seed"),
        ("clock", "clock"),
        ("sampling_rate", "sampling rate"),
        ("brokers", "number of brokers"),
    ):
        one, other = getattr(first, name), getattr(second, name)
        if one != other:
            found.append(f"The {label} differs: {_said(one)} and {_said(other)}.")
    longer, shorter = sorted((first.observed_s, second.observed_s), reverse=True)
    if shorter < 0.9 * longer:
        found.append(
            f"The first run was observed for {first.observed_s:,.0f} s and the second for "
            f"{second.observed_s:,.0f} s: compare rates, not counts."
        )
    return tuple(found)


def _said(value: object) -> str:
    return "none" if value is None or value == "" else str(value)
