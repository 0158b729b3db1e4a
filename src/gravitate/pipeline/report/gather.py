"""From the store of a run to the numbers of its report.

Every step aggregates on Spark and brings to the driver what the network or a fixed number of
rows bounds; the constants below are those numbers. Nothing is drawn or written here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from gravitate.config import network as networks
from gravitate.config import toml
from gravitate.config.network import Network
from gravitate.pipeline.report import timeline
from gravitate.pipeline.report.figures import (
    Audience,
    BrokerFigures,
    DelayClass,
    Facts,
    Headline,
    HopsFigures,
    LinkFigures,
    MoveCount,
    MoveFigures,
    PairFigures,
    PublisherFigures,
    QuarantinedFile,
    RunFigures,
    TopicFigures,
)
from gravitate.pipeline.report.findings import findings
from gravitate.pipeline.store import Store, StoreManifest
from gravitate.trace import histogram
from gravitate.trace import manifest as run_manifest

TOPICS_MAX: Final = 20
PUBLISHERS_MAX: Final = 15
AUDIENCE_MAX: Final = 40
"""Brokers for which the audience of publishers is told apart."""
INTEREST_MAX: Final = 40
"""Brokers among which common interest is told, pair by pair."""
MOVES_MAX: Final = 200

_SHARES: Final = (0.5, 0.95, 0.99)


def gather(spark: Any, run: Path, store: Store) -> RunFigures:
    """Everything a report tells about a run, from its store."""
    manifest = store.manifest()
    network = network_of(manifest, str(store.directory))
    scale = 1.0 / manifest.sampling_rate if manifest.sampling_rate > 0 else 1.0
    begun_s, observed_s = _observed(store, spark)
    seconds = observed_s or 1.0
    delays = _delay_rows(store.derived(spark, "delays"))
    move_counts, moves, moves_cost = _moves(store.traces(spark, "moves"), begun_s)
    brokers = _brokers(spark, store, network, scale, seconds)
    links = _links(store.derived(spark, "link_load"), network, seconds)
    topics_total, topics = _topics(store.derived(spark, "topic_rates"), scale, seconds)
    publishers_total, publishers = _publishers(spark, store, scale)
    interest, bloom_error = _interest(store.derived(spark, "common_interest"), scale)
    figures = RunFigures(
        facts=_facts(run, manifest, network, begun_s, observed_s),
        headline=Headline(
            **_traffic(brokers, links, seconds),
            **_delay_headline(delays, scale, seconds),
            **_link_headline(brokers, links, delays, scale, seconds),
            **_move_headline(move_counts, moves_cost),
            quarantined_files=len(manifest.quarantined),
        ),
        findings=(),
        brokers=brokers,
        links=links,
        delays=_classes(delays, scale),
        hops=_by_hops(delays, scale),
        periods=timeline.periods(spark, store, begun_s, observed_s, scale),
        topics_total=topics_total,
        topics=topics,
        publishers_total=publishers_total,
        publishers=publishers,
        common_interest=interest,
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


# --- what the run was -----------------------------------------------------------------------------


def _observed(store: Store, spark: Any) -> tuple[float, float]:
    """When the first event was taken in, and how long after that anything happened to events."""
    first = store.traces(spark, "publications").agg(F.min("at_s")).collect()[0][0]
    last = store.traces(spark, "hops").agg(F.max("at_s")).collect()[0][0]
    handed = store.traces(spark, "deliveries").agg(F.max("at_s")).collect()[0][0]
    if first is None:
        return store.manifest().started_at_s, 0.0
    return first, max(0.0, max(at_s for at_s in (first, last, handed) if at_s is not None) - first)


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


# --- brokers and links ----------------------------------------------------------------------------


def _brokers(
    spark: Any, store: Store, network: Network, scale: float, seconds: float
) -> tuple[BrokerFigures, ...]:
    """Every broker of the network and of the traces, in the order of the network file."""
    flows = ("in_links", "in_clients", "out_links", "out_clients")
    load = _by_key(store.derived(spark, "broker_load").groupBy("broker").agg(*_sums(*flows)))
    arrived = _by_key(
        store.derived(spark, "yield").groupBy("broker").agg(*_sums("arrivals", "pure_forwarders"))
    )
    handed = _by_key(
        store.derived(spark, "delays").groupBy("broker").agg(*_sums("deliveries", "delay_s_sum"))
    )
    sessions = _by_key(
        store.traces(spark, "subscriptions")
        .where(F.col("change") == "subscribed")
        .groupBy("broker")
        .agg(F.countDistinct("session").alias("subscribers"))
    )
    named = {broker.id: broker.coordinates for broker in network.brokers}
    others = sorted({*load, *arrived, *handed, *sessions} - named.keys())
    return tuple(
        BrokerFigures(
            broker=broker,
            coordinates=named.get(broker, ()),
            **{
                f"{flow}_msgs_per_s": load[broker][flow] * scale / seconds
                for flow in flows
                if broker in load
            },
            **{
                name: arrived[broker][name] * scale
                for name in ("arrivals", "pure_forwarders")
                if broker in arrived
            },
            deliveries=handed[broker]["deliveries"] * scale if broker in handed else 0.0,
            delay_ms_mean=_mean_ms(handed.get(broker)),
            subscribers=sessions[broker]["subscribers"] if broker in sessions else 0,
        )
        for broker in (*named, *others)
    )


def _links(load: Any, network: Network, seconds: float) -> tuple[LinkFigures, ...]:
    """Every primary link, and every other that carried something."""
    sent = {
        (row["broker"], row["peer"]): row
        for row in load.groupBy("broker", "peer")
        .agg(*_sums("events", "size_bytes"), F.avg("rtt_s_mean").alias("rtt_s"))
        .collect()
    }
    latencies = {_sorted(*link.between): link.latency_ms for link in network.links}
    carried = {_sorted(*pair) for pair, row in sent.items() if row["events"]}
    found = []
    for between in sorted({*latencies, *carried}):
        forth, back = sent.get(between), sent.get((between[1], between[0]))
        ways = [row for row in (forth, back) if row is not None]
        measured = [row["rtt_s"] for row in ways if row["rtt_s"] is not None]
        found.append(
            LinkFigures(
                between=between,
                primary=between in latencies,
                latency_ms=latencies.get(between),
                forth_msgs_per_s=forth["events"] / seconds if forth else 0.0,
                back_msgs_per_s=back["events"] / seconds if back else 0.0,
                bytes_per_s=sum(row["size_bytes"] for row in ways) / seconds,
                rtt_ms_mean=1000 * sum(measured) / len(measured) if measured else None,
            )
        )
    return tuple(found)


def _traffic(
    brokers: tuple[BrokerFigures, ...], links: tuple[LinkFigures, ...], seconds: float
) -> dict[str, Any]:
    """The metrics that add up over brokers."""
    rates = [broker.rate_msgs_per_s for broker in brokers]
    subscribers = [broker.subscribers for broker in brokers]
    arrivals = sum(broker.arrivals for broker in brokers)
    pure = sum(broker.pure_forwarders for broker in brokers)
    published_rate = sum(broker.in_clients_msgs_per_s for broker in brokers)
    return {
        "published": round(published_rate * seconds, 6),
        "published_rate_msgs_per_s": published_rate,
        "broker_rate_msgs_per_s_mean": sum(rates) / len(rates),
        "broker_rate_msgs_per_s_max": max(rates),
        "broker_input_msgs_per_s_max": max(broker.input_msgs_per_s for broker in brokers),
        "broker_output_msgs_per_s_max": max(broker.output_msgs_per_s for broker in brokers),
        "arrivals": arrivals,
        "pure_forwarders": pure,
        "yield_share": 1.0 - pure / arrivals if arrivals else 1.0,
        "load_balance_messages": _balance(rates),
        "load_balance_subscribers": _balance(subscribers),
        "link_rate_msgs_per_s_max": max((link.rate_msgs_per_s for link in links), default=0.0),
        "bandwidth_bytes_per_s": sum(link.bytes_per_s for link in links),
    }


def _link_headline(
    brokers: tuple[BrokerFigures, ...],
    links: tuple[LinkFigures, ...],
    delays: list[Any],
    scale: float,
    seconds: float,
) -> dict[str, Any]:
    """What events cost the links. Links count all events, so nothing of theirs is scaled."""
    events = sum(link.rate_msgs_per_s for link in links) * seconds
    published = sum(broker.in_clients_msgs_per_s for broker in brokers) * seconds
    delivered = sum(row["deliveries"] for row in delays) * scale
    latency_ms = sum(link.rate_msgs_per_s * (link.latency_ms or 0.0) for link in links) * seconds
    known = any(link.latency_ms for link in links)
    return {
        "link_events": round(events, 6),
        "link_events_per_delivery": events / delivered if delivered else None,
        "link_latency_ms_per_event": latency_ms / published if published and known else None,
    }


# --- delays ---------------------------------------------------------------------------------------


def _delay_rows(delays: Any) -> list[Any]:
    """Deliveries by hops and delay class."""
    rows: list[Any] = (
        delays.groupBy("hops", "bucket")
        .agg(*_sums("deliveries", "delay_s_sum"), F.max("delay_s_max").alias("delay_s_max"))
        .orderBy("hops", "bucket")
        .collect()
    )
    return rows


def _delay_headline(rows: list[Any], scale: float, seconds: float) -> dict[str, Any]:
    delivered = sum(row["deliveries"] for row in rows)
    names = ("delay_ms_mean", "delay_ms_p50", "delay_ms_p95", "delay_ms_p99", "delay_ms_max")
    figures: dict[str, Any] = dict.fromkeys((*names, "hops_mean", "hops_max"))
    if delivered:
        figures |= dict(zip(names, _spread_ms(rows), strict=True))
        figures["hops_mean"] = sum(row["hops"] * row["deliveries"] for row in rows) / delivered
        figures["hops_max"] = max(row["hops"] for row in rows)
    return figures | {
        "delivered": delivered * scale,
        "delivered_rate_msgs_per_s": delivered * scale / seconds,
    }


def _spread_ms(rows: list[Any]) -> tuple[float, ...]:
    """Mean, median, 95 %, 99 % and longest of a histogram that is not empty."""
    counts = [row["deliveries"] for row in rows]
    longest_s = max(row["delay_s_max"] for row in rows)
    shares = histogram.percentiles_s([row["bucket"] for row in rows], counts, _SHARES, longest_s)
    mean_s = sum(row["delay_s_sum"] for row in rows) / sum(counts)
    return tuple(1000 * delay_s for delay_s in (mean_s, *shares, longest_s))


def _classes(rows: list[Any], scale: float) -> tuple[DelayClass, ...]:
    counts: dict[int, float] = defaultdict(float)
    for row in rows:
        counts[row["bucket"]] += row["deliveries"] * scale
    return tuple(
        DelayClass(_class_bound_ms(bucket - 1), _class_bound_ms(bucket), counts[bucket])
        for bucket in sorted(counts)
    )


def _class_bound_ms(bucket: int) -> float:
    """Where a delay class ends."""
    return 1000 * histogram.DELAY_S_MIN * histogram.RATIO**bucket if bucket >= 0 else 0.0


def _by_hops(rows: list[Any], scale: float) -> tuple[HopsFigures, ...]:
    parts: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        parts[row["hops"]].append(row)
    found = []
    for hops, part in sorted(parts.items()):
        mean, median, p95, _, longest = _spread_ms(part)
        found.append(
            HopsFigures(
                hops=hops,
                deliveries=sum(row["deliveries"] for row in part) * scale,
                delay_ms_mean=mean,
                delay_ms_p50=median,
                delay_ms_p95=p95,
                delay_ms_max=longest,
            )
        )
    return tuple(found)


# --- topics, publishers, interest -----------------------------------------------------------------


def _topics(rates: Any, scale: float, seconds: float) -> tuple[int, tuple[TopicFigures, ...]]:
    total = rates.agg(F.countDistinct("topic")).collect()[0][0]
    most = (
        rates.groupBy("topic")
        .agg(
            *_sums("publications"),
            F.max_by("rate_smoothed_msgs_per_s", "period").alias("smoothed"),
        )
        .orderBy(F.desc("publications"), "topic")
        .limit(TOPICS_MAX)
        .collect()
    )
    return total, tuple(
        TopicFigures(
            topic=row["topic"],
            publications=row["publications"] * scale,
            rate_msgs_per_s=row["publications"] * scale / seconds,
            rate_smoothed_msgs_per_s=row["smoothed"] * scale,
        )
        for row in most
    )


def _publishers(spark: Any, store: Store, scale: float) -> tuple[int, tuple[PublisherFigures, ...]]:
    """The publishers with the most deliveries, where they are and where their audience is."""
    profiles = store.derived(spark, "publisher_profiles")
    published = store.traces(spark, "publications").groupBy("publisher", "broker").count()
    total = published.select("publisher").distinct().count()
    most = (
        published.groupBy("publisher")
        .agg(F.sum("count").alias("published"))
        .join(profiles.groupBy("publisher").agg(*_sums("deliveries")), "publisher", "left")
        .fillna(0, ["deliveries"])
        .orderBy(F.desc("deliveries"), F.desc("published"), "publisher")
        .limit(PUBLISHERS_MAX)
        .collect()
    )
    names = [row["publisher"] for row in most]
    theirs = profiles.where(F.col("publisher").isin(names))
    nearest = [
        row["broker"]
        for row in theirs.groupBy("broker")
        .agg(*_sums("deliveries"))
        .orderBy(F.desc("deliveries"), "broker")
        .limit(AUDIENCE_MAX)
        .collect()
    ]
    audiences: dict[str, list[Audience]] = defaultdict(list)
    # A word can have rows in two periods; an event in both is one event.
    for row in (
        theirs.where(F.col("broker").isin(nearest))
        .groupBy("publisher", "broker", "incarnation", "word")
        .agg(F.bit_or("bits").alias("bits"), *_sums("deliveries"))
        .groupBy("publisher", "broker")
        .agg(F.sum(F.bit_count("bits")).alias("events"), *_sums("deliveries"))
        .orderBy(F.desc("deliveries"), "broker")
        .collect()
    ):
        audiences[row["publisher"]].append(
            Audience(
                broker=row["broker"],
                events=row["events"] * scale,
                deliveries=row["deliveries"] * scale,
            )
        )
    homes: dict[str, list[str]] = defaultdict(list)
    for row in (
        published.where(F.col("publisher").isin(names)).orderBy(F.desc("count"), "broker").collect()
    ):
        homes[row["publisher"]].append(row["broker"])
    return total, tuple(
        PublisherFigures(
            publisher=row["publisher"],
            published=row["published"] * scale,
            homes=tuple(homes[row["publisher"]]),
            deliveries=row["deliveries"] * scale,
            audience=tuple(audiences[row["publisher"]]),
        )
        for row in most
    )


def _interest(common: Any, scale: float) -> tuple[tuple[PairFigures, ...], float | None]:
    """Pairs among the brokers with the most in common, and what Bloom filters add, over all."""
    exact, bloom = common.agg(F.sum("events"), F.sum("events_bloom")).collect()[0]
    leading = [
        row["broker"]
        for row in common.groupBy("broker")
        .agg(*_sums("events"))
        .orderBy(F.desc("events"), "broker")
        .limit(INTEREST_MAX)
        .collect()
    ]
    rows = (
        common.where(F.col("broker").isin(leading) & F.col("other").isin(leading))
        .groupBy("broker", "other")
        .agg(*_sums("events", "events_bloom"))
        .orderBy("broker", "other")
        .collect()
    )
    pairs = tuple(
        PairFigures(
            broker=row["broker"],
            other=row["other"],
            events=row["events"] * scale,
            events_bloom=row["events_bloom"] * scale,
        )
        for row in rows
    )
    return pairs, (bloom - exact) / exact if exact else None


# --- moves ----------------------------------------------------------------------------------------


def _moves(
    moves: Any, begun_s: float
) -> tuple[tuple[MoveCount, ...], tuple[MoveFigures, ...], float]:
    counted = moves.groupBy("kind", "outcome").agg(F.count("*").alias("moves"), *_sums("cost"))
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


def _move_headline(counts: tuple[MoveCount, ...], cost: float) -> dict[str, Any]:
    def ended(outcome: str) -> int:
        return sum(count.moves for count in counts if count.outcome == outcome)

    return {
        "moves_done": ended("done"),
        "moves_refused": ended("refused"),
        "moves_rolled_back": ended("rolled back"),
        "moves_cost": cost,
    }


# --- small helpers --------------------------------------------------------------------------------


def _sums(*columns: str) -> list[Any]:
    return [F.sum(column).alias(column) for column in columns]


def _by_key(rows: Any) -> dict[str, Any]:
    """Rows by their broker."""
    return {row["broker"]: row for row in rows.collect()}


def _mean_ms(row: Mapping[str, Any] | None) -> float | None:
    return 1000 * row["delay_s_sum"] / row["deliveries"] if row and row["deliveries"] else None


def _balance(loads: list[float] | list[int]) -> float:
    """The largest load over the mean; 1 when there is none at all."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 1.0


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
