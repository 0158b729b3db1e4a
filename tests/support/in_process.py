"""What tasks of an evaluation do, in this process and without Spark, for small tables of a workload
that have all clients placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gravitate.config.network import Network
from gravitate.pipeline.evaluate.evaluation import added_up
from gravitate.pipeline.evaluate.matches import EVENT, SUBSCRIPTION, Rows, flow_rows, task
from gravitate.pipeline.evaluate.metrics import Evaluation, Terms, assessed, tree_of
from gravitate.pipeline.evaluate.totals import carried

RENAMED = {
    "subscriber": "client",
    "publisher": "client",
    "subscription": "name",
    "condition": "text",
    "attributes": "text",
    "from_s": "at_s",
}


def in_process(
    rows: Rows, publications: pa.Table, subscriptions: pa.Table
) -> Iterator[pa.RecordBatch]:
    """What a task answers for all rows of two tables."""

    def sent() -> Iterator[pa.RecordBatch]:
        for kind, table in ((SUBSCRIPTION, subscriptions), (EVENT, publications)):
            names = [RENAMED.get(name, name) for name in table.column_names]
            for batch in table.rename_columns(names).to_batches():
                numbers = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
                kinds = pa.array(np.full(batch.num_rows, kind, dtype=np.int32))
                yield batch.append_column("part", numbers).append_column("kind", kinds)

    return task(rows, sent())


def evaluate_tables(
    network: Network,
    publications: pa.Table,
    subscriptions: pa.Table,
    *,
    duration_s: float,
    terms: Terms,
) -> Evaluation:
    names = tuple(broker.id for broker in network.brokers)
    tree = tree_of(network, terms.service)
    flows = (
        batch.append_column("events", pa.array(np.ones(batch.num_rows)))
        for batch in in_process(flow_rows, publications, subscriptions)
    )
    totals = added_up(names, tree, network.forwarding, flows)
    homes = subscriptions.select(["broker", "subscriber"]).group_by(["broker", "subscriber"])
    subscribers = Counter(homes.aggregate([])["broker"].to_pylist())
    found = carried(
        totals, tree, names, network, duration_s=duration_s, subscribers=subscribers, cost=None
    )
    return assessed("model", network, found, terms)
