"""From the store of a run to the numbers of its report.

Every step aggregates on Spark and brings to the driver what the network or a fixed number of
rows bounds. Metrics are those of `pipeline.metrics`, so that a run and an evaluation of a plan
can be held against each other. Nothing is drawn or written here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from gravitate.config import network as networks
from gravitate.config import toml
from gravitate.config.network import Network
from gravitate.pipeline.metrics import Evaluation, assessed
from gravitate.pipeline.report.figures import (
    BrokerFigures,
    Facts,
    Headline,
    LinkFigures,
    MoveCount,
    MoveFigures,
    QuarantinedFile,
    RunFigures,
)
from gravitate.pipeline.report.findings import findings
from gravitate.pipeline.report.gather_delays import delay_classes, delay_rows, delays_by_hops
from gravitate.pipeline.report.gather_interest import (
    common_interest,
    leading_publishers,
    leading_topics,
)
from gravitate.pipeline.report.gather_network import broker_figures, carried, link_figures
from gravitate.pipeline.report.timeline import periods
from gravitate.pipeline.store import Store, StoreManifest
from gravitate.trace import manifest as run_manifest

MOVES_MAX: Final = 200

_DELIVERED_ONLY: Final = (
    "delay_ms_mean",
    "delay_ms_p50",
    "delay_ms_p95",
    "delay_ms_p99",
    "delay_ms_max",
    "hops_mean",
    "hops_max",
)
"""Metrics that say nothing when nothing was delivered."""


def gather(spark: Any, run: Path, store: Store) -> RunFigures:
    """Everything a report tells about a run, from its store."""
    manifest = store.manifest()
    network = network_of(manifest, str(store.directory))
    scale = 1.0 / manifest.sampling_rate if manifest.sampling_rate > 0 else 1.0
    begun_s, observed_s = _observed(spark, store)
    seconds = observed_s or 1.0
    delays = delay_rows(store.derived(spark, "delays"))
    move_counts, moves, moves_cost = (
        _moves(store.traces(spark, "moves"), begun_s)
        if manifest.rows.get("moves")
        else ((), (), 0.0)
    )
    brokers = broker_figures(spark, store, network, scale, seconds)
    links = link_figures(store.derived(spark, "link_load"), network, seconds)
    topics_total, topics = leading_topics(store.derived(spark, "topic_rates"), scale, seconds)
    publishers_total, publishers = leading_publishers(spark, store, scale)
    pairs, bloom_error = common_interest(store.derived(spark, "common_interest"), scale)
    evaluation = assessed(
        run.name,
        network,
        carried(network, brokers, links, delays, scale, seconds, moves_cost),
    )
    figures = RunFigures(
        facts=_facts(run, manifest, network, begun_s, observed_s),
        headline=_headline(evaluation, brokers, links, move_counts, len(manifest.quarantined)),
        findings=(),
        brokers=brokers,
        links=links,
        delays=delay_classes(delays, scale),
        hops=delays_by_hops(delays, scale),
        periods=periods(spark, store, begun_s, observed_s, scale),
        topics_total=topics_total,
        topics=topics,
        publishers_total=publishers_total,
        publishers=publishers,
        common_interest=pairs,
        bloom_error_share=bloom_error,
        move_counts=move_counts,
        moves=moves,
        quarantined=tuple(
            QuarantinedFile(entry.file, entry.reason) for entry in manifest.quarantined
        ),
    )
    return msgspec.structs.replace(figures, findings=findings(figures))


def network_of(manifest: StoreManifest, place: str) -> Network:
    """The network a store is of, whatever mechanisms it names."""
    document = toml.parse(manifest.network, place)
    return networks.from_document(document, document.data.get("mechanisms", {}))


def _observed(spark: Any, store: Store) -> tuple[float, float]:
    """When the first event was taken in, and how long after that anything happened to events."""
    tables = ("publications", "hops", "deliveries")
    spans = [
        store.traces(spark, table).agg(F.min("at_s").alias("first"), F.max("at_s").alias("last"))
        for table in tables
    ]
    first_s, last_s = (
        reduce(lambda one, other: one.unionByName(other), spans)
        .agg(F.min("first"), F.max("last"))
        .collect()[0]
    )
    if first_s is None:
        return store.manifest().started_at_s, 0.0
    return first_s, last_s - first_s


def _facts(
    run: Path, manifest: StoreManifest, network: Network, begun_s: float, observed_s: float
) -> Facts:
    has_manifest = (run / run_manifest.NAME).exists()
    return Facts(
        run=run.resolve().name,
        network=network.name,
        brokers=len(network.brokers),
        primary_links=len(network.links),
        scenario=manifest.scenario,
        seed=manifest.seed,
        clock=manifest.clock,
        observed_from_s=begun_s,
        observed_s=observed_s,
        sampling_rate=manifest.sampling_rate,
        period_s=manifest.period_s,
        gravitate_version=run_manifest.load(run).gravitate_version if has_manifest else "",
        rows=dict(sorted(manifest.rows.items())),
    )


def _headline(
    evaluation: Evaluation,
    brokers: Sequence[BrokerFigures],
    links: Sequence[LinkFigures],
    move_counts: Sequence[MoveCount],
    quarantined_files: int,
) -> Headline:
    """The metrics of an evaluation, and those that only a run has."""
    known: dict[str, Any] = evaluation.metrics()
    if not evaluation.delivered:
        known |= dict.fromkeys(_DELIVERED_ONLY)
    seconds = evaluation.duration_s
    link_events = sum(link.rate_msgs_per_s for link in links) * seconds
    busiest, mean = evaluation.broker_rate_msgs_per_s_max, evaluation.broker_rate_msgs_per_s_mean
    known |= {
        # Counts go through rates; what was whole is whole again.
        "published": round(evaluation.published, 6),
        "arrivals": round(evaluation.arrivals, 6),
        "pure_forwarders": round(evaluation.pure_forwarders, 6),
        "link_events": round(link_events, 6),
        "published_rate_msgs_per_s": evaluation.published / seconds,
        "delivered_rate_msgs_per_s": evaluation.delivered / seconds,
        "broker_input_msgs_per_s_max": max(broker.input_msgs_per_s for broker in brokers),
        "broker_output_msgs_per_s_max": max(broker.output_msgs_per_s for broker in brokers),
        "load_balance_messages": busiest / mean if mean else None,
        "link_events_per_delivery": link_events / evaluation.delivered
        if evaluation.delivered
        else None,
        "link_rate_msgs_per_s_max": max((link.rate_msgs_per_s for link in links), default=0.0),
        "moves_done": _ended(move_counts, "done"),
        "moves_refused": _ended(move_counts, "refused"),
        "moves_rolled_back": _ended(move_counts, "rolled back"),
        "quarantined_files": quarantined_files,
    }
    return Headline(**{name: known[name] for name in Headline.__struct_fields__})


def _ended(counts: Sequence[MoveCount], outcome: str) -> int:
    return sum(count.moves for count in counts if count.outcome == outcome)


def _moves(
    moves: Any, begun_s: float
) -> tuple[tuple[MoveCount, ...], tuple[MoveFigures, ...], float]:
    counted = moves.groupBy("kind", "outcome").agg(
        F.count("*").alias("moves"), F.sum("cost").alias("cost")
    )
    counts = counted.orderBy("kind", "outcome").collect()
    latest = moves.orderBy(F.desc("at_s"), "move").limit(MOVES_MAX).collect()
    columns = ("move", "kind", "broker", "outcome", "reason", "gain", "cost", "details")
    return (
        tuple(
            MoveCount(kind=row["kind"], outcome=row["outcome"], moves=row["moves"])
            for row in counts
        ),
        tuple(
            MoveFigures(at_s=row["at_s"] - begun_s, **{name: row[name] for name in columns})
            for row in latest
        ),
        math.fsum(row["cost"] for row in counts if row["outcome"] == "done"),
    )
