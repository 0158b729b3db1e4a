"""The report as a sequence of sections: a question, how to read the answer, plots, tables.

Every plot has a table with the same numbers behind it. Text here is plain; `page` escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gravitate.pipeline.report import drawing
from gravitate.pipeline.report.figures import Report, RunFigures
from gravitate.pipeline.report.overlay_plot import Scales, overlay_plot
from gravitate.pipeline.report.plots import Plot
from gravitate.pipeline.report.words import (
    ABSENT,
    bandwidth,
    count,
    figure,
    ms,
    percent,
    rate,
)

REASON_CHARACTERS_MAX: Final = 300


class Table(msgspec.Struct, frozen=True):
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    text_columns: int = 1
    """How many of the columns, from the left, hold text; the others hold numbers."""
    open: bool = False
    """Whether it is shown at once and not behind a click."""


class Section(msgspec.Struct, frozen=True):
    id: str
    name: str
    """For the list of contents."""
    question: str
    reading: str
    plots: list[Plot]
    tables: list[Table]
    side_by_side: bool = False
    empty: str = ""
    """Said in place of plots and tables when there is nothing to show."""


def sections(report: Report) -> list[Section]:
    """All sections of the page below the headline."""
    runs = report.runs
    names = run_names(report)
    return [
        _overlay(runs, names),
        _delays(runs, names),
        _hops(runs, names),
        _loads(runs, names),
        _yields(runs, names),
        _links(runs, names),
        _time(runs, names),
        _topics(runs, names),
        _publishers(runs, names),
        _interest(runs, names),
        _moves(runs, names),
        _quarantined(runs, names),
        _facts(report, runs, names),
    ]


def run_names(report: Report) -> list[str]:
    """What runs are called where there are two: A and B with the folder's name."""
    if report.compared is None:
        return [""]
    return [f"{letter}: {run.facts.run}" for letter, run in zip("AB", report.runs, strict=True)]


def _captioned(caption: str, name: str) -> str:
    return f"{caption}, {name}" if name else caption


def _overlay(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    scales = Scales.of(runs)
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
            for number, (run, name) in enumerate(zip(runs, names, strict=True))
        ],
        [_broker_table(run, name) for run, name in zip(runs, names, strict=True)],
        side_by_side=True,
    )


def _broker_table(run: RunFigures, name: str) -> Table:
    return Table(
        _captioned("Brokers", name),
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


def _delays(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "delays",
        "Delays",
        "How long do deliveries take?",
        "First: which share of the deliveries took about as long as the axis below says; the "
        "dashed line is the median. Second: which share was done within that time, so that a "
        "promise such as “95 % within 100 ms” can be read off.",
        drawing.delay_plots(runs, names),
        [
            Table(
                _captioned("Delays", name),
                ("share of deliveries", "done within"),
                [
                    ("half", ms(run.headline.delay_ms_p50)),
                    ("95 %", ms(run.headline.delay_ms_p95)),
                    ("99 %", ms(run.headline.delay_ms_p99)),
                    ("all", ms(run.headline.delay_ms_max)),
                ],
            )
            for run, name in zip(runs, names, strict=True)
        ],
        side_by_side=True,
        empty="" if any(run.delays for run in runs) else "Nothing was delivered.",
    )


def _hops(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "hops",
        "Delay by hops",
        "Is it distance that makes deliveries slow?",
        "Deliveries by the number of links between publisher's and subscriber's broker: the bar "
        "is the median delay, the whisker reaches to 95 %. Bars that grow evenly mean that "
        "distance explains the delay; a high bar at few hops means waiting.",
        drawing.hops_plot(runs, names),
        [
            Table(
                _captioned("Delay by hops", name),
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
            for run, name in zip(runs, names, strict=True)
        ],
        empty="" if any(run.hops for run in runs) else "Nothing was delivered.",
    )


def _loads(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    most = len(runs[0].brokers) > drawing.BARS_MAX
    return Section(
        "loads",
        "Broker load",
        "Which brokers work hardest, and for whom?",
        "A bar is all messages in and out of a broker a second, busiest first"
        + (f" (the first {drawing.BARS_MAX})" if most else "")
        + ". Broker with much “links” and little “publishers” or “subscribers” mostly relay.",
        drawing.load_plots(runs, names),
        [
            Table(
                _captioned("Message rates", name),
                ("broker", *(label for _, label in drawing.FLOWS), "all"),
                [
                    (
                        broker.broker,
                        *(rate(getattr(broker, field)) for field, _ in drawing.FLOWS),
                        rate(broker.rate_msgs_per_s),
                    )
                    for broker in sorted(run.brokers, key=lambda one: -one.rate_msgs_per_s)
                ],
            )
            for run, name in zip(runs, names, strict=True)
        ],
        empty="" if any(run.headline.published for run in runs) else "No broker carried anything.",
    )


def _yields(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "yield",
        "Yield",
        "Which brokers receive what nobody there wants?",
        "Yield is the share of what comes over links that a local subscriber wanted; the rest "
        "the broker only passes on. Lowest first: these are the places where moving a publisher, "
        "a subscriber or a link saves most.",
        drawing.yield_plot(runs, names),
        [
            Table(
                _captioned("Yield", name),
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
            for run, name in zip(runs, names, strict=True)
        ],
        empty=""
        if any(run.headline.arrivals for run in runs)
        else "Nothing came over links, so no broker was a pure forwarder.",
    )


def _links(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "links",
        "Links",
        "Which links carry most?",
        f"The {min(drawing.LINKS_MAX, max(len(run.links) for run in runs))} busiest links"
        + (
            ", both directions together."
            if len(runs) > 1
            else "; the two colours are the two directions, as the name of the link is written."
        ),
        drawing.links_plot(runs, names),
        [
            Table(
                _captioned("Busiest links", name),
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
                    for link in drawing.busiest_links(run)
                ],
            )
            for run, name in zip(runs, names, strict=True)
        ],
        empty="" if any(run.links for run in runs) else "This network has no links.",
    )


def _time(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "time",
        "Over time",
        "Was the run even, or did something change?",
        "Events a second in each period, and the delays of what was delivered in it. A step or "
        "a peak tells when to look closer; the lines of a calm run are flat.",
        drawing.time_plots(runs, names),
        [
            Table(
                _captioned("Periods", name),
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
            for run, name in zip(runs, names, strict=True)
        ],
        side_by_side=True,
        empty="" if any(run.periods for run in runs) else "Nothing happened in any period.",
    )


def _topics(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    shown, total = len(runs[0].topics), runs[0].topics_total
    return Section(
        "topics",
        "Topics",
        "What is published most?",
        f"The {shown} topics with the most publications of {count(total)}. Bars are rates over "
        "the whole run"
        + (
            "."
            if len(runs) > 1
            else "; a diamond is the smoothed rate at the end, and far from its bar when the "
            "topic has become busier or quieter."
        ),
        drawing.topics_plot(runs, names),
        [
            Table(
                _captioned("Topics", name),
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
            for run, name in zip(runs, names, strict=True)
        ],
        empty="" if any(run.topics for run in runs) else "Nothing was published.",
    )


def _publishers(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    shown, total = len(runs[0].publishers), runs[0].publishers_total
    return Section(
        "publishers",
        "Publishers",
        "Are publishers near their audience?",
        f"The {shown} publishers with the most deliveries of {count(total)}, a row each: the "
        "stronger a cell, the larger the share of the publisher's deliveries that happens at that "
        "broker. The ring is the broker it publishes at; a ring far from the strong cells is a "
        "publisher that would serve its audience better elsewhere.",
        drawing.audience_plots(runs, names),
        [
            Table(
                _captioned("Publishers", name),
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
            for run, name in zip(runs, names, strict=True)
        ],
        empty="" if any(run.publishers for run in runs) else "Nobody published.",
    )


def _interest(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    errors = [
        f"Bloom filters, as brokers exchange them, overstate it by {percent(error)}"
        + (f" in {name}" if name else "")
        + "."
        for run, name in zip(runs, names, strict=True)
        if (error := run.bloom_error_share) is not None
    ]
    return Section(
        "interest",
        "Common interest",
        "Which brokers want the same events?",
        "A cell counts the events wanted at both brokers, exactly. Strong cells far apart in the "
        "overlay are links worth having. " + " ".join(errors),
        drawing.interest_plots(runs, names),
        [
            Table(
                _captioned("Pairs with the most in common", name),
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
                ][:40],
            )
            for run, name in zip(runs, names, strict=True)
        ],
        side_by_side=True,
        empty=""
        if any(run.common_interest for run in runs)
        else "No event was wanted at two brokers.",
    )


def _moves(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    tables = []
    for run, name in zip(runs, names, strict=True):
        if not run.moves:
            continue
        tables.append(
            Table(
                _captioned("Moves by kind and outcome", name),
                ("kind", "outcome", "moves"),
                [(one.kind, one.outcome, count(one.moves)) for one in run.move_counts],
                text_columns=2,
                open=True,
            )
        )
        tables.append(
            Table(
                _captioned(f"The latest {len(run.moves)} moves, newest first", name),
                ("move", "kind", "decided at", "outcome", "reason", "when", "gain", "cost"),
                [
                    (
                        one.move,
                        one.kind,
                        one.broker,
                        one.outcome,
                        one.reason[:REASON_CHARACTERS_MAX],
                        f"{one.at_s:,.1f} s",
                        figure(one.gain),
                        figure(one.cost),
                    )
                    for one in run.moves
                ],
                text_columns=5,
                open=True,
            )
        )
    without = [name for run, name in zip(runs, names, strict=True) if not run.moves]
    if len(without) == len(runs):
        empty = "There were no moves: the network kept its shape for the whole run."
    else:
        empty = f"There were no moves in {without[0]}." if without else ""
    return Section(
        "moves",
        "Moves",
        "How did the network change itself, and why?",
        "A move relocates a publisher, a subscriber or a link. Each was proposed for a reason with "
        "a predicted gain and cost, and ended done, refused or rolled back.",
        [],
        tables,
        empty=empty,
    )


def _quarantined(runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    return Section(
        "quarantined",
        "Quarantined files",
        "Is anything missing from these figures?",
        "Trace files that could not be read were left out and everything else was counted.",
        [],
        [
            Table(
                _captioned("Files left out", name),
                ("file", "reason"),
                [(one.file, one.reason) for one in run.quarantined],
                text_columns=2,
                open=True,
            )
            for run, name in zip(runs, names, strict=True)
            if run.quarantined
        ],
        empty=""
        if any(run.quarantined for run in runs)
        else "No: every trace file was read, and none was quarantined.",
    )


def _facts(report: Report, runs: Sequence[RunFigures], names: Sequence[str]) -> Section:
    columns = [_run_facts(run) for run in runs]
    return Section(
        "facts",
        "Run",
        "What was measured?",
        "The run behind the numbers. Where only a sample of the events was traced, counts and "
        "rates are scaled up to all events; links count every event.",
        [],
        [
            Table(
                "Facts",
                ("", *(name or "this run" for name in names)),
                [
                    *((label, *(column[label] for column in columns)) for label in columns[0]),
                    ("report by Gravitate", *([report.gravitate_version] * len(runs))),
                ],
                text_columns=1 + len(runs),
                open=True,
            )
        ],
    )


def _run_facts(run: RunFigures) -> dict[str, str]:
    facts = run.facts
    return {
        "folder": facts.run,
        "network": facts.network,
        "brokers": count(facts.brokers),
        "primary links": count(facts.primary_links),
        "scenario": facts.scenario or ABSENT,
        "seed": ABSENT if facts.seed is None else str(facts.seed),
        "clock": "virtual (simulated)" if facts.clock == "virtual" else "Unix time (real brokers)",
        "observed": f"{facts.observed_s:,.1f} s",
        "sampled": "all events" if facts.sampling_rate == 1 else percent(facts.sampling_rate),
        "period": f"{figure(facts.period_s)} s",
        "traced by Gravitate": facts.gravitate_version or ABSENT,
        "rows": ", ".join(f"{count(rows)} {table}" for table, rows in facts.rows.items()) or ABSENT,
    }
