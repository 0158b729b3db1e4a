"""What metrics are computed from, and how: the arithmetic of `registry`.

Definitions of what is counted are those of `trace.metrics`. A value is None where it does not
apply or is not known. It knows neither Spark nor where figures come from, measured or modelled
alike; nothing here grows with traffic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from gravitate.plan.flow.flow import FRAME_BYTES, psoop_cost
from gravitate.trace import histogram

if TYPE_CHECKING:
    from gravitate.config.network import Network
    from gravitate.pipeline.evaluate.metrics import Carried, Link, Terms

Value = float | None

SHARES: Final = (0.5, 0.95, 0.99)


class Run(msgspec.Struct, frozen=True):
    """What only a run has beside what it carried."""

    moves: Mapping[str, int] = {}
    """By how they ended."""
    quarantined_files: int = 0


class Seen:
    """What metrics are computed from: what a network carried, and what several of them need."""

    def __init__(
        self, network: Network, carried: Carried, terms: Terms, run: Run | None = None
    ) -> None:
        self.network, self.carried, self.terms, self.run = network, carried, terms, run or Run()
        self.duration_s = carried.duration_s or 1.0
        self.delivered = float(sum(carried.hops.values()))
        self.published = float(carried.in_clients.sum())
        self.arrivals = float(carried.in_links.sum())
        self.useful = float(carried.useful.sum())
        self.input = carried.in_links + carried.in_clients
        self.output = carried.out_links + carried.out_clients

    def a_delivery(self, total: float) -> float:
        return total / self.delivered if self.delivered else 0.0

    @cached_property
    def percentiles_ms(self) -> tuple[float, ...]:
        buckets, longest_s = self.carried.delay_buckets, self.carried.delay_s_max
        found = histogram.percentiles_s(np.arange(len(buckets)), buckets, SHARES, longest_s)
        return tuple(1000 * delay_s for delay_s in found)

    @cached_property
    def limits(self) -> dict[Link, float]:
        """What each direction of a link of the network can take, in bytes a second; 0: anything."""
        found = {}
        for link in self.network.links:
            found[link.between] = found[link.between[::-1]] = link.bandwidth_bytes_per_s
        return found

    @cached_property
    def links(self) -> dict[Link, tuple[float, float]]:
        """Events and bytes over both directions of every link of the network, and of those that
        were used beside them."""
        carried = self.carried.links
        return {link: carried.get(link, (0.0, 0.0)) for link in sorted({*self.limits, *carried})}

    def link_sent_bytes_per_s(self, link: Link) -> float:
        events, size_bytes = self.links[link]
        return (size_bytes + FRAME_BYTES * events) / self.duration_s

    @cached_property
    def outputs(self) -> dict[str, tuple[float, float]]:
        """What each broker sends over its limited links, and what these can take."""
        found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for link, limit in self.limits.items():
            if limit:
                sent, most = found[link[0]]
                found[link[0]] = (sent + self.link_sent_bytes_per_s(link), most + limit)
        return dict(found)

    def of_brokers(self, value: Callable[[Seen, int], Value]) -> list[float]:
        """A metric of all brokers, where it is known."""
        found = (value(self, at) for at in range(len(self.network.brokers)))
        return [one for one in found if one is not None]


# --- arithmetic of brokers and links --------------------------------------------------------------


def rate(seen: Seen, at: int) -> float:
    return float(seen.input[at] + seen.output[at]) / seen.duration_s


def input_utilisation(seen: Seen, at: int) -> Value:
    """The share of the time a broker is busy with events that come in, at its service time each."""
    service_s = seen.terms.service_ms / 1000
    return float(seen.input[at]) / seen.duration_s * service_s if service_s else None


def output_utilisation(seen: Seen, at: int) -> Value:
    """What a broker sends over links of limited bandwidth, as a share of what they can take."""
    sent, limit = seen.outputs.get(seen.network.brokers[at].id, (0.0, 0.0))
    return sent / limit if limit else None


def broker_yield(seen: Seen, at: int) -> float:
    arrivals = float(seen.carried.in_links[at])
    return float(seen.carried.useful[at]) / arrivals if arrivals else 1.0


def subscribers(seen: Seen, at: int) -> Value:
    held = seen.carried.subscribers
    return None if held is None else held.get(seen.network.brokers[at].id, 0)


def link_utilisation(seen: Seen, link: Link) -> Value:
    limit = seen.limits.get(link, 0.0)
    return seen.link_sent_bytes_per_s(link) / limit if limit else None


# --- arithmetic of the network --------------------------------------------------------------------


def hops_mean(seen: Seen) -> float:
    return seen.a_delivery(sum(hops * count for hops, count in seen.carried.hops.items()))


def hops_max(seen: Seen) -> int:
    return max((hops for hops, count in seen.carried.hops.items() if count), default=0)


def mean(values: list[float]) -> Value:
    return sum(values) / len(values) if values else None


def most(values: Iterable[float]) -> Value:
    return max(values, default=None)


def most_a_second(events: Any, seen: Seen) -> float:
    return float(events.max()) / seen.duration_s


def load_balance_messages(seen: Seen) -> Value:
    rates = seen.of_brokers(rate)
    return max(rates) * len(rates) / sum(rates) if sum(rates) else None


def load_balance_factor(seen: Seen) -> Value:
    """The largest `m_i / (kappa_i m)` over the brokers, with `m_i` of the `m` subscribers on
    broker i and `kappa_i` its share of the capacity, equal unless given (paper 4)."""
    held = seen.carried.subscribers
    count = sum(held.values()) if held else 0
    if not held or not count:
        return None
    given = seen.terms.capacities
    capacity = {b.id: 1.0 if given is None else given.get(b.id, 0.0) for b in seen.network.brokers}
    total = sum(capacity.values())
    factors = [0.0]
    for broker, subscribers in held.items():
        share = capacity.get(broker, 0.0) / total if total else 0.0
        factors.append(subscribers / (share * count) if share else math.inf)
    return max(factors)


def link_events(seen: Seen) -> float:
    return sum(events for events, _ in seen.links.values())


def link_rate_max(seen: Seen) -> float:
    both: dict[frozenset[str], float] = defaultdict(float)
    for link, (events, _) in seen.links.items():
        both[frozenset(link)] += events
    return max(both.values(), default=0.0) / seen.duration_s


def bandwidth(seen: Seen) -> float:
    return sum(size_bytes / seen.duration_s for _, size_bytes in seen.links.values())


def whole_psoop_cost(seen: Seen) -> Value:
    """For every event the processing cost of each broker and the cost of each link that it passes,
    summed; None when an event passed a link whose cost is not known (paper 3)."""
    given = seen.terms.link_costs
    link_costs: dict[Link, float] = {}
    for link in seen.network.links:
        one, other = link.between
        cost = link.latency_ms
        if given is not None:
            cost = given.get((one, other), given.get((other, one), math.nan))
        link_costs[one, other] = link_costs[other, one] = cost
    p, service_ms = seen.terms.processing_costs, seen.terms.service_ms
    total = psoop_cost(
        seen.input,
        [service_ms if p is None else p.get(b.id, math.nan) for b in seen.network.brokers],
        [events for events, _ in seen.carried.links.values()],
        [link_costs.get(between, math.nan) for between in seen.carried.links],
    )
    return None if math.isnan(total) else total


def psoop_cost_each(seen: Seen) -> Value:
    cost = whole_psoop_cost(seen)
    return None if cost is None or not seen.published else cost / seen.published


def ended(outcome: str) -> Callable[[Seen], int]:
    return lambda seen: seen.run.moves.get(outcome, 0)
