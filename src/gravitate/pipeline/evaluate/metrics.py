"""Every metric of a network, from what its brokers and links carried: measured or modelled alike.

    figures = assessed("today", network, carried)
    figures.rows()                          the rows of `schemas.EVALUATIONS`

Owns what figures are told of (`Carried`) and weighed with (`Terms`). Which metrics there are and
what they mean says `registry`; it knows neither Spark nor where figures come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.config.network import Network
from gravitate.config.script import ServiceTimes
from gravitate.errors import InputError
from gravitate.pipeline.evaluate import registry
from gravitate.pipeline.evaluate.arithmetic import Seen
from gravitate.pipeline.evaluate.registry import Figures
from gravitate.plan.flow.flow import Tree, rooted

Floats = NDArray[np.float64]
Link = tuple[str, str]
Row = tuple[str, str, str, str, float | None]


FLOWS: Final = ("in_links", "in_clients", "out_links", "out_clients")
"""What goes in and out of a broker."""


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


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Every metric of a network, of its brokers and of its links."""

    evaluation: str
    forwarding: str
    metrics: Figures
    hops: dict[int, float]
    """Deliveries by links between publisher and subscriber."""
    brokers: dict[str, Figures]
    links: dict[Link, Figures]
    """Each direction of one."""

    def told(self) -> dict[str, object]:
        """What `--json` prints."""
        return {
            "evaluation": self.evaluation,
            "forwarding": self.forwarding,
            **self.metrics,
            "hops": self.hops,
            "brokers": [{"broker": one, **figures} for one, figures in self.brokers.items()],
            "links": [
                {"broker": broker, "peer": peer, **figures}
                for (broker, peer), figures in self.links.items()
            ],
        }

    def rows(self) -> Iterator[Row]:
        """The rows of `schemas.EVALUATIONS`: network, then brokers, then links."""
        subjects = [("network", "", self.metrics)]
        subjects += [("broker", broker, figures) for broker, figures in self.brokers.items()]
        subjects += [("link", ">".join(link), figures) for link, figures in self.links.items()]
        for scope, subject, figures in subjects:
            for name, value in figures.items():
                yield self.evaluation, scope, subject, name, None if value is None else float(value)


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
    seen = Seen(network, carried, terms or Terms())
    return Evaluation(
        evaluation=name,
        forwarding=forwarding or network.forwarding,
        metrics=registry.values(registry.NETWORK, seen),
        hops={hops: count for hops, count in sorted(carried.hops.items()) if count},
        brokers={
            broker.id: registry.values(registry.BROKER, seen, at)
            for at, broker in enumerate(network.brokers)
        },
        links={link: registry.values(registry.LINK, seen, link) for link in seen.links},
    )


def check_duration(duration_s: float | None) -> None:
    """Refuse a time that no rates can be taken over."""
    if duration_s is not None and not 0 < duration_s < math.inf:
        raise InputError(f"a duration of {duration_s:g} s is not accepted: write a number above 0")
