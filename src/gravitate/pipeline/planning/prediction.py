"""What recorded traffic would do to a network with some publishers elsewhere: every metric.

    before, after = predicted(recorded(...), places, network, overlay, frame)

The audience of every event is known from the run: the bit vectors say to which brokers it was
delivered. So an event is a flow from wherever its publisher is to the brokers that wanted it, and
the flow model (`plan.flow`) tells what that costs, before and after. Nothing is matched again, and
no workload is needed.

Owns how bit vectors become flows, and how totals of the sample become figures of the run. Where
several events share a word, the deliveries at a broker are spread evenly over them: sums are
exact. Events weigh what their publisher's weigh on average: delays over limited bandwidths are
those of such an event. What the model leaves out (queueing, control messages) it leaves out
before and after.
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

from gravitate.config.network import Network
from gravitate.overlay.strategies import S0, Forwarding
from gravitate.pipeline.evaluate.metrics import Evaluation, Terms, assessed
from gravitate.pipeline.evaluate.totals import STATE_SCHEMA, Totals, carried, collected
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.planning.recorded import Audience, Longs, by_publisher, whole_publishers
from gravitate.pipeline.tables.schemas import BITS_PER_WORD
from gravitate.plan.flow.flow import Flows, flow, flows_of

STATES: Final = ("before", "after")


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What figures are told for beside the flows."""

    duration_s: float
    sampling_rate: float = 1.0
    subscribers: Mapping[str, int] | None = None
    """By broker."""
    terms: Terms = Terms()


def predicted(
    rows: Any, moved: Any, network: Network, overlay: Overlay, frame: Frame, cost: float = 0.0
) -> tuple[Evaluation, Evaluation]:
    """The metrics as publishers are and with those of `moved` (`publisher, target`) where they
    go, for the traffic in `recorded` rows; `cost` is that of moving."""
    totals = totals_of(rows, moved, overlay, network.forwarding)
    before, after = (
        evaluated(state, totals[state], network, overlay, frame, spent)
        for state, spent in zip(STATES, (0.0, cost), strict=True)
    )
    return before, after


def evaluated(
    name: str, totals: Totals, network: Network, overlay: Overlay, frame: Frame, cost: float = 0.0
) -> Evaluation:
    """Every metric of what flows amount to; `cost` is that of moving."""
    found = carried(
        totals,
        overlay.tree,
        overlay.brokers,
        network,
        duration_s=frame.duration_s,
        subscribers=frame.subscribers,
        cost=cost,
        scale=1.0 / frame.sampling_rate if frame.sampling_rate > 0 else 1.0,
    )
    return assessed(name, network, found, frame.terms)


def totals_of(
    rows: Any, moved: Any, overlay: Overlay, forwarding: Forwarding = S0
) -> dict[str, Totals]:
    """What the flows amount to in each state; collects values of the size of the network."""
    goes = rows.join(F.broadcast(moved.select("publisher", "target")), "publisher", "left")
    task = functools.partial(_task, overlay, forwarding)
    found = by_publisher(goes).mapInArrow(task, STATE_SCHEMA)
    return collected(found, STATES, len(overlay.brokers))


def _task(
    overlay: Overlay, forwarding: Forwarding, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    totals = {state: Totals(len(overlay.brokers)) for state in STATES}
    for rows in whole_publishers(batches):
        audience = Audience.of(rows, overlay.brokers)
        sources = {"before": audience.source, "after": _targets(rows, audience, overlay)}
        flows, owner = flows_from(audience)
        for state, source in sources.items():
            placed = msgspec.structs.replace(flows, source=source[owner].astype(np.int32))
            totals[state].add(placed, *flow(overlay.tree, placed, forwarding))
    yield from state_rows(totals)


def state_rows(totals: Mapping[str, Totals]) -> Iterator[pa.RecordBatch]:
    """What a task found for each state, as rows of `STATE_SCHEMA`."""
    for state, total in totals.items():
        part = total.rows()
        yield pa.RecordBatch.from_arrays(
            [pa.array([state] * part.num_rows, pa.string()), *part.columns],
            names=["state", *part.schema.names],
        )


def _targets(rows: pa.Table, audience: Audience, overlay: Overlay) -> Longs:
    """Where publishers are after the moves."""
    known = pa.array(overlay.brokers, pa.string())
    targets = pc.coalesce(rows.column("target"), rows.column("source"))
    places = dict(zip(rows.column("publisher").to_pylist(), targets.to_pylist(), strict=True))
    names = pa.array([places[publisher] for publisher in audience.publishers], pa.string())
    found: Longs = pc.index_in(names, value_set=known).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def flows_from(audience: Audience) -> tuple[Flows, Longs]:
    """The events of some publishers as flows, and whose each flow is.

    An event that somebody wanted is a flow of its own; those of a publisher that nobody wanted
    are one flow without targets."""
    group = np.cumsum(audience.starts_word()) - 1
    octets = audience.bits.astype("<u8").view(np.uint8).reshape(len(audience.bits), 8)
    row, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    event = group[row] * BITS_PER_WORD + bit
    by_event = np.argsort(event, kind="stable")
    row, event = row[by_event], event[by_event]
    starts = np.flatnonzero(np.diff(event, prepend=-1))
    sessions = audience.deliveries / np.maximum(np.bitwise_count(audience.bits), 1)
    wanted_of = audience.owner[row[starts]]
    wanted = np.bincount(wanted_of, minlength=len(audience))
    unwanted = np.maximum(audience.published - wanted, 0.0)
    silent = np.flatnonzero(unwanted)
    whose = np.concatenate((wanted_of, silent)).astype(np.int64)
    ends = np.full(len(silent) + 1, len(row))
    flows = flows_of(
        audience.source[whose],
        np.concatenate((starts, ends)),
        audience.broker[row],
        sessions[row],
        np.concatenate((np.ones(len(starts)), unwanted[silent])),
        audience.size_bytes[whose],
    )
    return flows, whose
