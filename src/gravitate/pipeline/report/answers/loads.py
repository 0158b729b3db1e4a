"""What brokers and links carry: message rates, yield, the busiest links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gravitate.pipeline.report.answers.overlay import link_words
from gravitate.pipeline.report.figures import BrokerFigures, LinkFigures, RunFigures
from gravitate.pipeline.report.plots import (
    SERIES,
    Plot,
    Trace,
    axis,
    bars,
    hover,
    names_axis,
    plot,
    reversed_names_axis,
)
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import bandwidth, count, ms, percent, rate

BARS_MAX: Final = 60
"""Brokers in a bar chart."""
LINKS_MAX: Final = 20
FLOWS: Final = (
    ("in_links_msgs_per_s", "in from links"),
    ("in_clients_msgs_per_s", "in from publishers"),
    ("out_links_msgs_per_s", "out to links"),
    ("out_clients_msgs_per_s", "out to subscribers"),
)


def loads(runs: NamedRuns) -> Section:
    return Section(
        "loads",
        "Broker load",
        "Which brokers work hardest, and for whom?",
        "A bar is all messages in and out of a broker a second, busiest first"
        + _at_most(runs)
        + ". Brokers with much “links” and little “publishers” or “subscribers” mostly relay.",
        load_plots(runs),
        [
            Table(
                captioned("Message rates", name),
                ("broker", *(label for _, label in FLOWS), "all"),
                [
                    (
                        broker.broker,
                        *(rate(getattr(broker, field)) for field, _ in FLOWS),
                        rate(broker.rate_msgs_per_s),
                    )
                    for broker in sorted(run.brokers, key=lambda one: -one.rate_msgs_per_s)
                ],
            )
            for name, run in runs
        ],
        empty=""
        if any(run.headline["published"] for _, run in runs)
        else "No broker carried anything.",
    )


def yields(runs: NamedRuns) -> Section:
    return Section(
        "yield",
        "Yield",
        "Which brokers receive what nobody there wants?",
        "Yield is the share of what comes over links that a local subscriber wanted; the rest "
        "the broker only passes on. Lowest first"
        + _at_most(runs)
        + ": these are the places where moving a publisher, "
        "a subscriber or a link saves most.",
        yield_plot(runs),
        [
            Table(
                captioned("Yield", name),
                ("broker", "yield", "arrivals", "wanted", "pure forwarder"),
                [
                    (
                        broker.broker,
                        percent(broker.yield_share),
                        count(broker.arrivals),
                        count(broker.arrivals - broker.pure_forwarders),
                        count(broker.pure_forwarders),
                    )
                    for broker in sorted(run.brokers, key=lambda one: one.yield_share)
                    if broker.arrivals
                ],
            )
            for name, run in runs
        ],
        empty=""
        if any(run.headline["arrivals"] for _, run in runs)
        else "Nothing came over links, so no broker was a pure forwarder.",
    )


def links(runs: NamedRuns) -> Section:
    return Section(
        "links",
        "Links",
        "Which links carry most?",
        f"The {min(LINKS_MAX, max(len(run.links) for _, run in runs))} busiest links"
        + (
            ", both directions together."
            if len(runs) > 1
            else "; the two colours are the two directions, as the name of the link is written."
        ),
        links_plot(runs),
        [
            Table(
                captioned("Busiest links", name),
                ("link", "forth", "back", "bandwidth", "latency", "round trip"),
                [
                    (
                        f"{link.between[0]} – {link.between[1]}",
                        rate(link.forth_msgs_per_s),
                        rate(link.back_msgs_per_s),
                        bandwidth(link.bytes_per_s),
                        ms(link.latency_ms),
                        ms(link.rtt_ms_mean),
                    )
                    for link in busiest_links(run)
                ],
            )
            for name, run in runs
        ],
        empty="" if any(run.links for _, run in runs) else "This network has no links.",
    )


def _at_most(runs: NamedRuns) -> str:
    return f" (at most {BARS_MAX} are drawn)" if len(runs[0][1].brokers) > BARS_MAX else ""


def busiest_brokers(runs: NamedRuns) -> list[str]:
    """Brokers by their message rate in the first run, at most `BARS_MAX`."""
    ordered = sorted(runs[0][1].brokers, key=lambda broker: -broker.rate_msgs_per_s)
    return [broker.broker for broker in ordered[:BARS_MAX]]


def load_plots(runs: NamedRuns) -> list[Plot]:
    """Message rates of brokers, stacked by where messages come from and go to."""
    order = busiest_brokers(runs)
    highest = max(broker.rate_msgs_per_s for _, run in runs for broker in run.brokers)
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
        for number, (name, run) in enumerate(runs)
    ]


def yield_plot(runs: NamedRuns) -> list[Plot]:
    """Arrivals of each broker, wanted there or not."""
    order = [
        broker.broker
        for broker in sorted(runs[0][1].brokers, key=lambda broker: broker.yield_share)
        if any(part.arrivals for _, run in runs for part in _in_order(run, [broker.broker]))
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
                for number, (name, run) in enumerate(runs)
            ],
            x=names_axis(order),
            y=axis("yield (%)", range=[0, 101]),
            barmode="group",
        )
    ]


def links_plot(runs: NamedRuns) -> list[Plot]:
    """The links that carry most."""
    order = [link.between for link in busiest_links(runs[0][1])]
    if not order:
        return []
    traces: list[Trace] = []
    for number, (name, run) in enumerate(runs):
        known = {link.between: link for link in run.links}
        found = [known.get(between) for between in order]
        words = [link_words(link) if link else "" for link in found]
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


def _in_order(run: RunFigures, order: Sequence[str]) -> list[BrokerFigures]:
    known = {broker.broker: broker for broker in run.brokers}
    return [known.get(name) or BrokerFigures(broker=name) for name in order]
