"""Every metric there is, once: what it is called, what it means, which direction is better, where
it comes from, and its arithmetic.

A new metric is an entry here and a function in `arithmetic`. Whatever shows, compares or stores
metrics reads the entries: `gravitate evaluate`, `plan`, `verify` and `report`, the tables of
evaluations, and the list in `docs/flow-model.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from gravitate.pipeline.evaluate import arithmetic as of
from gravitate.pipeline.evaluate.arithmetic import SHARES, Seen, Value

Better = Literal["lower", "higher", ""]
Figures = dict[str, Value]
"""By name of the metric; None where it does not apply or is not known."""

PERCENTILE_TOLERANCE: Final = 0.02
"""Percentiles come from delay classes 2 % wide; smaller differences are not told apart."""


class Metric(msgspec.Struct, frozen=True):
    name: str
    """Unit last; what files and `--json` have."""
    group: str
    """What it is about."""
    label: str
    """What a report calls it."""
    unit: str
    better: Better
    """Empty: neither direction is."""
    meaning: str
    source: str
    """Which table of a run it is from; of a model it is from the flows."""
    value: Callable[..., Value]
    """Of the network: takes what was `Seen`. Of a broker or a link: that, and which one."""
    words: str = ""
    """What tables of commands call it where the name alone would mislead."""
    told_by: Literal["all", "evaluate", "report"] = "all"
    """Who tells it: evaluations (and the plans made with them), the report of a run, or both."""
    rate: str = ""
    """What it is called by the second; only of what grows with the time observed."""
    of_deliveries: bool = False
    """It says nothing when nothing was delivered."""
    tolerance_share: float = 0.001
    """Relative changes up to this are no change."""

    @property
    def in_words(self) -> str:
        return self.words or self.name.replace("_", " ")


def _percentile(at: int, label: str, meaning: str) -> Metric:
    return Metric(
        f"delay_ms_p{100 * SHARES[at]:.0f}",
        *("Delays and hops", label, "ms", "lower", meaning, "delays"),
        value=lambda seen: seen.percentiles_ms[at],
        of_deliveries=True,
        tolerance_share=PERCENTILE_TOLERANCE,
    )


_TRAFFIC, _DELAYS, _BROKERS = "Traffic", "Delays and hops", "Brokers"
_WASTE, _LINKS, _CHANGES = "Waste", "Links", "Changes"

# fmt: off
METRICS: Final = (
    Metric("duration_s", _TRAFFIC, "time", "s", "", "what rates are taken over",
           "publications, deliveries", lambda seen: seen.duration_s, told_by="evaluate"),
    Metric("published", _TRAFFIC, "events published", "", "", "taken in by brokers from publishers",
           "broker_load", lambda seen: seen.published, rate="published_rate_msgs_per_s"),
    Metric("delivered", _TRAFFIC, "deliveries", "", "", "one event handed to one subscriber",
           "delays", lambda seen: seen.delivered, rate="delivered_rate_msgs_per_s"),
    Metric("published_rate_msgs_per_s", _TRAFFIC, "publication rate", "/s", "",
           "over the whole run", "broker_load", lambda seen: seen.published / seen.duration_s,
           told_by="report"),
    Metric("delivered_rate_msgs_per_s", _TRAFFIC, "delivery rate", "/s", "",
           "over the whole run", "delays", lambda seen: seen.delivered / seen.duration_s,
           told_by="report"),
    Metric("delay_ms_mean", _DELAYS, "delay, mean", "ms", "lower", "first broker to hand-over",
           "delays", lambda seen: seen.a_delivery(1000 * seen.carried.delay_s_sum),
           of_deliveries=True),
    _percentile(0, "delay, median", "half of the deliveries are as fast"),
    _percentile(1, "delay, 95 %", "95 of 100 deliveries are as fast"),
    _percentile(2, "delay, 99 %", "99 of 100 deliveries are as fast"),
    Metric("delay_ms_max", _DELAYS, "delay, longest", "ms", "lower", "the slowest delivery",
           "delays", lambda seen: 1000 * seen.carried.delay_s_max, of_deliveries=True),
    Metric("hops_mean", _DELAYS, "hops, mean", "", "lower", "links a delivered event came along",
           "delays", of.hops_mean, of_deliveries=True),
    Metric("hops_max", _DELAYS, "hops, most", "", "lower", "of any delivery",
           "delays", of.hops_max, of_deliveries=True),
    Metric("arrivals", _WASTE, "arrivals", "", "lower", "events that came to a broker over a link",
           "yield", lambda seen: seen.arrivals, rate="arrivals_rate_msgs_per_s"),
    Metric("pure_forwarders", _WASTE, "pure forwarders", "", "lower",
           "arrivals that nobody at the broker wanted", "yield",
           lambda seen: seen.arrivals - seen.useful, rate="pure_forwarders_rate_msgs_per_s"),
    Metric("yield_share", _WASTE, "yield", "%", "higher",
           "share of arrivals that somebody there wanted", "yield",
           lambda seen: seen.useful / seen.arrivals if seen.arrivals else 1.0),
    Metric("broker_rate_msgs_per_s_mean", _BROKERS, "message rate, mean", "/s", "lower",
           "in and out of a broker, over links and to clients", "broker_load",
           lambda seen: of.mean(seen.of_brokers(of.rate))),
    Metric("broker_rate_msgs_per_s_max", _BROKERS, "message rate, most", "/s", "lower",
           "of the busiest broker", "broker_load", lambda seen: of.most(seen.of_brokers(of.rate))),
    Metric("broker_input_msgs_per_s_max", _BROKERS, "input, most", "/s", "lower", "of any broker",
           "broker_load", lambda seen: of.most_a_second(seen.input, seen), told_by="report"),
    Metric("broker_output_msgs_per_s_max", _BROKERS, "output, most", "/s", "lower",
           "of any broker", "broker_load", lambda seen: of.most_a_second(seen.output, seen),
           told_by="report"),
    Metric("input_utilisation_mean", _BROKERS, "input utilisation, mean", "%", "lower",
           "time brokers are busy with what comes in; needs service times", "broker_load",
           lambda seen: of.mean(seen.of_brokers(of.input_utilisation)), told_by="evaluate"),
    Metric("input_utilisation_max", _BROKERS, "input utilisation, most", "%", "lower",
           "time a broker is busy with what comes in; needs service times", "broker_load",
           lambda seen: of.most(seen.of_brokers(of.input_utilisation))),
    Metric("output_utilisation_mean", _BROKERS, "output utilisation, mean", "%", "lower",
           "of what brokers' links can take, frames included; needs bandwidth limits", "link_load",
           lambda seen: of.mean(seen.of_brokers(of.output_utilisation)), told_by="evaluate"),
    Metric("output_utilisation_max", _BROKERS, "output utilisation, most", "%", "lower",
           "of what a broker's links can take; needs bandwidth limits", "link_load",
           lambda seen: of.most(seen.of_brokers(of.output_utilisation))),
    Metric("link_events", _LINKS, "events over links", "", "lower", "all links, both directions",
           "link_load", of.link_events, told_by="report"),
    Metric("link_events_per_delivery", _LINKS, "events over links per delivery", "", "lower",
           "what a delivery costs the network", "link_load",
           lambda seen: seen.a_delivery(of.link_events(seen)), told_by="report",
           of_deliveries=True),
    Metric("link_rate_msgs_per_s_max", _LINKS, "link rate, most", "/s", "lower",
           "events over the busiest link, both directions", "link_load", of.link_rate_max,
           told_by="report"),
    Metric("bandwidth_bytes_per_s", _LINKS, "bandwidth", "B/s", "lower",
           "weight of events, all links", "link_load", of.bandwidth),
    Metric("load_balance_messages", _BROKERS, "load balance, messages", "x", "lower",
           "the busiest broker's rate over the mean; 1 is even", "broker_load",
           of.load_balance_messages, told_by="report"),
    Metric("load_balance_factor", _BROKERS, "load balance, subscribers", "x", "lower",
           "the most subscribers of a broker over its share; 1 is even", "subscriptions",
           of.load_balance_factor,
           words="most subscribers of a broker over its share (1 is even, lower is better)"),
    Metric("psoop_cost", _LINKS, "PSOOP cost", "", "lower",
           "costs of all brokers and links that events pass, summed", "link_load",
           of.whole_psoop_cost, told_by="evaluate", rate="psoop_cost_per_s"),
    Metric("psoop_cost_per_publication", _LINKS, "PSOOP cost per event", "", "lower",
           "latencies (ms) of all links that an event crosses, summed", "link_load",
           of.psoop_cost_each),
    Metric("control_overhead_share", _CHANGES, "control overhead", "%", "lower",
           "control messages beside events; traces do not have them", "", lambda seen: None),
    Metric("moves_done", _CHANGES, "moves done", "", "", "changes of the network, carried out",
           "moves", of.ended("done"), told_by="report"),
    Metric("moves_refused", _CHANGES, "moves refused", "", "", "a broker did not agree",
           "moves", of.ended("refused"), told_by="report"),
    Metric("moves_rolled_back", _CHANGES, "moves rolled back", "", "lower", "begun and taken back",
           "moves", of.ended("rolled back"), told_by="report"),
    Metric("reconfiguration_cost", _CHANGES, "reconfiguration cost", "", "lower",
           "predicted cost of the moves done", "moves",
           lambda seen: seen.carried.reconfiguration_cost),
    Metric("quarantined_files", _CHANGES, "quarantined files", "", "lower", "traces not taken in",
           "", lambda seen: seen.run.quarantined_files, told_by="report"),
)
"""Of the network, in the order in which they are told."""

BROKER: Final = (
    Metric("rate_msgs_per_s", _BROKERS, "msgs/s", "/s", "lower", "in and out, links and clients",
           "broker_load", of.rate),
    Metric("in_links", _BROKERS, "", "", "lower", "events that came over links", "broker_load",
           lambda seen, at: float(seen.carried.in_links[at])),
    Metric("in_clients", _BROKERS, "", "", "", "events of its publishers", "broker_load",
           lambda seen, at: float(seen.carried.in_clients[at])),
    Metric("out_links", _BROKERS, "", "", "lower", "events sent over links", "broker_load",
           lambda seen, at: float(seen.carried.out_links[at])),
    Metric("out_clients", _BROKERS, "", "", "", "events handed to its subscribers", "broker_load",
           lambda seen, at: float(seen.carried.out_clients[at])),
    Metric("pure_forwarders", _WASTE, "pure forwarders", "", "lower", "arrivals nobody here wanted",
           "yield", lambda seen, at: float(seen.carried.in_links[at] - seen.carried.useful[at])),
    Metric("yield_share", _WASTE, "yield", "%", "higher", "arrivals somebody here wanted",
           "yield", of.broker_yield),
    Metric("input_utilisation", _BROKERS, "", "%", "lower", "time it is busy with what comes in",
           "broker_load", of.input_utilisation),
    Metric("output_utilisation", _BROKERS, "", "%", "lower", "of what its links can take",
           "link_load", of.output_utilisation),
    Metric("subscribers", _BROKERS, "subscribers", "", "", "its clients with a subscription",
           "subscriptions", of.subscribers),
)
"""Of one broker, which is told by its position; those with a label are in tables of commands."""

LINK: Final = (
    Metric("events", _LINKS, "", "", "lower", "sent this way", "link_load",
           lambda seen, link: seen.links[link][0]),
    Metric("size_bytes", _LINKS, "", "B", "lower", "their weight, without frames", "link_load",
           lambda seen, link: seen.links[link][1]),
    Metric("rate_msgs_per_s", _LINKS, "", "/s", "lower", "events by the second", "link_load",
           lambda seen, link: seen.links[link][0] / seen.duration_s),
    Metric("bandwidth_bytes_per_s", _LINKS, "", "B/s", "lower", "weight by the second", "link_load",
           lambda seen, link: seen.links[link][1] / seen.duration_s),
    Metric("output_utilisation", _LINKS, "", "%", "lower", "of what it can take, frames included",
           "link_load", of.link_utilisation),
)
"""Of one direction of a link."""
# fmt: on

NETWORK: Final = tuple(metric for metric in METRICS if metric.told_by != "report")
"""What evaluations have."""
GROUPS: Final[dict[str, tuple[Metric, ...]]] = {
    group: tuple(m for m in METRICS if m.group == group and m.told_by != "evaluate")
    for group in (_TRAFFIC, _DELAYS, _BROKERS, _WASTE, _LINKS, _CHANGES)
}
"""What a report tells, by what it is about."""
REPORTED: Final = tuple(metric for group in GROUPS.values() for metric in group)
NAMED: Final = {metric.name: metric for metric in METRICS}


def values(metrics: Iterable[Metric], seen: Seen, *which: object) -> Figures:
    """The metrics of a network; with `which` those of one broker or link."""
    return {metric.name: metric.value(seen, *which) for metric in metrics}


def reported(seen: Seen) -> Figures:
    """What a report tells of a run."""
    return {
        metric.name: None if metric.of_deliveries and not seen.delivered else metric.value(seen)
        for metric in REPORTED
    }
