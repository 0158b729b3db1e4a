"""What brokers and links carry, and how much of it is wanted there.

Counted as `trace.metrics` counts: a row of `hops` is an event that came to a broker, over a link
unless it is the event's first; an arrival over a link is useful when a local session matched it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.pipeline.derive.grouping import Groups, codes, numbers, texts
from gravitate.pipeline.derive.scanning import Summary, together
from gravitate.pipeline.tables import schemas


def broker_load(summaries: Any) -> Any:
    """`schemas.BROKER_LOAD` from `BROKER_LOADS`."""
    return _summed(summaries, schemas.BROKER_LOAD.names, keys=2)


def yields(summaries: Any) -> Any:
    """`schemas.YIELD` from `YIELDS`; a broker that got nothing over links has no row."""
    return _summed(summaries, schemas.YIELD.names, keys=2)


def link_load(summaries: Any) -> Any:
    """`schemas.LINK_LOAD` from `LINK_LOADS`.

    A link row counts what was sent since the one before, in the period in which it was written."""
    return _summed(summaries, schemas.LINK_LOAD.names, keys=3)


def _summed(summaries: Any, names: list[str], keys: int) -> Any:
    sums = (F.sum(name).alias(name) for name in names[keys:])
    return together(summaries, "period").groupBy(*names[:keys]).agg(*sums).select(*names)


# --- in tasks -------------------------------------------------------------------------------------


def _broker_loads(rows: pa.Table) -> pa.Table:
    brokers, broker = codes(rows["broker"])
    groups = Groups(numbers(rows["period"]), broker)
    came = np.asarray(rows["came_from"].is_valid())
    return pa.table(
        {
            "period": groups.keys[0],
            "broker": texts(brokers, groups.keys[1]),
            "in_links": groups.counts(came),
            "in_clients": groups.counts(~came),
            "out_links": groups.int_sums(numbers(pc.list_value_length(rows["links"]))),
            "out_clients": groups.int_sums(numbers(rows["local_deliveries"])),
        }
    )


def _yields(rows: pa.Table) -> pa.Table:
    brokers, broker = codes(rows["broker"])
    groups = Groups(numbers(rows["period"]), broker)
    came = np.asarray(rows["came_from"].is_valid())
    arrivals = groups.counts(came)
    useful = groups.counts(came & (numbers(rows["local_deliveries"]) > 0))
    summary = pa.table(
        {
            "period": groups.keys[0],
            "broker": texts(brokers, groups.keys[1]),
            "arrivals": arrivals,
            "useful": useful,
            "pure_forwarders": arrivals - useful,
        }
    )
    return summary.filter(pa.array(arrivals > 0))


def _link_loads(rows: pa.Table) -> pa.Table:
    (brokers, broker), (peers, peer) = codes(rows["broker"]), codes(rows["peer"])
    groups = Groups(numbers(rows["period"]), broker, peer)
    measured = np.asarray(rows["rtt_s"].is_valid())
    return pa.table(
        {
            "period": groups.keys[0],
            "broker": texts(brokers, groups.keys[1]),
            "peer": texts(peers, groups.keys[2]),
            "events": groups.int_sums(numbers(rows["events"])),
            "size_bytes": groups.int_sums(numbers(rows["size_bytes"])),
            "rtt_s_sum": groups.sums(numbers(rows["rtt_s"].fill_null(0.0))),
            "rtt_count": groups.counts(measured),
        }
    )


BROKER_LOADS: Final = Summary(
    "hops",
    ("broker", "came_from", "local_deliveries", "links"),
    _broker_loads,
    "period int, broker string, in_links long, in_clients long, out_links long, out_clients long",
)
YIELDS: Final = Summary(
    "hops",
    ("broker", "came_from", "local_deliveries"),
    _yields,
    "period int, broker string, arrivals long, useful long, pure_forwarders long",
)
LINK_LOADS: Final = Summary(
    "links",
    ("broker", "peer", "events", "size_bytes", "rtt_s"),
    _link_loads,
    "period int, broker string, peer string, events long, size_bytes long, "
    "rtt_s_sum double, rtt_count long",
)
