"""Recorded events by who got them: what moving subscribers changes is computed from this.

    rows = audiences(publications, deliveries, numbered(spark, names))
    events = RecordedEvents(rows, overlay)
    events.gains(home, target).after

Brokers match by exact filters, and what they matched is in the traces: every delivery names its
session. So nothing is matched again, conditions on payloads count too, and an event goes wherever
its audience is moved to. Events with the same source and the same audience are one row.

Owns that table and what tasks compute from it: links crossed, and the totals of the flow model.
Nothing of the size of the traffic reaches the driver.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.overlay.strategies import S0, Forwarding
from gravitate.pipeline.evaluate.evaluation import flow_groups
from gravitate.pipeline.evaluate.totals import STATE_SCHEMA, Totals, collected
from gravitate.pipeline.planning.prediction import state_rows
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.planning.recorded import places, positions
from gravitate.plan.assignment.search.gains import Candidates, Gains
from gravitate.plan.flow.crossings import Floats, Ints, Wanted, crossings, flows_at
from gravitate.plan.flow.flow import Loads, Reached, flow, flows_of

_EVENT: Final = ("publisher", "incarnation", "counter")
_GAINS: Final = "subscriber int, alone double, joint double"
_SAVINGS: Final = "candidate int, broker int, saved double"
_TOTAL: Final = -1
"""Instead of a subscriber: links crossed by all events before (`alone`) and after (`joint`)."""


# --- steps ----------------------------------------------------------------------------------------


def numbered(spark: Any, names: list[str]) -> Any:
    """`session, number`: subscribers by their place in a list."""
    return spark.createDataFrame(
        pa.table(
            {
                "session": pa.array(names, pa.string()),
                "number": pa.array(np.arange(len(names)), pa.int32()),
            }
        )
    )


def audiences(publications: Any, deliveries: Any, numbers: Any, by_size: bool = False) -> Any:
    """`source, size_bytes, audience, events`: how many events had which audience, by numbers, as
    `evaluation.flow_groups` makes them."""
    got = (
        deliveries.select(*_EVENT, "session")
        .join(numbers, "session")
        .groupBy(*_EVENT)
        .agg(F.sort_array(F.collect_set("number")).alias("audience"))
    )
    nobody = F.array().cast("array<int>")
    sources = places(publications).select("publisher", "source")
    events = (
        publications.select(*_EVENT, "size_bytes")
        .join(got, list(_EVENT), "left")
        .join(sources, "publisher")
        .withColumn("audience", F.coalesce("audience", nobody))
    )
    return flow_groups(events, by_size)


class Served(msgspec.Struct, frozen=True, eq=False):
    """Where subscribers are served, by number."""

    home: Ints
    own_s: Floats | float = 0.0
    """How far each is from there: what brokers do not measure."""


def to_clients(state: str) -> str:
    """Under which name delays to clients go."""
    return f"{state}, to clients"


class RecordedEvents:
    """Rows of `audiences`, asked what subscribers elsewhere change: `plan.assignment.gains.Events`
    on Spark."""

    def __init__(self, rows: Any, overlay: Overlay) -> None:
        self._rows = rows
        self._overlay = overlay

    def gains(self, home: Ints, target: Ints) -> Gains:
        """What crosses links before and after, and what each move does alone and at last."""
        task = functools.partial(_gains, self._overlay, home, target)
        summed = (
            self._rows.mapInArrow(task, _GAINS)
            .groupBy("subscriber")
            .agg(F.sum("alone").alias("alone"), F.sum("joint").alias("joint"))
            .collect()
        )
        values = np.zeros((2, len(home) + 1))
        for row in summed:
            values[:, row["subscriber"]] = row["alone"], row["joint"]
        before, after = values[:, _TOTAL].tolist()
        return Gains(before, after, values[0, :-1], values[1, :-1])

    def savings(self, home: Ints, candidates: Candidates) -> Floats:
        """What each subscriber alone saves at each of its candidates."""
        task = functools.partial(_savings, self._overlay, home, candidates)
        summed = (
            self._rows.mapInArrow(task, _SAVINGS)
            .groupBy("candidate", "broker")
            .agg(F.sum("saved").alias("saved"))
            .toArrow()
        )
        found = np.zeros(candidates.table.shape)
        at = tuple(summed.column(name).to_numpy() for name in ("candidate", "broker"))
        found[at] = summed.column("saved").to_numpy()
        return found

    def totals(
        self, states: Mapping[str, Served], forwarding: Forwarding = S0
    ) -> dict[str, Totals]:
        """What the flows amount to in each state by its name; and by `to_clients` of that name
        the delays until clients have events, everything else left out."""
        task = functools.partial(_totals, self._overlay, dict(states), forwarding)
        found = self._rows.mapInArrow(task, STATE_SCHEMA)
        names = (*states, *map(to_clients, states))
        return collected(found, names, len(self._overlay.brokers))


# --- in a task ------------------------------------------------------------------------------------


def wanted_of(batch: pa.RecordBatch, overlay: Overlay) -> Wanted:
    """Rows of `audiences` as arrays."""
    rows = pa.Table.from_batches([batch])
    audience = batch.column("audience")
    lengths = pc.list_value_length(audience).to_numpy(zero_copy_only=False)
    known = pa.array(overlay.brokers, pa.string())
    return Wanted(
        source=positions(rows, "source", known).astype(np.int32),
        events=batch.column("events").to_numpy(zero_copy_only=False),
        size_bytes=batch.column("size_bytes").to_numpy(zero_copy_only=False),
        first=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        member=audience.flatten().to_numpy(zero_copy_only=False).astype(np.int64),
    )


def _gains(
    overlay: Overlay, home: Ints, target: Ints, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    alone, joint = np.zeros((2, len(home)))
    before = after = 0.0
    for batch in batches:
        wanted = wanted_of(batch, overlay)
        total, saved = crossings(overlay.tree, wanted, home, target)
        before, alone = before + total, alone + saved
        total, saved = crossings(overlay.tree, wanted, target, home)
        after, joint = after + total, joint - saved
    used = np.flatnonzero((alone != 0) | (joint != 0))
    yield pa.RecordBatch.from_pydict(
        {
            "subscriber": pa.array(np.concatenate(([_TOTAL], used)), pa.int32()),
            "alone": pa.array(np.concatenate(([before], alone[used]))),
            "joint": pa.array(np.concatenate(([after], joint[used]))),
        }
    )


def _savings(
    overlay: Overlay, home: Ints, candidates: Candidates, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    who = candidates.subscriber
    found = np.zeros(candidates.table.shape)
    for batch in batches:
        wanted = wanted_of(batch, overlay)
        for broker in range(len(overlay.brokers)):
            elsewhere = home.copy()
            elsewhere[who[candidates.table[:, broker]]] = broker
            found[:, broker] += crossings(overlay.tree, wanted, home, elsewhere)[1][who]
    candidate, at = np.nonzero(found)
    yield pa.RecordBatch.from_pydict(
        {
            "candidate": pa.array(candidate, pa.int32()),
            "broker": pa.array(at, pa.int32()),
            "saved": pa.array(found[candidate, at]),
        }
    )


def _totals(
    overlay: Overlay,
    states: Mapping[str, Served],
    forwarding: Forwarding,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    count = len(overlay.brokers)
    totals = {name: Totals(count) for state in states for name in (state, to_clients(state))}
    for batch in batches:
        wanted = wanted_of(batch, overlay)
        for state, served in states.items():
            flows, own = flows_at(wanted, served.home, count)
            loads, reached = flow(overlay.tree, flows, forwarding)
            totals[state].add(flows, loads, reached)
            own_s = np.broadcast_to(served.own_s, len(served.home))[wanted.member]
            late = Reached(reached.hops[own], reached.delay_s[own] + own_s)
            each = flows_of(wanted.source, wanted.first, flows.target[own], 1.0, wanted.events)
            totals[to_clients(state)].add(each, Loads.none(count), late)
    yield from state_rows(totals)
