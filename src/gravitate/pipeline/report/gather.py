"""From the store of a run to the numbers of its report.

Every step aggregates on Spark and brings to the driver what the network or a fixed number of
rows bounds. Metrics are those of `evaluate.metrics`, from what `evaluate.measured` adds up, so that
a report, `gravitate evaluate --run` and the model can be held against each other. Nothing is drawn
or written here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from gravitate.config.network import Network
from gravitate.pipeline.evaluate.arithmetic import Run, Seen
from gravitate.pipeline.evaluate.measured import measured, network_of
from gravitate.pipeline.evaluate.metrics import Terms
from gravitate.pipeline.evaluate.registry import reported
from gravitate.pipeline.report.figures import (
    Facts,
    MoveCount,
    MoveFigures,
    QuarantinedFile,
    RunFigures,
)
from gravitate.pipeline.report.findings import findings
from gravitate.pipeline.report.gather_delays import delay_classes, delays_by_hops
from gravitate.pipeline.report.gather_interest import (
    common_interest,
    leading_publishers,
    leading_topics,
)
from gravitate.pipeline.report.gather_network import broker_figures, link_figures
from gravitate.pipeline.report.timeline import periods
from gravitate.pipeline.store.store import Store, StoreManifest
from gravitate.trace import manifest as run_manifest

MOVES_MAX: Final = 200


def gather(spark: Any, run: Path, store: Store) -> RunFigures:
    """Everything a report tells about a run, from its store."""
    manifest = store.manifest()
    network = network_of(manifest, str(store.directory))
    found = measured(spark, store)
    begun_s, observed_s, scale = found.begun_s, found.observed_s, found.scale
    move_counts, moves = (
        _moves(store.traces(spark, "moves"), begun_s) if manifest.rows.get("moves") else ((), ())
    )
    brokers = broker_figures(found, network)
    links = link_figures(found, network)
    topics_total, topics = leading_topics(
        store.derived(spark, "topic_rates"), scale, found.duration_s
    )
    publishers_total, publishers = leading_publishers(spark, store, scale)
    pairs, bloom_error = common_interest(store.derived(spark, "common_interest"), scale)
    ended: Counter[str] = Counter()
    for counted in move_counts:
        ended[counted.outcome] += counted.moves
    seen = Seen(network, found.carried(network), Terms(), Run(ended, len(manifest.quarantined)))
    figures = RunFigures(
        facts=_facts(run, manifest, network, begun_s, observed_s),
        headline=reported(seen),
        findings=(),
        brokers=brokers,
        links=links,
        delays=delay_classes(found.delays, scale),
        hops=delays_by_hops(found.delays, scale),
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


def _moves(moves: Any, begun_s: float) -> tuple[tuple[MoveCount, ...], tuple[MoveFigures, ...]]:
    counted = moves.groupBy("kind", "outcome").agg(F.count("*").alias("moves"))
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
    )
