"""Where traffic goes: the overlay drawn, brokers sized by message rate and coloured by pure
forwarding, links by rate.

Two runs are drawn on the same scales. Links are drawn in a few classes of width, one Plotly trace
each: thousands of them stay quick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gravitate.pipeline.report.figures import BrokerFigures, LinkFigures, RunFigures
from gravitate.pipeline.report.layout import Position, by_coordinates, positions
from gravitate.pipeline.report.plots import INK, WASTE, Plot, Trace, colour_bar, hover, plot
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import ABSENT, bandwidth, count, ms, percent, plot_text, rate

WIDTH_CLASSES: Final = 6
WIDTH_PX_MIN: Final = 1.5
WIDTH_PX_MAX: Final = 11.0
LABELLED_MAX: Final = 80
"""Brokers that are named in the drawing; where there are more, hovering names them."""


def overlay(runs: NamedRuns) -> Section:
    scales = Scales.of([run for _, run in runs])
    return Section(
        "overlay",
        "Overlay",
        "Where does the traffic go, and where is it wasted?",
        "Each circle is a broker: the larger, the more messages pass through it; the stronger its "
        "colour, the larger the share of arrivals that nobody there wanted. Each line is a link: "
        "the wider, the more events a second; dotted where the network file does not have it. "
        "Hover over a broker or the middle of a link for its figures."
        + (" Both drawings use the same scales." if len(runs) > 1 else ""),
        [
            overlay_plot(f"overlay-{number}", run, scales, name)
            for number, (name, run) in enumerate(runs)
        ],
        [_broker_table(run, name) for name, run in runs],
        side_by_side=True,
    )


def _broker_table(run: RunFigures, name: str) -> Table:
    return Table(
        captioned("Brokers", name),
        ("broker", "message rate", "arrivals", "pure forwarder", "yield", "subscribers"),
        [
            (
                broker.broker,
                rate(broker.rate_msgs_per_s),
                count(broker.arrivals),
                count(broker.pure_forwarders),
                percent(broker.yield_share) if broker.arrivals else ABSENT,
                count(broker.subscribers),
            )
            for broker in run.brokers
        ],
    )


class Scales(msgspec.Struct, frozen=True):
    """What the largest node and the widest link stand for."""

    broker_msgs_per_s_max: float
    link_msgs_per_s_max: float

    @classmethod
    def of(cls, runs: Sequence[RunFigures]) -> Scales:
        brokers = [broker.rate_msgs_per_s for run in runs for broker in run.brokers]
        links = [link.rate_msgs_per_s for run in runs for link in run.links]
        return cls(max(brokers, default=0.0) or 1.0, max(links, default=0.0) or 1.0)


def overlay_plot(id: str, run: RunFigures, scales: Scales, title: str = "") -> Plot:
    """The overlay of one run."""
    coordinates = {broker.broker: broker.coordinates for broker in run.brokers}
    primary = [link.between for link in run.links if link.primary]
    # An end of a link may be unknown to the network file; it stands in the traces' brokers then,
    # or nothing is known of it and the link is left out of the drawing.
    links = [link for link in run.links if set(link.between) <= coordinates.keys()]
    places = positions(coordinates, primary or [link.between for link in links])
    measured = by_coordinates(coordinates)
    hidden = {"visible": False, "automargin": False}
    equal = {"scaleanchor": "x", "scaleratio": 1} if measured else {}
    return plot(
        id,
        f"Drawing of {len(run.brokers)} brokers and {len(run.links)} links with their loads",
        [
            *_lines(links, places, scales),
            _middles(links, places),
            _nodes(run.brokers, places, scales),
        ],
        x=hidden | {"range": _range([x for x, _ in places.values()])},
        y=hidden | {"range": _range([y for _, y in places.values()])} | equal,
        height_px=520,
        title=title,
        showlegend=False,
        hovermode="closest",
    )


def _range(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    margin = 0.1 * (high - low) or 1.0
    return [low - margin, high + margin]


def _lines(
    links: Sequence[LinkFigures], places: dict[str, Position], scales: Scales
) -> list[Trace]:
    classes: dict[tuple[int, bool], list[LinkFigures]] = {}
    for link in links:
        share = link.rate_msgs_per_s / scales.link_msgs_per_s_max
        step = math.ceil(share * WIDTH_CLASSES)
        classes.setdefault((step, link.primary), []).append(link)
    traces = []
    for (step, primary), members in sorted(classes.items()):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for link in members:
            (x0, y0), (x1, y1) = (places[end] for end in link.between)
            xs += [x0, x1, None]
            ys += [y0, y1, None]
        width_px = WIDTH_PX_MIN + (WIDTH_PX_MAX - WIDTH_PX_MIN) * step / WIDTH_CLASSES
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": xs,
                "y": ys,
                "line": {
                    "width": round(width_px, 1),
                    "color": "var(--link)",
                    "dash": "solid" if primary else "dot",
                },
                "hoverinfo": "skip",
            }
        )
    return traces


def _middles(links: Sequence[LinkFigures], places: dict[str, Position]) -> Trace:
    """Invisible points that say what a link carries."""
    ends = [(places[link.between[0]], places[link.between[1]]) for link in links]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [(one[0] + other[0]) / 2 for one, other in ends],
        "y": [(one[1] + other[1]) / 2 for one, other in ends],
        "marker": {"size": 14, "opacity": 0, "color": INK},
        "hovertext": [_link_words(link) for link in links],
        "hoverinfo": "text",
    }


def _nodes(brokers: Sequence[BrokerFigures], places: dict[str, Position], scales: Scales) -> Trace:
    largest_px = min(46.0, max(12.0, 320 / math.sqrt(len(brokers))))
    labelled = len(brokers) <= LABELLED_MAX
    marker: dict[str, Any] = {
        "size": [
            round(
                max(
                    7.0,
                    largest_px * math.sqrt(broker.rate_msgs_per_s / scales.broker_msgs_per_s_max),
                ),
                1,
            )
            for broker in brokers
        ],
        "color": [100 * (1 - broker.yield_share) for broker in brokers],
        "cmin": 0,
        "cmax": 100,
        "colorscale": WASTE,
        "opacity": 1,
        "line": {"width": 1.5, "color": INK},
        "colorbar": colour_bar("arrivals nobody there wanted", ticksuffix=" %"),
    }
    return {
        "type": "scatter",
        "mode": "markers+text" if labelled else "markers",
        "x": [places[broker.broker][0] for broker in brokers],
        "y": [places[broker.broker][1] for broker in brokers],
        "text": [plot_text(broker.broker, 16) for broker in brokers] if labelled else None,
        "textposition": "top center",
        "cliponaxis": False,
        "marker": marker,
        "hovertext": [_broker_words(broker) for broker in brokers],
        "hoverinfo": "text",
    }


def _broker_words(broker: BrokerFigures) -> str:
    return hover(
        broker.broker,
        ("message rate", rate(broker.rate_msgs_per_s)),
        ("in from links", rate(broker.in_links_msgs_per_s)),
        ("in from publishers", rate(broker.in_clients_msgs_per_s)),
        ("out to links", rate(broker.out_links_msgs_per_s)),
        ("out to subscribers", rate(broker.out_clients_msgs_per_s)),
        ("pure forwarder", f"{count(broker.pure_forwarders)} of {count(broker.arrivals)} arrivals"),
        ("yield", percent(broker.yield_share)),
        ("subscribers", count(broker.subscribers)),
        ("mean delay of its deliveries", ms(broker.delay_ms_mean)),
    )


def _link_words(link: LinkFigures) -> str:
    one, other = link.between
    return hover(
        f"{one} – {other}",
        (f"{plot_text(one)} → {plot_text(other)}", rate(link.forth_msgs_per_s)),
        (f"{plot_text(other)} → {plot_text(one)}", rate(link.back_msgs_per_s)),
        ("bandwidth", bandwidth(link.bytes_per_s)),
        ("latency", ms(link.latency_ms)),
        ("measured round trip", ms(link.rtt_ms_mean)),
        ("kind", "primary" if link.primary else "not in the network file"),
    )
