"""A network of three brokers and plans for it."""

from __future__ import annotations

from typing import Any

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.plan import Plan, plan_of
from gravitate.model.moves import Rationale, ReassignSubscriber, RelocatePublisher

LINE = Network(
    "line",
    (BrokerSpec("a"), BrokerSpec("b"), BrokerSpec("c")),
    (LinkSpec(("a", "b"), 10.0), LinkSpec(("b", "c"), 20.0, 1e6)),
)
WHY = Rationale("nearer", 5.0, 2.0, {"messages_before": 9.0, "messages_after": 4.0})


def relocation(publisher: str, *path: str) -> RelocatePublisher:
    return RelocatePublisher("", publisher, path[0], path[-1], WHY, path)


def reassignment(subscriber: str, *path: str) -> ReassignSubscriber:
    return ReassignSubscriber("", subscriber, path[0], path[-1], WHY, path)


def plan(*moves: Any, network: Network = LINE) -> Plan:
    return plan_of(
        kind="publishers",
        run="yesterday",
        network=network,
        parameters={"mechanism": "grape", "weight_percent": 100.0},
        moves=moves or (relocation("p", "a", "b", "c"), relocation("q", "c", "b")),
        recorded={"arrivals": 13.0},
        before={"arrivals": 13.0, "input_utilisation_mean": None},
        after={"arrivals": 8.0, "input_utilisation_mean": None},
    )
