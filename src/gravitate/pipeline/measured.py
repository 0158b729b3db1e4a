"""Evaluating a run from its derived tables, on the same metrics as a model of it.

Owns how rows of `broker_load`, `link_load`, `delays` and `yield` become what a network carried.
What was sampled is scaled up; links are counted in full already. Everything collected here has
the size of the network, or of a histogram.

What a run does not tell: service times (utilisation of inputs and processing costs are taken from
`terms`), and how many control messages there were.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import functions as F

from gravitate.config import network as network_file
from gravitate.config.network import Network
from gravitate.errors import FileError
from gravitate.model.moves import MoveOutcome
from gravitate.pipeline.metrics import Carried, Evaluation, Link, Terms, assessed
from gravitate.pipeline.store import Store
from gravitate.trace import histogram


def evaluate_run(
    spark: Any,
    store: Store,
    *,
    name: str = "",
    terms: Terms | None = None,
    duration_s: float | None = None,
) -> Evaluation:
    """Every metric of the run whose tables are in `store`.

    Rates are taken over `duration_s`; by default from the first publication to the last."""
    check(store)
    manifest = store.manifest()
    network = network_file.loads(manifest.network, "the network of the run")
    scale = 1.0 / manifest.sampling_rate if manifest.sampling_rate > 0 else 1.0
    load = _by_broker(
        store.derived(spark, "broker_load"),
        network,
        ("in_links", "in_clients", "out_links", "out_clients"),
    )
    wanted = _by_broker(store.derived(spark, "yield"), network, ("useful",))
    delays = store.derived(spark, "delays")
    buckets = np.zeros(histogram.BUCKETS)
    for bucket, count in delays.groupBy("bucket").agg(F.sum("deliveries")).collect():
        buckets[bucket] = count * scale
    delay_s_sum, delay_s_max = delays.agg(F.sum("delay_s_sum"), F.max("delay_s_max")).collect()[0]
    hops = delays.groupBy("hops").agg(F.sum("deliveries")).collect()
    carried = Carried(
        duration_s=_duration_s(store.traces(spark, "publications"))
        if duration_s is None
        else duration_s,
        in_links=load["in_links"] * scale,
        in_clients=load["in_clients"] * scale,
        out_links=load["out_links"] * scale,
        out_clients=load["out_clients"] * scale,
        useful=wanted["useful"] * scale,
        links=_links(store.derived(spark, "link_load")),
        hops={links: count * scale for links, count in hops},
        delay_buckets=buckets,
        delay_s_sum=(delay_s_sum or 0.0) * scale,
        delay_s_max=delay_s_max or 0.0,
        subscribers=_subscribers(store.traces(spark, "subscriptions")),
        reconfiguration_cost=_moving_cost(store.traces(spark, "moves")),
    )
    return assessed(name or manifest.scenario or "run", network, carried, terms)


def check(store: Store) -> None:
    """Refuse a folder that is no store."""
    if not store.exists():
        raise FileError(
            "has no tables of a run: take its traces in with `gravitate ingest RUN`",
            str(store.directory),
        )


def _by_broker(
    rows: Any, network: Network, columns: tuple[str, ...]
) -> dict[str, NDArray[np.float64]]:
    """Sums over all periods, in the order of the network's brokers."""
    number = {broker.id: index for index, broker in enumerate(network.brokers)}
    found = {column: np.zeros(len(number)) for column in columns}
    summed = rows.groupBy("broker").agg(*(F.sum(column).alias(column) for column in columns))
    for row in summed.collect():
        if row["broker"] in number:
            for column in columns:
                found[column][number[row["broker"]]] = row[column]
    return found


def _links(rows: Any) -> dict[Link, tuple[float, float]]:
    summed = rows.groupBy("broker", "peer").agg(F.sum("events"), F.sum("size_bytes"))
    return {(row[0], row[1]): (float(row[2]), float(row[3])) for row in summed.collect()}


def _duration_s(publications: Any) -> float:
    first, last = publications.agg(F.min("at_s"), F.max("at_s")).collect()[0]
    return float(last - first) if last is not None else 0.0


def _subscribers(changes: Any) -> dict[str, int]:
    """Subscribers by the broker where they subscribed last."""
    latest = (
        changes.where(F.col("change") == "subscribed")
        .groupBy("session")
        .agg(F.max_by("broker", "at_s").alias("broker"))
    )
    return {row[0]: row[1] for row in latest.groupBy("broker").count().collect()}


def _moving_cost(moves: Any) -> float:
    """What the moves that were carried out were predicted to cost."""
    done = moves.where(F.col("outcome") == MoveOutcome.DONE.value)
    return float(done.agg(F.sum("cost")).collect()[0][0] or 0.0)
