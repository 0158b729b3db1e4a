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


def _percentile(name: str, label: str, meaning: str) -> Metric:
    return Metric(name, label, "ms", "lower", meaning, PERCENTILE_TOLERANCE)


GROUPS: Final[dict[str, tuple[Metric, ...]]] = {
    "Traffic": (
        Metric("published", "events published", "", "", "taken in by brokers from publishers"),
        Metric("delivered", "deliveries", "", "", "one event handed to one subscriber"),
        Metric("published_rate_msgs_per_s", "publication rate", "/s", "", "over the whole run"),
        Metric("delivered_rate_msgs_per_s", "delivery rate", "/s", "", "over the whole run"),
    ),
    "Delays and hops": (
        Metric("delay_ms_mean", "delay, mean", "ms", "lower", "first broker to hand-over"),
        _percentile("delay_ms_p50", "delay, median", "half of the deliveries are as fast"),
        _percentile("delay_ms_p95", "delay, 95 %", "95 of 100 deliveries are as fast"),
        _percentile("delay_ms_p99", "delay, 99 %", "99 of 100 deliveries are as fast"),
        Metric("delay_ms_max", "delay, longest", "ms", "lower", "the slowest delivery"),
        Metric("hops_mean", "hops, mean", "", "lower", "links a delivered event came along"),
        Metric("hops_max", "hops, most", "", "lower", "of any delivery"),
    ),
    "Brokers": (
        Metric(
            "broker_rate_msgs_per_s_mean",
            "message rate, mean",
            "/s",
            "lower",
            "in and out of a broker, over links and to clients",
        ),
        Metric(
            "broker_rate_msgs_per_s_max",
            "message rate, most",
            "/s",
            "lower",
            "of the busiest broker",
        ),
        Metric("broker_input_msgs_per_s_max", "input, most", "/s", "lower", "of any broker"),
        Metric("broker_output_msgs_per_s_max", "output, most", "/s", "lower", "of any broker"),
        Metric(
            "input_utilisation_max",
            "input utilisation, most",
            "%",
            "lower",
            "time a broker is busy with what comes in; needs service times",
        ),
        Metric(
            "output_utilisation_max",
            "output utilisation, most",
            "%",
            "lower",
            "of what a broker's links can take; needs bandwidth limits",
        ),
        Metric(
            "load_balance_messages",
            "load balance, messages",
            "x",
            "lower",
            "the busiest broker's rate over the mean; 1 is even",
        ),
        Metric(
            "load_balance_factor",
            "load balance, subscribers",
            "x",
            "lower",
            "the most subscribers of a broker over the mean; 1 is even",
        ),
    ),
    "Waste": (
        Metric("arrivals", "arrivals", "", "lower", "events that came to a broker over a link"),
        Metric(
            "pure_forwarders",
            "pure forwarders",
            "",
            "lower",
            "arrivals that nobody at the broker wanted",
        ),
        Metric(
            "yield_share", "yield", "%", "higher", "share of arrivals that somebody there wanted"
        ),
    ),
    "Links": (
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
        Metric("bandwidth_bytes_per_s", "bandwidth", "B/s", "lower", "weight of events, all links"),
        Metric(
            "psoop_cost_per_publication",
            "PSOOP cost per event",
            "",
            "lower",
            "latencies (ms) of all links that an event crosses, summed",
        ),
    ),
    "Changes": (
        Metric(
            "control_overhead_share",
            "control overhead",
            "%",
            "lower",
            "control messages beside events; traces do not have them",
        ),
        Metric("moves_done", "moves done", "", "", "changes of the network, carried out"),
        Metric("moves_refused", "moves refused", "", "", "a broker did not agree"),
        Metric("moves_rolled_back", "moves rolled back", "", "lower", "begun and taken back"),
        Metric(
            "reconfiguration_cost",
            "reconfiguration cost",
            "",
            "lower",
            "predicted cost of the moves done",
        ),
        Metric("quarantined_files", "quarantined files", "", "lower", "traces not taken in"),
    ),
}
"""All metrics, by what they are about."""
METRICS: Final = tuple(metric for group in GROUPS.values() for metric in group)


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
