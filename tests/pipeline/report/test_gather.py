"""The numbers of a report are those that the simulator counts, and those of the trace rows."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.support.reports import Reported

from gravitate.pipeline.evaluate.measured import evaluate_run
from gravitate.pipeline.report import make_report
from gravitate.pipeline.store.store import Store
from gravitate.trace import reader


def test_counts_delays_and_hops_are_those_of_the_simulator(reported: Reported) -> None:
    told, counted = reported.report.run.headline, reported.result.metrics
    for name in ("published", "delivered", "arrivals", "pure_forwarders"):
        assert told[name] == getattr(counted, name), name
    for name in ("delay_ms_mean", "delay_ms_max", "hops_mean", "yield_share"):
        assert told[name] == pytest.approx(getattr(counted, name)), name


def test_percentiles_of_delays_are_within_one_percent(reported: Reported) -> None:
    delays_ms = 1000 * reader.read(reported.folder, "deliveries")["delay_s"].to_numpy()
    for share, told in (
        (50, reported.report.run.headline["delay_ms_p50"]),
        (95, reported.report.run.headline["delay_ms_p95"]),
        (99, reported.report.run.headline["delay_ms_p99"]),
    ):
        exact = np.percentile(delays_ms, share, method="inverted_cdf")
        assert told == pytest.approx(exact, rel=0.01)


def test_message_rates_are_those_of_the_simulator_over_the_same_time(reported: Reported) -> None:
    run, counted = reported.report.run, reported.result.metrics
    assert counted.observed_s == pytest.approx(run.facts.observed_s)
    rates = {broker.broker: broker.rate_msgs_per_s for broker in run.brokers}
    assert rates == pytest.approx(counted.broker_rates_msgs_per_s)
    for name in ("broker_rate_msgs_per_s_max", "broker_rate_msgs_per_s_mean"):
        assert run.headline[name] == pytest.approx(getattr(counted, name)), name


def test_links_carry_what_arrives(reported: Reported) -> None:
    run = reported.report.run
    assert run.headline["link_events"] == run.headline["arrivals"]
    hops = reader.read(reported.folder, "hops").to_pylist()
    came = Counter((row["came_from"], row["broker"]) for row in hops if row["came_from"])
    for link in run.links:
        one, other = link.between
        assert link.primary
        assert link.forth_msgs_per_s * run.facts.observed_s == pytest.approx(came[one, other])
        assert link.back_msgs_per_s * run.facts.observed_s == pytest.approx(came[other, one])


def test_the_delay_histogram_holds_every_delivery(reported: Reported) -> None:
    run = reported.report.run
    assert sum(part.deliveries for part in run.delays) == run.headline["delivered"]
    by_hops = Counter(reader.read(reported.folder, "deliveries")["hops"].to_pylist())
    assert {part.hops: part.deliveries for part in run.hops} == by_hops


def test_periods_add_up_to_the_run(reported: Reported) -> None:
    run = reported.report.run
    assert sum(p.published_msgs_per_s * p.seconds for p in run.periods) == pytest.approx(
        run.headline["published"]
    )
    assert sum(p.delivered_msgs_per_s * p.seconds for p in run.periods) == pytest.approx(
        run.headline["delivered"]
    )


def test_audiences_are_where_events_were_delivered(reported: Reported) -> None:
    deliveries = reader.read(reported.folder, "deliveries").to_pylist()
    handed = Counter((row["publisher"], row["broker"]) for row in deliveries)
    events = defaultdict(set)
    for row in deliveries:
        events[row["publisher"], row["broker"]].add((row["incarnation"], row["counter"]))
    told = {
        (publisher.publisher, part.broker): (part.deliveries, part.events)
        for publisher in reported.report.run.publishers
        for part in publisher.audience
    }
    assert told == {key: (handed[key], len(events[key])) for key in handed}
    published = reader.read(reported.folder, "publications").to_pylist()
    homes = {row["publisher"]: (row["broker"],) for row in published}
    assert {one.publisher: one.homes for one in reported.report.run.publishers} == homes


def test_common_interest_is_the_intersection_of_what_was_delivered(reported: Reported) -> None:
    wanted = defaultdict(set)
    for row in reader.read(reported.folder, "deliveries").to_pylist():
        wanted[row["broker"]].add((row["publisher"], row["incarnation"], row["counter"]))
    common = {
        (one, other): len(wanted[one] & wanted[other])
        for one, other in permutations(sorted(wanted), 2)
        if wanted[one] & wanted[other]
    }
    told = {(pair.broker, pair.other): pair for pair in reported.report.run.common_interest}
    assert {pair: figures.events for pair, figures in told.items()} == common
    assert all(figures.events_bloom >= figures.events for figures in told.values())


def test_topics_are_counted(reported: Reported) -> None:
    published = Counter(reader.read(reported.folder, "publications")["topic"].to_pylist())
    run = reported.report.run
    assert {topic.topic: topic.publications for topic in run.topics} == published
    assert run.topics_total == len(published)


def test_moves_are_told_newest_first_with_outcome_and_reason(reported: Reported) -> None:
    run = reported.report.run
    assert [(move.outcome, move.reason) for move in run.moves] == [
        ("done", "its audience is there"),
        ("refused", "its audience is there"),
    ]
    assert (run.headline["moves_done"], run.headline["moves_refused"]) == (1, 1)
    assert run.headline["reconfiguration_cost"] == 1.5


def test_counts_of_a_sample_are_scaled_but_those_of_links_are_not(
    spark: Any, reported: Reported, tmp_path: Path
) -> None:
    """The tables of a run as if they had been of every fourth event."""
    shutil.copytree(reported.folder / "tables", tmp_path / "tables")
    store = Store(tmp_path / "tables")
    store.save(msgspec.structs.replace(store.manifest(), sampling_rate=0.25))
    whole = reported.report.run
    told = make_report(spark, tmp_path / "tables").run
    for name in ("published", "delivered", "arrivals", "pure_forwarders"):
        assert told.headline[name] == 4 * whole.headline[name], name
    for name in ("link_events", "bandwidth_bytes_per_s", "delay_ms_p95", "yield_share"):
        assert told.headline[name] == whole.headline[name], name
    assert told.topics[0].publications == 4 * whole.topics[0].publications
    assert told.publishers[0].deliveries == 4 * whole.publishers[0].deliveries
    assert told.common_interest[0].events == 4 * whole.common_interest[0].events
    assert told.periods[0].published_msgs_per_s == pytest.approx(
        4 * whole.periods[0].published_msgs_per_s
    )


def test_a_report_and_an_evaluation_of_the_run_have_the_same_figures(
    spark: Any, reported: Reported, tmp_path: Path
) -> None:
    """Also where events were sampled and the network has mechanisms."""
    shutil.copytree(reported.folder / "tables", tmp_path / "tables")
    store = Store(tmp_path / "tables")
    manifest = store.manifest()
    text = f"{manifest.network}\n[mechanisms.pop]\n"
    store.save(msgspec.structs.replace(manifest, sampling_rate=0.25, network=text))
    told = make_report(spark, tmp_path / "tables").run
    found = evaluate_run(spark, store)
    known = found.metrics
    shared = [name for name in told.headline if name in known]
    assert len(shared) >= 19
    assert {name: told.headline[name] for name in shared} == {name: known[name] for name in shared}
    assert known["duration_s"] == told.facts.observed_s
    assert [one.broker for one in told.brokers] == list(found.brokers)
    for one in told.brokers:
        other = found.brokers[one.broker]
        assert one.subscribers == other["subscribers"]
        assert one.arrivals == other["in_links"]
        assert one.pure_forwarders == other["pure_forwarders"]
        assert one.rate_msgs_per_s == pytest.approx(other["rate_msgs_per_s"])


def test_a_run_of_one_broker_without_deliveries_has_a_report(lonely: Reported) -> None:
    run = lonely.report.run
    assert run.headline["published"] == lonely.result.metrics.published > 0
    assert run.headline["delivered"] == run.headline["arrivals"] == 0
    assert run.headline["delay_ms_mean"] is None
    assert run.headline["yield_share"] == 1.0
    assert (run.links, run.delays, run.hops, run.common_interest, run.moves) == ((),) * 5
    assert run.findings == ("8 events were published and nobody was handed one.",)
