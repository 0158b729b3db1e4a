"""What the metrics of a report mean, which direction is good, and how two runs differ.

One entry for every field of `figures.Headline`, in the order in which they are shown.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from gravitate.pipeline.report.figures import Difference, Facts, Headline

PERCENTILE_TOLERANCE: Final = 0.02
"""Percentiles come from delay classes 2 % wide; smaller differences are not told apart."""


class Metric(msgspec.Struct, frozen=True):
    name: str
    label: str
    unit: str
    better: Literal["lower", "higher", ""]
    meaning: str
    tolerance_share: float = 0.001
    """Relative changes up to this are no change."""


METRICS: Final[tuple[Metric, ...]] = (
    Metric("published", "events published", "", "", "taken in by the brokers from publishers"),
    Metric("delivered", "deliveries", "", "", "one event handed to one subscriber"),
    Metric("published_rate_msgs_per_s", "publication rate", "/s", "", "events published a second"),
    Metric("delivered_rate_msgs_per_s", "delivery rate", "/s", "", "deliveries a second"),
    Metric("delay_ms_mean", "delay, mean", "ms", "lower", "first broker to hand-over"),
    Metric(
        "delay_ms_p50",
        "delay, median",
        "ms",
        "lower",
        "half of the deliveries are as fast",
        PERCENTILE_TOLERANCE,
    ),
    Metric(
        "delay_ms_p95",
        "delay, 95 %",
        "ms",
        "lower",
        "95 of 100 deliveries are as fast",
        PERCENTILE_TOLERANCE,
    ),
    Metric(
        "delay_ms_p99",
        "delay, 99 %",
        "ms",
        "lower",
        "99 of 100 deliveries are as fast",
        PERCENTILE_TOLERANCE,
    ),
    Metric("delay_ms_max", "delay, longest", "ms", "lower", "the slowest delivery"),
    Metric("hops_mean", "hops, mean", "", "lower", "links a delivered event came along"),
    Metric("hops_max", "hops, most", "", "lower", "of any delivery"),
    Metric(
        "broker_rate_msgs_per_s_mean",
        "broker message rate, mean",
        "/s",
        "lower",
        "events in and out of a broker, over links and clients",
    ),
    Metric(
        "broker_rate_msgs_per_s_max",
        "broker message rate, most",
        "/s",
        "lower",
        "the same of the busiest broker",
    ),
    Metric(
        "broker_input_msgs_per_s_max",
        "broker input, most",
        "/s",
        "lower",
        "events in, at the broker with the most",
    ),
    Metric(
        "broker_output_msgs_per_s_max",
        "broker output, most",
        "/s",
        "lower",
        "events out, at the broker with the most",
    ),
    Metric("arrivals", "arrivals", "", "lower", "events that came to a broker over a link"),
    Metric(
        "pure_forwarders",
        "pure forwarders",
        "",
        "lower",
        "arrivals that nobody at the broker wanted",
    ),
    Metric("yield_share", "yield", "%", "higher", "share of arrivals that somebody there wanted"),
    Metric("link_events", "events over links", "", "lower", "all links, both directions"),
    Metric(
        "link_events_per_delivery",
        "events over links per delivery",
        "",
        "lower",
        "what a delivery costs the network",
    ),
    Metric(
        "link_rate_msgs_per_s_max",
        "link rate, most",
        "/s",
        "lower",
        "events over the busiest link, both directions",
    ),
    Metric("bandwidth_bytes_per_s", "bandwidth", "B/s", "lower", "weight of events over all links"),
    Metric(
        "link_latency_ms_per_event",
        "link latency per event",
        "ms",
        "lower",
        "latencies of all links that an event crosses, summed",
    ),
    Metric(
        "load_balance_messages",
        "load balance, messages",
        "x",
        "lower",
        "the busiest broker's message rate over the mean; 1 is even",
    ),
    Metric(
        "load_balance_subscribers",
        "load balance, subscribers",
        "x",
        "lower",
        "the most subscribers of a broker over the mean; 1 is even",
    ),
    Metric("moves_done", "moves done", "", "", "changes of the network that were carried out"),
    Metric("moves_refused", "moves refused", "", "", "moves that a broker did not agree to"),
    Metric("moves_rolled_back", "moves rolled back", "", "lower", "moves begun and taken back"),
    Metric("moves_cost", "cost of moves", "", "lower", "predicted cost of the moves done"),
    Metric("quarantined_files", "quarantined files", "", "lower", "trace files not taken in"),
)


def differences(first: Headline, second: Headline) -> tuple[Difference, ...]:
    """Every metric of two runs, with the change from the first to the second."""
    return tuple(
        difference(metric, getattr(first, metric.name), getattr(second, metric.name))
        for metric in METRICS
    )


def difference(metric: Metric, first: float | None, second: float | None) -> Difference:
    """One metric of two runs."""
    if first is None or second is None:
        return Difference(
            metric=metric.name,
            first=first,
            second=second,
            change=None,
            change_share=None,
            verdict="",
        )
    change = second - first
    verdict: Literal["better", "worse", "same", ""]
    if abs(change) <= metric.tolerance_share * abs(first):
        verdict = "same"
    elif not metric.better:
        verdict = ""
    else:
        verdict = "better" if (change < 0) == (metric.better == "lower") else "worse"
    return Difference(
        metric=metric.name,
        first=first,
        second=second,
        change=change,
        change_share=change / abs(first) if first else None,
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
