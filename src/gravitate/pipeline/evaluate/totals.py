"""Totals of flows: added up task by task, sent to the driver as rows, put together there.

Owns the form in which partial totals travel, `part, position, value`, so that Spark can add them
without knowing what they are: every value is summed over tasks, but `delay_s_max`, whose maximum
counts. Their size is that of the network and of a histogram, never that of the traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from gravitate.config.network import Network
from gravitate.pipeline.evaluate.metrics import FLOWS, Carried
from gravitate.plan.flow.flow import COUNTERS, Flows, Loads, Reached, Tree
from gravitate.trace import histogram

SCHEMA: Final = "part string, position int, value double"
STATE_SCHEMA: Final = f"state string, {SCHEMA}"
"""Of several states of a network at once."""
HOPS: Final = "hops"
DELAYS: Final = "delays"
DELAY_SUM: Final = "delay_s_sum"
DELAY_MAX: Final = "delay_s_max"


class Totals:
    """What flows amount to on a tree of so many brokers."""

    def __init__(self, brokers: int) -> None:
        self.loads = Loads.none(brokers)
        self.hops: NDArray[np.float64] = np.zeros(max(1, brokers))
        """Deliveries by number of links; no path is longer than there are brokers."""
        self.delay_buckets: NDArray[np.float64] = np.zeros(histogram.BUCKETS)
        self.delay_s_sum = 0.0
        self.delay_s_max = 0.0

    def add(self, flows: Flows, loads: Loads, reached: Reached) -> None:
        """Take in what some flows gave."""
        self.loads = self.loads + loads
        deliveries = flows.deliveries()
        self.hops += np.bincount(reached.hops, deliveries, len(self.hops))
        buckets = histogram.bucket_of(reached.delay_s)
        self.delay_buckets += np.bincount(buckets, deliveries, histogram.BUCKETS)
        self.delay_s_sum += float(reached.delay_s @ deliveries)
        delivered = reached.delay_s[deliveries > 0]
        self.delay_s_max = max(self.delay_s_max, float(delivered.max(initial=0.0)))

    def rows(self) -> pa.RecordBatch:
        """All values that are not zero."""
        parts: list[str] = []
        positions: list[NDArray[np.int64]] = []
        values: list[NDArray[np.float64]] = []
        for part, array in self._arrays():
            kept = np.flatnonzero(array)
            parts += [part] * len(kept)
            positions.append(kept)
            values.append(array[kept])
        return pa.RecordBatch.from_pydict(
            {
                "part": pa.array(parts, pa.string()),
                "position": pa.array(np.concatenate(positions), pa.int32()),
                "value": pa.array(np.concatenate(values)),
            }
        )

    @classmethod
    def of(cls, brokers: int, rows: Iterable[tuple[str, int, float]]) -> Totals:
        """The totals that rows say, each part and position once."""
        totals = cls(brokers)
        arrays = dict(totals._arrays())
        for part, position, value in rows:
            arrays[part][position] = value
        totals.delay_s_sum = float(arrays[DELAY_SUM][0])
        totals.delay_s_max = float(arrays[DELAY_MAX][0])
        return totals

    def _arrays(self) -> list[tuple[str, NDArray[np.float64]]]:
        return [
            *((name, self.loads[name]) for name in COUNTERS),
            (HOPS, self.hops),
            (DELAYS, self.delay_buckets),
            (DELAY_SUM, np.array([self.delay_s_sum])),
            (DELAY_MAX, np.array([self.delay_s_max])),
        ]

    def links(self, tree: Tree, names: list[str]) -> dict[tuple[str, str], tuple[float, float]]:
        """Events and bytes of each direction of each link of the tree."""
        found = {}
        for child, parent in enumerate(tree.parent.tolist()):
            if parent >= 0:
                up, down = (names[child], names[parent]), (names[parent], names[child])
                for between, way in ((up, "up"), (down, "down")):
                    found[between] = (
                        float(self.loads[f"events_{way}"][child]),
                        float(self.loads[f"bytes_{way}"][child]),
                    )
        return found


def collected(rows: Any, states: Sequence[str], brokers: int) -> dict[str, Totals]:
    """Rows of `STATE_SCHEMA` from tasks, added up for each state; values of the size of the
    network come to the driver."""
    value = F.when(F.col("part") == DELAY_MAX, F.max("value")).otherwise(F.sum("value"))
    summed = rows.groupBy("state", "part", "position").agg(value.alias("value")).collect()
    return {
        state: Totals.of(brokers, ((row[1], row[2], row[3]) for row in summed if row[0] == state))
        for state in states
    }


def carried(
    totals: Totals,
    tree: Tree,
    brokers: Sequence[str],
    network: Network,
    *,
    duration_s: float,
    subscribers: Mapping[str, int] | None,
    cost: float | None,
    scale: float = 1.0,
) -> Carried:
    """Totals on a tree of `brokers` as what the network carried; each event of them stands for
    `scale` events, and moving costs `cost`."""
    position = {broker: at for at, broker in enumerate(brokers)}
    order = [position[broker.id] for broker in network.brokers]
    links = totals.links(tree, list(brokers))
    return Carried(
        duration_s=duration_s,
        **{name: totals.loads[name][order] * scale for name in (*FLOWS, "useful")},
        links={ends: (events * scale, size * scale) for ends, (events, size) in links.items()},
        hops={hops: count * scale for hops, count in enumerate(totals.hops.tolist()) if count},
        delay_buckets=totals.delay_buckets * scale,
        delay_s_sum=totals.delay_s_sum * scale,
        delay_s_max=totals.delay_s_max,
        subscribers=subscribers,
        reconfiguration_cost=cost,
    )
