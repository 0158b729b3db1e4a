"""Where every publisher of a run should be: the choice of GRAPE or POP, for all at once.

    rows = choices(recorded(publications, profiles), overlay, PublisherOptions())
    moves = moves_of(rows.where("target <> source").collect(), overlay, PublisherOptions())

A task has some thousand publishers and chooses for all of them in one call of `plan.placement`,
with the bit vectors of the whole run as the trace session. What reaches the driver are moves.

Owns how recorded rows become profiles and choices become moves with their reasons. How far a
publisher is from a broker no trace tells, so every broker counts as next to it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.config.network import Network
from gravitate.config.planning import PublisherOptions
from gravitate.config.script import ServiceTimes
from gravitate.model.moves import Rationale, RelocatePublisher, moving_cost
from gravitate.overlay.tree import Neighbours, neighbours, path
from gravitate.pipeline.evaluate.metrics import tree_of
from gravitate.pipeline.planning.recorded import Audience, by_publisher, whole_publishers
from gravitate.plan.flow.flow import Tree
from gravitate.plan.placement import placement
from gravitate.plan.placement import placement_kernels as kernels
from gravitate.plan.placement.grape import GrapeParameters, Metric
from gravitate.plan.placement.placement import (
    Placements,
    best_brokers,
    closest_brokers,
    profiles_of,
)

CHOICES: Final = (
    "publisher string, source string, target string, published double, deliveries double, "
    "delay_s_before double, delay_s_after double, messages_before double, messages_after double"
)
"""Counts are of recorded events. Messages are what all brokers take in for this publisher."""


class Overlay(msgspec.Struct, frozen=True, eq=False):
    """The brokers of a network in the order of their ids, and its tree by their positions."""

    brokers: tuple[str, ...]
    tree: Tree

    @classmethod
    def of(
        cls,
        network: Network,
        service: ServiceTimes | None = None,
        latency_s: Mapping[frozenset[str], float] | None = None,
    ) -> Overlay:
        """`latency_s` are measured latencies of links; where there is none, the file's counts."""
        measured = latency_s or {}
        links = tuple(
            msgspec.structs.replace(link, latency_ms=1000 * measured[frozenset(link.between)])
            if frozenset(link.between) in measured
            else link
            for link in network.links
        )
        in_order = tuple(sorted(network.brokers, key=lambda broker: broker.id))
        ordered = msgspec.structs.replace(network, brokers=in_order, links=links)
        return cls(tuple(broker.id for broker in in_order), tree_of(ordered, service))

    def neighbours(self) -> Neighbours:
        """Who is linked to whom."""
        brokers, parent = self.brokers, self.tree.parent
        return neighbours(
            brokers, ((brokers[at], brokers[up]) for at, up in enumerate(parent) if up >= 0)
        )


# --- steps ----------------------------------------------------------------------------------------


def choices(rows: Any, overlay: Overlay, choice: PublisherOptions) -> Any:
    """`CHOICES` from `recorded` rows: every publisher, where it is and where it should be."""
    return by_publisher(rows).mapInArrow(
        functools.partial(_task, overlay, choice),
        CHOICES,
    )


def _task(
    overlay: Overlay, choice: PublisherOptions, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for rows in whole_publishers(batches):
        yield from chosen(Audience.of(rows, overlay.brokers), overlay, choice).to_batches()


def chosen(audience: Audience, overlay: Overlay, choice: PublisherOptions) -> pa.Table:
    """The choice for some publishers."""
    network = placement.network_of(overlay.tree)
    profiles = profiles_of(
        audience.source,
        audience.owner,
        audience.broker,
        audience.word,
        audience.bits,
        audience.deliveries,
    )
    if choice.mechanism == "pop":
        placed = _closest(network, profiles, choice.grape)
    else:
        placed = best_brokers(network, profiles, choice.grape)
    known = audience.published >= choice.at_least
    target = np.where(known, placed.target, audience.source)
    # Figures are told for the target: where a publisher stays, those of its own broker.
    moves = (target != audience.source).astype(np.int64)
    at = np.arange(len(audience))
    names = pa.array(overlay.brokers, pa.string())
    deliveries = np.bincount(audience.owner, audience.deliveries, len(audience))
    unwanted = audience.published - audience.heard()
    columns: dict[str, Any] = {
        "publisher": pa.array(audience.publishers, pa.string()),
        "source": names.take(pa.array(audience.source)),
        "target": names.take(pa.array(target)),
        "published": pa.array(audience.published),
        "deliveries": pa.array(deliveries),
        "delay_s_before": pa.array(placed.delay_s[0]),
        "delay_s_after": pa.array(placed.delay_s[moves, at]),
        # What nobody wants comes to the publisher's own broker wherever that is.
        "messages_before": pa.array(placed.messages[0] + unwanted),
        "messages_after": pa.array(placed.messages[moves, at] + unwanted),
    }
    return pa.table(columns)


def _closest(
    network: kernels.Network, profiles: kernels.Profiles, parameters: GrapeParameters
) -> Placements:
    """POP's choice with GRAPE's figures, which POP itself does not know."""
    closest = closest_brokers(network, profiles)
    here = best_brokers(network, profiles, parameters)
    there = best_brokers(network, profiles._replace(current=closest), parameters)
    return Placements(
        closest,
        closest,
        np.stack([here.delay_s[0], there.delay_s[0]]),
        np.stack([here.messages[0], there.messages[0]]),
    )


# --- at the driver --------------------------------------------------------------------------------


def moves_of(
    rows: Iterable[Any], overlay: Overlay, choice: PublisherOptions
) -> list[RelocatePublisher]:
    """Moves from rows of `CHOICES`, those that bring most first; ids are left to the plan."""
    near = overlay.neighbours()
    found = [
        (_saved(row, choice.grape.prioritised), move_of(row, near, choice))
        for row in rows
        if row["target"] != row["source"]
    ]
    return [move for _, move in sorted(found, key=lambda it: (-it[0], it[1].publisher))]


def move_of(row: Any, near: Neighbours, choice: PublisherOptions) -> RelocatePublisher:
    """One choice as a move. `gain` is by how much the prioritised metric falls (seconds of mean
    delay, or messages), `cost` the links along which the move has to be agreed."""
    way = path(near, row["source"], row["target"])
    assert way is not None, "a tree has a way between any two"
    before, after = _figures_of(row, choice.grape.prioritised)
    figures = {
        "publications": row["published"],
        "deliveries": row["deliveries"],
        "delay_s_before": row["delay_s_before"],
        "delay_s_after": row["delay_s_after"],
        "messages_before": row["messages_before"],
        "messages_after": row["messages_after"],
    }
    why = Rationale(
        reason=_reason(row, choice, figures),
        gain=before - after,
        cost=moving_cost(way),
        figures=figures,
    )
    return RelocatePublisher("", row["publisher"], row["source"], row["target"], why, tuple(way))


def _figures_of(row: Any, metric: Metric) -> tuple[float, float]:
    name = "delay_s" if metric == "delay" else "messages"
    return row[f"{name}_before"], row[f"{name}_after"]


def _saved(row: Any, metric: Metric) -> float:
    before, after = _figures_of(row, metric)
    weight = row["deliveries"] if metric == "delay" else 1.0
    return float((before - after) * weight)


def _reason(row: Any, choice: PublisherOptions, figures: Mapping[str, float]) -> str:
    if choice.mechanism == "pop":
        rule = f"POP: more than half of the audience is at or behind {row['target']}"
    else:
        grape = choice.grape
        rule = f"GRAPE ({grape.prioritised} {grape.weight_percent:g} %): {row['target']} is best"
    return (
        f"{rule}; over {figures['publications']:,.0f} publications brokers take in "
        f"{figures['messages_after']:,.0f} messages instead of "
        f"{figures['messages_before']:,.0f}, and the mean delay is "
        f"{1000 * figures['delay_s_after']:.3g} ms instead of "
        f"{1000 * figures['delay_s_before']:.3g} ms"
    )
