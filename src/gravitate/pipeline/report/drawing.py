"""The plots of a report, each from the numbers of one run or of two.

Where two runs can share a plot they do (delays, bars side by side); where not, each has its own
on the same scale. What a plot shows is said by `sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from gravitate.pipeline.report.figures import BrokerFigures, LinkFigures, RunFigures
from gravitate.pipeline.report.plots import (
    INK,
    SERIES,
    Plot,
    Trace,
    axis,
    bars,
    heatmap,
    hover,
    line,
    names_axis,
    plot,
    reversed_names_axis,
)
from gravitate.pipeline.report.words import bandwidth, count, ms, percent, plot_text, rate

BARS_MAX: Final = 60
"""Brokers in a bar chart."""
LINKS_MAX: Final = 20
DELAY_BINS: Final = 80
WIDE: Final = 50.0
"""Delays that spread over more than this factor between 1 % and 99 % get a logarithmic axis."""
FLOWS: Final = (
    ("in_links_msgs_per_s", "in from links"),
    ("in_clients_msgs_per_s", "in from publishers"),
    ("out_links_msgs_per_s", "out to links"),
    ("out_clients_msgs_per_s", "out to subscribers"),
)

Names = Sequence[str]
"""What the runs are called; empty text where there is only one."""


# --- delays ---------------------------------------------------------------------------------------


def delay_plots(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """How delays are spread, and which share is done by when."""
    runs_with = [(run, name) for run, name in zip(runs, names, strict=True) if run.delays]
    if not runs_with:
        return []
    edges_ms, wide = _edges_ms([run for run, _ in runs_with])
    x = axis("delay (ms)", type="log" if wide else "linear", rangemode="tozero")
    spread, within, marks = [], [], []
    for number, (run, name) in enumerate(runs_with):
        shares = cumulative(run, edges_ms)
        middles = (edges_ms[1:] + edges_ms[:-1]) / 2
        density = np.diff(shares)
        spread.append(
            line(
                name or "deliveries",
                [round(float(value), 4) for value in middles],
                [round(100 * float(share), 4) for share in density],
                [
                    hover(name or "deliveries", (f"{low:.3g} to {high:.3g} ms", percent(share)))
                    for low, high, share in zip(edges_ms, edges_ms[1:], density, strict=False)
                ],
                SERIES[number],
                mode="lines",
                fill="tozeroy",
                line={"color": SERIES[number], "width": 2, "shape": "hvh"},
            )
        )
        within.append(
            line(
                name or "deliveries",
                [round(float(edge), 4) for edge in edges_ms],
                [round(100 * float(share), 3) for share in shares],
                [
                    hover(name or "deliveries", (f"within {edge:.3g} ms", percent(share)))
                    for edge, share in zip(edges_ms, shares, strict=True)
                ],
                SERIES[number],
                mode="lines",
            )
        )
        marks.append((run.headline.delay_ms_p50, SERIES[number], name))
    lines = [
        {
            "type": "line",
            "x0": value,
            "x1": value,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": colour, "width": 1.5, "dash": "dash"},
            "label": {"text": "median", "textposition": "end", "font": {"color": INK, "size": 11}},
        }
        for value, colour, _ in marks
    ]
    return [
        plot(
            "delay-spread",
            "Distribution of delivery delays",
            spread,
            x=x,
            y=axis("deliveries (%)", rangemode="tozero"),
            shapes=lines,
        ),
        plot(
            "delay-within",
            "Share of deliveries within a delay",
            within,
            x=x,
            y=axis("done (%)", range=[0, 101]),
        ),
    ]


def _edges_ms(runs: Sequence[RunFigures]) -> tuple[np.ndarray[Any, Any], bool]:
    """Where the bins of the drawing begin and end, and whether they widen by a factor."""
    slowest = max(run.headline.delay_ms_max or 0.0 for run in runs)
    late = max(run.headline.delay_ms_p99 or 0.0 for run in runs)
    early = min(_at_share(run, 0.01) for run in runs)
    if early > 0 and late / early > WIDE:
        return np.geomspace(early / 2, max(slowest, early), DELAY_BINS + 1), True
    # A single straggler must not press all others into one bin.
    top = slowest if slowest < 3 * late else 1.5 * late
    return np.linspace(0.0, max(top, 1e-3), DELAY_BINS + 1), False


def _at_share(run: RunFigures, share: float) -> float:
    bounds, shares = _cumulative(run)
    return float(np.interp(share, shares, bounds))


def cumulative(run: RunFigures, at_ms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Share of the deliveries within each delay, taken as even within a delay class."""
    bounds, shares = _cumulative(run)
    found: np.ndarray[Any, Any] = np.interp(at_ms, bounds, shares)
    return found


def _cumulative(run: RunFigures) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    bounds, counts = [0.0], [0.0]
    for part in run.delays:
        # Between classes nothing is added: the gap is flat.
        bounds += [part.delay_ms_from, part.delay_ms_until]
        counts += [0.0, part.deliveries]
    total = np.cumsum(counts)
    return np.maximum.accumulate(np.array(bounds)), total / total[-1]


def hops_plot(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Median and 95 % of the delay by number of links passed."""
    hops = sorted({part.hops for run in runs for part in run.hops})
    if not hops:
        return []
    traces = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
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


# --- brokers and links ----------------------------------------------------------------------------


def busiest_brokers(runs: Sequence[RunFigures]) -> list[str]:
    """Brokers by their message rate in the first run, at most `BARS_MAX`."""
    ordered = sorted(runs[0].brokers, key=lambda broker: -broker.rate_msgs_per_s)
    return [broker.broker for broker in ordered[:BARS_MAX]]


def load_plots(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Message rates of brokers, stacked by where messages come from and go to."""
    order = busiest_brokers(runs)
    highest = max(broker.rate_msgs_per_s for run in runs for broker in run.brokers)
    return [
        plot(
            f"broker-load-{number}",
            "Message rate of each broker, by origin and destination",
            [
                bars(
                    label,
                    [getattr(broker, field) for broker in _in_order(run, order)],
                    [
                        hover(
                            broker.broker,
                            (label, rate(getattr(broker, field))),
                            ("all", rate(broker.rate_msgs_per_s)),
                        )
                        for broker in _in_order(run, order)
                    ],
                    SERIES[position],
                )
                for position, (field, label) in enumerate(FLOWS)
            ],
            x=names_axis(order),
            y=axis("messages a second", range=[0, 1.05 * highest or 1]),
            barmode="stack",
            title=name,
            height_px=380,
        )
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
    ]


def yield_plot(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Arrivals of each broker, wanted there or not."""
    order = [
        broker.broker
        for broker in sorted(runs[0].brokers, key=lambda broker: broker.yield_share)
        if any(part.arrivals for run in runs for part in _in_order(run, [broker.broker]))
    ][:BARS_MAX]
    if not order:
        return []
    return [
        plot(
            "yield",
            "Yield of each broker",
            [
                bars(
                    name or "yield",
                    [
                        100 * broker.yield_share if broker.arrivals else None
                        for broker in _in_order(run, order)
                    ],
                    [
                        hover(
                            broker.broker,
                            ("yield", percent(broker.yield_share)),
                            ("arrivals", count(broker.arrivals)),
                            ("pure forwarder", count(broker.pure_forwarders)),
                        )
                        for broker in _in_order(run, order)
                    ],
                    SERIES[number],
                )
                for number, (run, name) in enumerate(zip(runs, names, strict=True))
            ],
            x=names_axis(order),
            y=axis("yield (%)", range=[0, 101]),
            barmode="group",
        )
    ]


def links_plot(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """The links that carry most."""
    order = [link.between for link in busiest_links(runs[0])]
    if not order:
        return []
    traces: list[Trace] = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        known = {link.between: link for link in run.links}
        found = [known.get(between) for between in order]
        words = [_link_words(link) if link else "" for link in found]
        if name:
            rates = [link.rate_msgs_per_s if link else None for link in found]
            traces.append(bars(name, rates, words, SERIES[number], horizontal=True))
        else:
            forth = [link.forth_msgs_per_s if link else None for link in found]
            back = [link.back_msgs_per_s if link else None for link in found]
            traces.append(bars("left to right", forth, words, SERIES[0], horizontal=True))
            traces.append(bars("right to left", back, words, SERIES[1], horizontal=True))
    return [
        plot(
            "links",
            "Events a second over the busiest links",
            traces,
            x=axis("events a second", rangemode="tozero"),
            y=reversed_names_axis([f"{one} – {other}" for one, other in order]),
            barmode="group" if len(runs) > 1 else "stack",
            height_px=90 + 24 * len(order) * (2 if len(runs) > 1 else 1),
        )
    ]


def busiest_links(run: RunFigures) -> list[LinkFigures]:
    ordered = sorted(run.links, key=lambda link: -link.rate_msgs_per_s)
    return ordered[:LINKS_MAX]


def _link_words(link: LinkFigures) -> str:
    one, other = link.between
    return hover(
        f"{one} – {other}",
        (f"{plot_text(one)} → {plot_text(other)}", rate(link.forth_msgs_per_s)),
        (f"{plot_text(other)} → {plot_text(one)}", rate(link.back_msgs_per_s)),
        ("bandwidth", bandwidth(link.bytes_per_s)),
    )


def _in_order(run: RunFigures, order: Sequence[str]) -> list[BrokerFigures]:
    known = {broker.broker: broker for broker in run.brokers}
    return [known.get(name) or BrokerFigures(broker=name) for name in order]


# --- over time, topics ----------------------------------------------------------------------------


def time_plots(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Rates and delays over time: a plot for rates of each run, one for the delays of all."""
    if not any(run.periods for run in runs):
        return []
    series: tuple[tuple[str, Callable[[Any], float]], ...] = (
        ("over links", lambda period: period.links_msgs_per_s),
        ("delivered", lambda period: period.delivered_msgs_per_s),
        ("published", lambda period: period.published_msgs_per_s),
    )
    highest = max(value(period) for run in runs for period in run.periods for _, value in series)
    longest_s = max(period.from_s for run in runs for period in run.periods)
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
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
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
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
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


def topics_plot(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """The topics published to most."""
    order = [topic.topic for topic in runs[0].topics]
    if not order:
        return []
    traces: list[Trace] = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        known = {topic.topic: topic for topic in run.topics}
        found = [known.get(topic) for topic in order]
        words = [
            hover(
                topic.topic or "(no topic)",
                *([("run", name)] if name else []),
                ("published", count(topic.publications)),
                ("mean rate", rate(topic.rate_msgs_per_s)),
                ("smoothed rate at the end", rate(topic.rate_smoothed_msgs_per_s)),
            )
            if topic
            else ""
            for topic in found
        ]
        traces.append(
            bars(
                f"{name} mean rate".strip(),
                [topic.rate_msgs_per_s if topic else None for topic in found],
                words,
                SERIES[number],
                horizontal=True,
            )
        )
        if not name:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "smoothed rate at the end",
                    "x": [topic.rate_smoothed_msgs_per_s if topic else None for topic in found],
                    "y": list(range(len(order))),
                    "marker": {"symbol": "diamond", "size": 9, "color": SERIES[1]},
                    "hovertext": words,
                    "hoverinfo": "text",
                }
            )
    return [
        plot(
            "topics",
            "Publication rates of the busiest topics",
            traces,
            x=axis("publications a second", rangemode="tozero"),
            y=reversed_names_axis([topic or "(no topic)" for topic in order]),
            barmode="group",
            height_px=100 + 24 * len(order) * (2 if len(runs) > 1 else 1),
        )
    ]


# --- audiences and interest -----------------------------------------------------------------------


def audience_plots(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Publishers by broker: which share of a publisher's deliveries happens where."""
    return [
        _audience_plot(f"audience-{number}", run, name)
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
        if run.publishers
    ]


def _audience_plot(id: str, run: RunFigures, name: str) -> Plot:
    places = [broker.broker for broker in run.brokers]
    used = {part.broker for publisher in run.publishers for part in publisher.audience}
    used |= {home for publisher in run.publishers for home in publisher.homes}
    columns = [place for place in places if place in used] + sorted(used - set(places))
    shares: list[list[float | None]] = []
    words: list[list[str]] = []
    for publisher in run.publishers:
        parts = {part.broker: part for part in publisher.audience}
        row = [parts.get(place) for place in columns]
        shares.append(
            [100 * part.deliveries / publisher.deliveries if part else None for part in row]
        )
        words.append(
            [
                hover(
                    f"{publisher.publisher} at {place}",
                    ("events wanted here", count(part.events)),
                    ("deliveries here", count(part.deliveries)),
                    ("of all its deliveries", percent(part.deliveries / publisher.deliveries)),
                )
                if part
                else ""
                for place, part in zip(columns, row, strict=True)
            ]
        )
    homes = [
        (columns.index(home), index, home, publisher.publisher)
        for index, publisher in enumerate(run.publishers)
        for home in publisher.homes
    ]
    return plot(
        id,
        "Where the audience of each publisher is",
        [
            heatmap(len(columns), shares, words, "of its deliveries", showlegend=False, zmin=0)
            | {"colorbar": {"ticksuffix": " %", "thickness": 12, "outlinewidth": 0}},
            {
                "type": "scatter",
                "mode": "markers",
                "name": "publisher's own broker",
                "x": [x for x, *_ in homes],
                "y": [y for _, y, *_ in homes],
                "marker": {
                    "symbol": "circle-open",
                    "size": 12,
                    "color": SERIES[1],
                    "line": {"width": 3},
                },
                "hovertext": [
                    hover(publisher, ("publishes at", home)) for _, _, home, publisher in homes
                ],
                "hoverinfo": "text",
            },
        ],
        x=names_axis(columns),
        y=reversed_names_axis([publisher.publisher for publisher in run.publishers]),
        height_px=130 + 26 * len(run.publishers),
        title=name,
        showlegend=True,
    )


def interest_plots(runs: Sequence[RunFigures], names: Names) -> list[Plot]:
    """Brokers by broker: how many events are wanted at both."""
    highest = max((pair.events for run in runs for pair in run.common_interest), default=0.0)
    return [
        _interest_plot(f"interest-{number}", run, name, highest)
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
        if run.common_interest
    ]


def _interest_plot(id: str, run: RunFigures, name: str, highest: float) -> Plot:
    pairs = {(pair.broker, pair.other): pair for pair in run.common_interest}
    involved = {broker for pair in pairs for broker in pair}
    listed = [broker.broker for broker in run.brokers if broker.broker in involved]
    order = listed + sorted(involved - set(listed))
    found = [[pairs.get((one, other)) for other in order] for one in order]
    return plot(
        id,
        "Events wanted at both of two brokers",
        [
            heatmap(
                len(order),
                [[pair.events if pair else None for pair in row] for row in found],
                [
                    [
                        hover(
                            f"{pair.broker} and {pair.other}",
                            ("events in common", count(pair.events)),
                            ("as Bloom filters tell it", count(pair.events_bloom)),
                        )
                        if pair
                        else ""
                        for pair in row
                    ]
                    for row in found
                ],
                "events in common",
                zmin=0,
                zmax=highest,
            )
        ],
        x=names_axis(order),
        y=reversed_names_axis(order),
        height_px=max(300, 120 + 24 * len(order)),
        title=name,
    )
