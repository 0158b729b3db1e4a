"""Every metric of a network, from what its brokers and links carried: measured or modelled alike.

    figures = assessed("today", network, carried)
    figures.rows()                          the rows of `schemas.EVALUATIONS`

Definitions are those of `trace.metrics`; what is added here:

- *input utilisation* of a broker: the share of the time it is busy with events that come in, at
  its service time each; null without service times;
- *output utilisation* of a broker: what it sends over links of limited bandwidth, frames
  included, as a share of what they can take; null where nothing is limited;
- *bandwidth*: what all links carry, without frames;
- *load balance factor* (paper 4): the largest `m_i / (kappa_i m)` over the brokers, with `m_i` of
  the `m` subscribers on broker i and `kappa_i` its share of the capacity, equal unless given;
- *PSOOP cost* (paper 3): for every event the processing cost of each broker and the cost of each
  link that it passes, summed; null when an event passed a link whose cost is not known;
- *control overhead* and *reconfiguration cost*: null where nothing is known of them.

Owns the arithmetic. It knows neither Spark nor where figures come from; nothing here grows with
traffic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.config.network import Network
from gravitate.config.script import ServiceTimes
from gravitate.errors import InputError
from gravitate.plan.flow.flow import FRAME_BYTES, Tree, psoop_cost, rooted
from gravitate.trace import histogram

Floats = NDArray[np.float64]
Link = tuple[str, str]
Row = tuple[str, str, str, str, float | None]

SHARES: Final = (0.5, 0.95, 0.99)


class Terms(msgspec.Struct, frozen=True):
    """What figures are weighed with. Costs that are not given are milliseconds: a link costs its
    latency, a broker the service time of one event."""

    service: ServiceTimes = ServiceTimes()
    processing_costs: Mapping[str, float] | None = None
    """Of one event at a broker."""
    link_costs: Mapping[Link, float] | None = None
    """Of one event over a link; either order of its ends."""
    capacities: Mapping[str, float] | None = None
    """Of brokers for subscribers, in any unit."""

    @property
    def service_ms(self) -> float:
        """How long a broker is busy with an event that comes alone."""
        return self.service.batch_ms + self.service.input_ms + self.service.event_ms


class Carried(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a network did. Arrays are in the order of the network's brokers."""

    duration_s: float
    """What rates are taken over; 0: not known, which makes it 1."""
    in_links: Floats
    in_clients: Floats
    out_links: Floats
    out_clients: Floats
    useful: Floats
    links: Mapping[Link, tuple[float, float]]
    """Events and bytes sent from the first to the second."""
    hops: Mapping[int, float]
    """Deliveries by the number of links between publisher and subscriber."""
    delay_buckets: Floats
    """Deliveries by class of delay; see `trace.histogram`."""
    delay_s_sum: float
    delay_s_max: float
    subscribers: Mapping[str, int] | None = None
    """By broker."""
    reconfiguration_cost: float | None = None


class BrokerFigures(msgspec.Struct, frozen=True, kw_only=True):
    broker: str
    rate_msgs_per_s: float
    in_links: float
    in_clients: float
    out_links: float
    out_clients: float
    pure_forwarders: float
    yield_share: float
    input_utilisation: float | None
    output_utilisation: float | None
    subscribers: int | None


class LinkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a link."""

    broker: str
    peer: str
    events: float
    size_bytes: float
    rate_msgs_per_s: float
    bandwidth_bytes_per_s: float
    output_utilisation: float | None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Every metric; null where it does not apply or is not known."""

    evaluation: str
    forwarding: str
    duration_s: float
    published: float
    delivered: float
    delay_ms_mean: float
    delay_ms_p50: float
    delay_ms_p95: float
    delay_ms_p99: float
    delay_ms_max: float
    hops_mean: float
    hops_max: int
    arrivals: float
    pure_forwarders: float
    yield_share: float
    broker_rate_msgs_per_s_mean: float
    broker_rate_msgs_per_s_max: float
    input_utilisation_mean: float | None
    input_utilisation_max: float | None
    output_utilisation_mean: float | None
    output_utilisation_max: float | None
    bandwidth_bytes_per_s: float
    load_balance_factor: float | None
    psoop_cost: float | None
    psoop_cost_per_publication: float | None
    control_overhead_share: float | None
    reconfiguration_cost: float | None
    hops: Mapping[int, float] = {}
    """Deliveries by the number of links between publisher and subscriber."""
    brokers: tuple[BrokerFigures, ...] = ()
    links: tuple[LinkFigures, ...] = ()

    def metrics(self) -> dict[str, float | None]:
        """The figures of the network by name."""
        left_out = {"evaluation", "forwarding", "hops", "brokers", "links"}
        return {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in left_out
        }

    def rows(self) -> Iterator[Row]:
        """The rows of `schemas.EVALUATIONS`: network, then brokers, then links."""
        for metric, value in self.metrics().items():
            yield self.evaluation, "network", "", metric, _double(value)
        for broker in self.brokers:
            for metric, value in msgspec.structs.asdict(broker).items():
                if metric != "broker":
                    yield self.evaluation, "broker", broker.broker, metric, _double(value)
        for link in self.links:
            subject = f"{link.broker}>{link.peer}"
            for metric, value in msgspec.structs.asdict(link).items():
                if metric not in {"broker", "peer"}:
                    yield self.evaluation, "link", subject, metric, _double(value)


def tree_of(network: Network, service: ServiceTimes | None = None) -> Tree:
    """The primary overlay as the flow model has it; brokers in the network's order."""
    number = {broker.id: index for index, broker in enumerate(network.brokers)}
    return rooted(
        len(number),
        [(number[link.between[0]], number[link.between[1]]) for link in network.links],
        [link.latency_ms / 1000 for link in network.links],
        [link.bandwidth_bytes_per_s for link in network.links],
        Terms(service or ServiceTimes()).service_ms / 1000,
    )


def assessed(
    name: str,
    network: Network,
    carried: Carried,
    terms: Terms | None = None,
    forwarding: str | None = None,
) -> Evaluation:
    """Every metric of what a network carried, under the name `name`."""
    terms = terms or Terms()
    duration_s = carried.duration_s or 1.0
    delivered = float(sum(carried.hops.values()))
    per_delivery = 1.0 / delivered if delivered else 0.0
    p50, p95, p99 = histogram.percentiles_s(
        np.arange(len(carried.delay_buckets)), carried.delay_buckets, SHARES, carried.delay_s_max
    )
    arrivals = float(carried.in_links.sum())
    pure_forwarders = arrivals - float(carried.useful.sum())
    links = _links(network, carried, duration_s)
    brokers = _brokers(network, carried, links, terms, duration_s)
    published = float(carried.in_clients.sum())
    cost = _psoop_cost(network, carried, terms)
    rates = [broker.rate_msgs_per_s for broker in brokers]
    inputs = [broker.input_utilisation for broker in brokers]
    outputs = [broker.output_utilisation for broker in brokers]
    return Evaluation(
        evaluation=name,
        forwarding=forwarding or network.forwarding,
        duration_s=duration_s,
        published=published,
        delivered=delivered,
        delay_ms_mean=1000 * carried.delay_s_sum * per_delivery,
        delay_ms_p50=1000 * p50,
        delay_ms_p95=1000 * p95,
        delay_ms_p99=1000 * p99,
        delay_ms_max=1000 * carried.delay_s_max,
        hops_mean=sum(hops * count for hops, count in carried.hops.items()) * per_delivery,
        hops_max=max((hops for hops, count in carried.hops.items() if count), default=0),
        arrivals=arrivals,
        pure_forwarders=pure_forwarders,
        yield_share=(arrivals - pure_forwarders) / arrivals if arrivals else 1.0,
        broker_rate_msgs_per_s_mean=sum(rates) / len(rates),
        broker_rate_msgs_per_s_max=max(rates),
        input_utilisation_mean=_mean(inputs),
        input_utilisation_max=_max(inputs),
        output_utilisation_mean=_mean(outputs),
        output_utilisation_max=_max(outputs),
        bandwidth_bytes_per_s=sum(link.bandwidth_bytes_per_s for link in links),
        load_balance_factor=_load_balance_factor(network, carried, terms),
        psoop_cost=cost,
        psoop_cost_per_publication=None if cost is None or not published else cost / published,
        control_overhead_share=None,
        reconfiguration_cost=carried.reconfiguration_cost,
        hops={hops: count for hops, count in sorted(carried.hops.items()) if count},
        brokers=tuple(brokers),
        links=tuple(links),
    )


def check_duration(duration_s: float | None) -> None:
    """Refuse a time that no rates can be taken over."""
    if duration_s is not None and not 0 < duration_s < math.inf:
        raise InputError(f"a duration of {duration_s:g} s is not accepted: write a number above 0")


def _links(network: Network, carried: Carried, duration_s: float) -> list[LinkFigures]:
    """Both directions of every link of the network, and of those that were used beside them."""
    limits: dict[Link, float] = {}
    for link in network.links:
        limits[link.between] = limits[link.between[::-1]] = link.bandwidth_bytes_per_s
    found = []
    for one, other in sorted({*limits, *carried.links}):
        events, size_bytes = carried.links.get((one, other), (0.0, 0.0))
        limit = limits.get((one, other), 0.0)
        sent_bytes = size_bytes + FRAME_BYTES * events
        found.append(
            LinkFigures(
                broker=one,
                peer=other,
                events=events,
                size_bytes=size_bytes,
                rate_msgs_per_s=events / duration_s,
                bandwidth_bytes_per_s=size_bytes / duration_s,
                output_utilisation=sent_bytes / duration_s / limit if limit else None,
            )
        )
    return found


def _brokers(
    network: Network,
    carried: Carried,
    links: list[LinkFigures],
    terms: Terms,
    duration_s: float,
) -> list[BrokerFigures]:
    limit_bytes_per_s: dict[str, float] = defaultdict(float)
    for link in network.links:
        for end in link.between:
            limit_bytes_per_s[end] += link.bandwidth_bytes_per_s
    sent_bytes_per_s: dict[str, float] = defaultdict(float)
    for direction in links:
        if direction.output_utilisation is not None:
            frames = FRAME_BYTES * direction.rate_msgs_per_s
            sent_bytes_per_s[direction.broker] += direction.bandwidth_bytes_per_s + frames
    found = []
    for index, broker in enumerate(network.brokers):
        came = float(carried.in_links[index] + carried.in_clients[index])
        went = float(carried.out_links[index] + carried.out_clients[index])
        arrivals, useful = float(carried.in_links[index]), float(carried.useful[index])
        limit = limit_bytes_per_s[broker.id]
        found.append(
            BrokerFigures(
                broker=broker.id,
                rate_msgs_per_s=(came + went) / duration_s,
                in_links=arrivals,
                in_clients=float(carried.in_clients[index]),
                out_links=float(carried.out_links[index]),
                out_clients=float(carried.out_clients[index]),
                pure_forwarders=arrivals - useful,
                yield_share=useful / arrivals if arrivals else 1.0,
                input_utilisation=came / duration_s * terms.service_ms / 1000
                if terms.service_ms
                else None,
                output_utilisation=sent_bytes_per_s[broker.id] / limit if limit else None,
                subscribers=None
                if carried.subscribers is None
                else carried.subscribers.get(broker.id, 0),
            )
        )
    return found


def _load_balance_factor(network: Network, carried: Carried, terms: Terms) -> float | None:
    if carried.subscribers is None:
        return None
    count = sum(carried.subscribers.values())
    if not count:
        return None
    given = terms.capacities
    capacity = {b.id: 1.0 if given is None else given.get(b.id, 0.0) for b in network.brokers}
    total = sum(capacity.values())
    factors = [0.0]
    for broker, subscribers in carried.subscribers.items():
        share = capacity.get(broker, 0.0) / total if total else 0.0
        factors.append(subscribers / (share * count) if share else math.inf)
    return max(factors)


def _psoop_cost(network: Network, carried: Carried, terms: Terms) -> float | None:
    given = terms.link_costs
    link_costs: dict[Link, float] = {}
    for link in network.links:
        one, other = link.between
        cost = link.latency_ms
        if given is not None:
            cost = given.get((one, other), given.get((other, one), math.nan))
        link_costs[one, other] = link_costs[other, one] = cost
    p = terms.processing_costs
    total = psoop_cost(
        carried.in_links + carried.in_clients,
        [terms.service_ms if p is None else p.get(b.id, math.nan) for b in network.brokers],
        [events for events, _ in carried.links.values()],
        [link_costs.get(between, math.nan) for between in carried.links],
    )
    return None if math.isnan(total) else total


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _max(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _double(value: float | None) -> float | None:
    return None if value is None else float(value)
