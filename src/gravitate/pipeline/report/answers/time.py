"""How a run went over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gravitate.pipeline.report.figures import PeriodFigures
from gravitate.pipeline.report.plots import SERIES, Plot, Trace, axis, hover, line, plot
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import ms, percent, rate

RATES: Final = (
    ("links_msgs_per_s", "over links"),
    ("delivered_msgs_per_s", "delivered"),
    ("published_msgs_per_s", "published"),
)
UNITS: Final = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


def time(runs: NamedRuns) -> Section:
    return Section(
        "time",
        "Over time",
        "Was the run even, or did something change?",
        "Events a second in each period, and the delays of what was delivered in it. A step or "
        "a peak tells when to look closer; the lines of a calm run are flat.",
        time_plots(runs),
        [
            Table(
                captioned("Periods", name),
                ("from", "published", "delivered", "over links", "yield", "mean delay", "95 %"),
                [
                    (
                        f"{period.from_s:,.1f} s",
                        rate(period.published_msgs_per_s),
                        rate(period.delivered_msgs_per_s),
                        rate(period.links_msgs_per_s),
                        percent(period.yield_share),
                        ms(period.delay_ms_mean),
                        ms(period.delay_ms_p95),
                    )
                    for period in run.periods
                ],
            )
            for name, run in runs
        ],
        side_by_side=True,
        empty="" if any(run.periods for _, run in runs) else "Nothing happened in any period.",
    )


def time_plots(runs: NamedRuns) -> list[Plot]:
    """Rates and delays over time: a plot for the rates of each run, one for the delays of all."""
    if not any(run.periods for _, run in runs):
        return []
    shown = [(name, observed(run.periods)) for name, run in runs]
    longest_s = max(period.from_s for _, periods in shown for period in periods)
    unit, unit_s = next(
        ((unit, unit_s) for unit, unit_s in UNITS if longest_s > 5 * unit_s), UNITS[-1]
    )
    margin = 0.02 * longest_s / unit_s + 0.1
    x = axis(
        f"{unit} since the first event",
        range=[-margin, longest_s / unit_s + margin],
        tickformat=",",
    )
    return [
        *_rate_plots(shown, x, unit_s),
        plot(
            "delay-over-time",
            "Delays over time",
            [
                trace
                for (name, periods), colour in zip(shown, SERIES, strict=False)
                for trace in _delay_lines(name, periods, unit_s, colour)
            ],
            x=x,
            y=axis("delay (ms)", rangemode="tozero"),
            title="delays" if len(runs) > 1 else "",
        ),
    ]


def observed(periods: Sequence[PeriodFigures]) -> Sequence[PeriodFigures]:
    """Without those that were observed for a small part only, whose rates are chance."""
    longest_s = max((period.seconds for period in periods), default=0.0)
    return [period for period in periods if period.seconds >= longest_s / 2]


def _rate_plots(
    shown: Sequence[tuple[str, Sequence[PeriodFigures]]], x: dict[str, Any], unit_s: float
) -> list[Plot]:
    highest = max(
        getattr(period, field) for _, periods in shown for period in periods for field, _ in RATES
    )
    return [
        plot(
            f"rates-{number}",
            "Events a second over time",
            [
                line(
                    label,
                    [period.from_s / unit_s for period in periods],
                    [getattr(period, field) for period in periods],
                    [_words(period, label, rate(getattr(period, field))) for period in periods],
                    colour,
                )
                for (field, label), colour in zip(RATES, SERIES, strict=False)
            ],
            x=x,
            y=axis("events a second", range=[0, 1.08 * highest or 1]),
            title=name,
        )
        for number, (name, periods) in enumerate(shown)
    ]


def _delay_lines(
    name: str, periods: Sequence[PeriodFigures], unit_s: float, colour: str
) -> list[Trace]:
    return [
        line(
            f"{name} {label}".strip(),
            [period.from_s / unit_s for period in periods],
            [getattr(period, field) for period in periods],
            [_words(period, label, ms(getattr(period, field))) for period in periods],
            colour,
            line={"color": colour, "width": 2, "dash": dash},
        )
        for field, label, dash in (
            ("delay_ms_mean", "mean", "solid"),
            ("delay_ms_p95", "95 %", "dot"),
        )
    ]


def _words(period: PeriodFigures, label: str, value: str) -> str:
    return hover(f"from {period.from_s:,.0f} s", (label, value))
