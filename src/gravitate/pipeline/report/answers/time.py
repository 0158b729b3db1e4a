"""How a run went over time."""

from __future__ import annotations

from collections.abc import Callable

from gravitate.pipeline.report.figures import PeriodFigures
from gravitate.pipeline.report.plots import SERIES, Plot, axis, hover, line, plot
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import ms, percent, rate


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
    """Rates and delays over time: a plot for rates of each run, one for the delays of all."""
    if not any(run.periods for _, run in runs):
        return []
    series: tuple[tuple[str, Callable[[PeriodFigures], float]], ...] = (
        ("over links", lambda period: period.links_msgs_per_s),
        ("delivered", lambda period: period.delivered_msgs_per_s),
        ("published", lambda period: period.published_msgs_per_s),
    )
    highest = max(value(period) for _, run in runs for period in run.periods for _, value in series)
    longest_s = max(period.from_s for _, run in runs for period in run.periods)
    x = axis(
        "seconds since the first event", range=[-0.02 * longest_s - 0.1, 1.02 * longest_s + 0.1]
    )
    plots = [
        plot(
            f"rates-{number}",
            "Events a second over time",
            [
                line(
                    label,
                    [period.from_s for period in run.periods],
                    [value(period) for period in run.periods],
                    [
                        hover(f"from {period.from_s:,.0f} s", (label, rate(value(period))))
                        for period in run.periods
                    ],
                    SERIES[position],
                )
                for position, (label, value) in enumerate(series)
            ],
            x=x,
            y=axis("events a second", range=[0, 1.08 * highest or 1]),
            title=name,
        )
        for number, (name, run) in enumerate(runs)
    ]
    delays = [
        line(
            f"{name} {label}".strip(),
            [period.from_s for period in run.periods],
            [getattr(period, field) for period in run.periods],
            [
                hover(f"from {period.from_s:,.0f} s", (label, ms(getattr(period, field))))
                for period in run.periods
            ],
            SERIES[number],
            line={"color": SERIES[number], "width": 2, "dash": dash},
        )
        for number, (name, run) in enumerate(runs)
        for field, label, dash in (
            ("delay_ms_mean", "mean delay", "solid"),
            ("delay_ms_p95", "95 % delay", "dash"),
        )
    ]
    return [
        *plots,
        plot(
            "delay-over-time",
            "Delays over time",
            delays,
            x=x,
            y=axis("delay (ms)", rangemode="tozero"),
            title="delay" if len(runs) > 1 else "",
        ),
    ]
