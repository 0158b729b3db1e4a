"""How long deliveries take: spread of the delays, and delay by distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gravitate.pipeline.report.figures import RunFigures
from gravitate.pipeline.report.plots import (
    INK,
    SERIES,
    Plot,
    Trace,
    axis,
    bars,
    hover,
    line,
    names_axis,
    plot,
)
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import count, ms, percent

Floats = NDArray[np.float64]

DELAY_BINS: Final = 80
WIDE: Final = 20.0
"""Delays whose 99 % are more than this times their median get a logarithmic axis."""


def delays(runs: NamedRuns) -> Section:
    return Section(
        "delays",
        "Delays",
        "How long do deliveries take?",
        "First: which share of the deliveries took about as long as the axis below says; the "
        "dashed line is the median. Second: which share was done within that time, so that a "
        "promise such as “95 % within 100 ms” can be read off.",
        delay_plots(runs),
        [
            Table(
                captioned("Delays", name),
                ("share of deliveries", "done within"),
                [
                    ("half", ms(run.headline["delay_ms_p50"])),
                    ("95 %", ms(run.headline["delay_ms_p95"])),
                    ("99 %", ms(run.headline["delay_ms_p99"])),
                    ("all", ms(run.headline["delay_ms_max"])),
                ],
            )
            for name, run in runs
        ],
        side_by_side=True,
        empty="" if any(run.delays for _, run in runs) else "Nothing was delivered.",
    )


def hops(runs: NamedRuns) -> Section:
    return Section(
        "hops",
        "Delay by hops",
        "Is it distance that makes deliveries slow?",
        "Deliveries by the number of links between publisher's and subscriber's broker: the bar "
        "is the median delay, the whisker reaches to 95 %. Bars that grow evenly mean that "
        "distance explains the delay; a high bar at few hops means waiting.",
        hops_plot(runs),
        [
            Table(
                captioned("Delay by hops", name),
                ("hops", "deliveries", "mean", "median", "95 %", "longest"),
                [
                    (
                        str(part.hops),
                        count(part.deliveries),
                        ms(part.delay_ms_mean),
                        ms(part.delay_ms_p50),
                        ms(part.delay_ms_p95),
                        ms(part.delay_ms_max),
                    )
                    for part in run.hops
                ],
            )
            for name, run in runs
        ],
        empty="" if any(run.hops for _, run in runs) else "Nothing was delivered.",
    )


def delay_plots(runs: NamedRuns) -> list[Plot]:
    """How delays are spread, and which share is done by when."""
    delivering = [(name, run) for name, run in runs if run.delays]
    if not delivering:
        return []
    edges_ms, wide = _edges_ms([run for _, run in delivering])
    x = axis("delay (ms)", type="log" if wide else "linear")
    coloured = list(zip(delivering, SERIES, strict=False))
    return [
        plot(
            "delay-spread",
            "Distribution of delivery delays",
            [_spread(name, run, edges_ms, colour) for (name, run), colour in coloured],
            x=x,
            y=axis("deliveries (%)", rangemode="tozero"),
            shapes=[_median_mark(run, colour) for (_, run), colour in coloured],
        ),
        plot(
            "delay-within",
            "Share of deliveries within a delay",
            [_within(name, run, edges_ms, colour) for (name, run), colour in coloured],
            x=x,
            y=axis("done (%)", range=[0, 101]),
        ),
    ]


def _spread(name: str, run: RunFigures, edges_ms: Floats, colour: str) -> Trace:
    shares = np.diff(cumulative(run, edges_ms))
    return line(
        name or "deliveries",
        _rounded((edges_ms[1:] + edges_ms[:-1]) / 2),
        _rounded(100 * shares),
        [
            hover(name or "deliveries", (f"{low:.3g} to {high:.3g} ms", percent(share)))
            for low, high, share in zip(edges_ms, edges_ms[1:], shares, strict=False)
        ],
        colour,
        mode="lines",
        fill="tozeroy",
        line={"color": colour, "width": 2, "shape": "hvh"},
    )


def _within(name: str, run: RunFigures, edges_ms: Floats, colour: str) -> Trace:
    shares = cumulative(run, edges_ms)
    return line(
        name or "deliveries",
        _rounded(edges_ms),
        _rounded(100 * shares),
        [
            hover(name or "deliveries", (f"within {edge:.3g} ms", percent(share)))
            for edge, share in zip(edges_ms, shares, strict=True)
        ],
        colour,
        mode="lines",
    )


def _median_mark(run: RunFigures, colour: str) -> dict[str, Any]:
    median_ms = run.headline["delay_ms_p50"]
    return {
        "type": "line",
        "x0": median_ms,
        "x1": median_ms,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 1.5, "dash": "dash"},
        "label": {
            "text": "median",
            "textangle": 0,
            "textposition": "end",
            "xanchor": "left",
            "yanchor": "top",
            "font": {"color": INK, "size": 11},
        },
    }


def _rounded(values: Floats) -> list[float]:
    """Short numbers keep the page small."""
    return [float(f"{value:.5g}") for value in values]


def _edges_ms(runs: Sequence[RunFigures]) -> tuple[Floats, bool]:
    """Where the bins of the drawing begin and end, and whether they widen by a factor."""
    slowest = max(run.headline["delay_ms_max"] or 0.0 for run in runs)
    late = max(run.headline["delay_ms_p99"] or 0.0 for run in runs)
    middle = min(run.headline["delay_ms_p50"] or 0.0 for run in runs)
    if middle > 0 and late > WIDE * middle:
        return np.geomspace(middle / 100, slowest, DELAY_BINS + 1), True
    # A single straggler must not press all others into one bin.
    top = slowest if slowest < 3 * late else 1.5 * late
    return np.linspace(0.0, max(top, 1e-3), DELAY_BINS + 1), False


def cumulative(run: RunFigures, at_ms: Floats) -> Floats:
    """Share of the deliveries within each delay, taken as even within a delay class."""
    bounds, shares = _cumulative(run)
    found: Floats = np.interp(at_ms, bounds, shares)
    return found


def _cumulative(run: RunFigures) -> tuple[Floats, Floats]:
    bounds, counts = [0.0], [0.0]
    for part in run.delays:
        # Between classes nothing is added: the gap is flat.
        bounds += [part.delay_ms_from, part.delay_ms_until]
        counts += [0.0, part.deliveries]
    total = np.cumsum(counts)
    return np.maximum.accumulate(np.array(bounds)), total / total[-1]


def hops_plot(runs: NamedRuns) -> list[Plot]:
    """Median and 95 % of the delay by number of links passed."""
    hops = sorted({part.hops for _, run in runs for part in run.hops})
    if not hops:
        return []
    traces = []
    for number, (name, run) in enumerate(runs):
        parts = {part.hops: part for part in run.hops}
        found = [parts.get(distance) for distance in hops]
        words = [
            hover(
                f"{distance} hops",
                *([("run", name)] if name else []),
                ("deliveries", count(part.deliveries)),
                ("mean", ms(part.delay_ms_mean)),
                ("median", ms(part.delay_ms_p50)),
                ("95 %", ms(part.delay_ms_p95)),
                ("longest", ms(part.delay_ms_max)),
            )
            if part
            else ""
            for distance, part in zip(hops, found, strict=True)
        ]
        traces.append(
            bars(
                f"{name} median" if name else "median",
                [part.delay_ms_p50 if part else None for part in found],
                words,
                SERIES[number],
                offsetgroup=str(number),
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [
                        part.delay_ms_p95 - part.delay_ms_p50 if part else 0 for part in found
                    ],
                    "arrayminus": [0] * len(found),
                    "color": INK,
                    "thickness": 1.5,
                    "width": 4,
                },
            )
        )
    return [
        plot(
            "delay-by-hops",
            "Median delay by number of hops, with the 95 % mark",
            traces,
            x=names_axis([str(distance) for distance in hops], "links passed"),
            y=axis("delay (ms)", rangemode="tozero"),
            barmode="group",
        )
    ]
