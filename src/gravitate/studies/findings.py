"""Findings: what a paper reports beside what was measured here, and whether it holds.

The one form in which every study reports; nothing here measures anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import msgspec

STUDENT_95 = (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Quantiles for 95 % confidence by degrees of freedom; beyond ten, 2."""


class Finding(msgspec.Struct, frozen=True):
    """One statement of a paper, held against our figures."""

    figure: str
    """What it is about, and where the paper has it."""
    setting: str
    paper: str
    measured: str
    holds: bool
    figures: Mapping[str, float] | msgspec.UnsetType = msgspec.UNSET
    """What is measured once more, for programs; absent where the words say everything."""


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean of independent values, and half the width of its 95 % confidence interval."""
    count = len(values)
    if count < 2:
        return fmean(values), 0.0
    quantile = STUDENT_95[count - 1] if count <= len(STUDENT_95) else 2.0
    return fmean(values), quantile * stdev(values) / count**0.5


def percent(share: float) -> str:
    """A change in words: -0.85 is "-85 %"."""
    return f"{100 * share:+.0f} %"
