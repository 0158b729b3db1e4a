"""What is published, who publishes it, and where it is wanted."""

from __future__ import annotations

from typing import Final

from gravitate.pipeline.report.figures import RunFigures
from gravitate.pipeline.report.plots import (
    SERIES,
    Plot,
    Trace,
    axis,
    bars,
    heatmap,
    hover,
    names_axis,
    plot,
    reversed_names_axis,
)
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import count, percent, rate

TOPICS_MAX: Final = 20
PAIRS_MAX: Final = 40
"""Pairs of brokers in the table of common interest."""


def topics(runs: NamedRuns) -> Section:
    shown, total = len(runs[0][1].topics), runs[0][1].topics_total
    return Section(
        "topics",
        "Topics",
        "What is published most?",
        f"{_leading(shown, total, 'topics', 'publications')}. Bars are rates over the whole run"
        + (
            "."
            if len(runs) > 1
            else "; a diamond is the smoothed rate at the end, and far from its bar when the "
            "topic has become busier or quieter."
        ),
        topics_plot(runs),
        [
            Table(
                captioned("Topics", name),
                ("topic", "published", "mean rate", "smoothed rate at the end"),
                [
                    (
                        topic.topic or "(no topic)",
                        count(topic.publications),
                        rate(topic.rate_msgs_per_s),
                        rate(topic.rate_smoothed_msgs_per_s),
                    )
                    for topic in run.topics
                ],
            )
            for name, run in runs
        ],
        empty="" if any(run.topics for _, run in runs) else "Nothing was published.",
    )


def publishers(runs: NamedRuns) -> Section:
    shown, total = len(runs[0][1].publishers), runs[0][1].publishers_total
    return Section(
        "publishers",
        "Publishers",
        "Are publishers near their audience?",
        f"{_leading(shown, total, 'publishers', 'deliveries')}, a row each: "
        "the stronger a cell, the larger the share of the publisher's deliveries that happens at "
        "that broker. The ring is the broker it publishes at; a ring far from the strong cells is "
        "a publisher that would serve its audience better elsewhere.",
        audience_plots(runs),
        [
            Table(
                captioned("Publishers", name),
                ("publisher", "publishes at", "most of its audience at", "published", "deliveries"),
                [
                    (
                        publisher.publisher,
                        ", ".join(publisher.homes),
                        ", ".join(
                            f"{part.broker} ({percent(part.deliveries / publisher.deliveries)})"
                            for part in publisher.audience[:3]
                        ),
                        count(publisher.published),
                        count(publisher.deliveries),
                    )
                    for publisher in run.publishers
                ],
                text_columns=3,
            )
            for name, run in runs
        ],
        empty="" if any(run.publishers for _, run in runs) else "Nobody published.",
    )


def interest(runs: NamedRuns) -> Section:
    errors = [
        f"Bloom filters, as brokers exchange them, overstate it by {percent(error)}"
        + (f" in {name}" if name else "")
        + "."
        for name, run in runs
        if (error := run.bloom_error_share) is not None
    ]
    return Section(
        "interest",
        "Common interest",
        "Which brokers want the same events?",
        "A cell counts the events wanted at both brokers, exactly. Strong cells far apart in the "
        "overlay are links worth having. " + " ".join(errors),
        interest_plots(runs),
        [
            Table(
                captioned("Pairs with the most in common", name),
                ("brokers", "events in common", "by Bloom filters", "error"),
                [
                    (
                        f"{pair.broker} – {pair.other}",
                        count(pair.events),
                        count(pair.events_bloom),
                        percent(pair.events_bloom / pair.events - 1 if pair.events else None),
                    )
                    for pair in sorted(run.common_interest, key=lambda one: -one.events)
                    if pair.broker < pair.other
                ][:PAIRS_MAX],
            )
            for name, run in runs
        ],
        side_by_side=True,
        empty=""
        if any(run.common_interest for _, run in runs)
        else "No event was wanted at two brokers.",
    )


def _leading(shown: int, total: int, what: str, most: str) -> str:
    if total == 1:
        return f"The only {what.removesuffix('s')}"
    if shown >= total:
        return f"All {count(total)} {what}, those with the most {most} first"
    return f"The {shown} {what} with the most {most}, of {count(total)}"


def topics_plot(runs: NamedRuns) -> list[Plot]:
    """The topics published to most."""
    rates = {topic.topic: topic.rate_msgs_per_s for _, run in runs for topic in run.topics}
    order = sorted(rates, key=lambda topic: (-rates[topic], topic))[:TOPICS_MAX]
    if not order:
        return []
    traces: list[Trace] = []
    for number, (name, run) in enumerate(runs):
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


def audience_plots(runs: NamedRuns) -> list[Plot]:
    """Publishers by broker: which share of a publisher's deliveries happens where."""
    highest = max(
        (
            100 * part.deliveries / publisher.deliveries
            for _, run in runs
            for publisher in run.publishers
            for part in publisher.audience
        ),
        default=100.0,
    )
    return [
        _audience_plot(f"audience-{number}", run, name, highest)
        for number, (name, run) in enumerate(runs)
        if run.publishers
    ]


def _audience_plot(id: str, run: RunFigures, name: str, highest: float) -> Plot:
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
            heatmap(
                len(columns),
                shares,
                words,
                "of its deliveries",
                showlegend=False,
                zmin=0,
                zmax=highest,
            )
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


def interest_plots(runs: NamedRuns) -> list[Plot]:
    """Brokers by broker: how many events are wanted at both."""
    highest = max((pair.events for _, run in runs for pair in run.common_interest), default=0.0)
    return [
        _interest_plot(f"interest-{number}", run, name, highest)
        for number, (name, run) in enumerate(runs)
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
