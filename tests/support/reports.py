"""A run traced by the simulator, and reports made by hand, with everything an outsider might
write into names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gravitate.config import network, scenario
from gravitate.model.moves import MoveOutcome, Rationale, RelocatePublisher
from gravitate.pipeline.evaluate.registry import REPORTED, Figures
from gravitate.pipeline.report import metrics
from gravitate.pipeline.report.figures import (
    Audience,
    BrokerFigures,
    DelayClass,
    Facts,
    HopsFigures,
    LinkFigures,
    MoveCount,
    MoveFigures,
    PairFigures,
    PeriodFigures,
    PublisherFigures,
    QuarantinedFile,
    Report,
    RunFigures,
    TopicFigures,
)
from gravitate.simulate.run import RunResult, run_scenario
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceWriter

HOSTILE = "<img src=x onerror=alert(1)></script><script>throw 1</script>'\"&amp;\u2028\u202e"
"""What somebody may choose as a client id or a topic."""


class Reported(NamedTuple):
    """A run, what the simulator says about it, and what its report says."""

    folder: Path
    result: RunResult
    report: Report
    page: Path


def trace_scenario(folder: Path, text: str = "", sampling_rate: float = 1.0) -> RunResult:
    """Simulate a scenario (`small` unless given), with a move, and leave its traces."""
    script = scenario.loads(text) if text else scenario.load("small")
    with TraceWriter(folder, "world", sampling_rate, link_period_s=0.25) as writer:
        result = run_scenario(script, observers=[writer])
        if not text:
            why = Rationale("its audience is there", 2.0, 1.5)
            move = RelocatePublisher("m1", "pub-01", "b01", "b02", why)
            writer.on_move("b01", move, MoveOutcome.DONE, 11.5)
            writer.on_move("b02", move, MoveOutcome.REFUSED, 11.0)
    RunManifest(
        network.render(script.network),
        "virtual",
        scenario=script.name,
        seed=script.seed,
        sampling_rate=sampling_rate,
    ).save(folder)
    return result


LONELY = """
name = "lonely"
seed = 3
duration_s = 2.0

[network]
brokers = 1

[workload]
publishers = 1
subscribers = 0
rate_msgs_per_s = 4.0
"""
"""One broker, no links, nobody who wants anything."""


def run_figures(name: str = "today", faster: float = 1.0) -> RunFigures:
    """A run of three brokers whose outsiders are hostile; `faster` divides its delays."""
    delay_ms = 40.0 / faster
    return RunFigures(
        facts=Facts(
            run=name,
            network="three",
            brokers=3,
            primary_links=2,
            scenario=HOSTILE,
            seed=1,
            clock="virtual",
            observed_from_s=10.0,
            observed_s=60.0,
            sampling_rate=0.5,
            period_s=30.0,
            gravitate_version="0",
            rows={"hops": 600},
        ),
        headline=headline(delay_ms_p50=delay_ms, delay_ms_max=3 * delay_ms),
        findings=(f"Publisher {HOSTILE} is far away.",),
        brokers=(
            BrokerFigures(broker="a", in_links_msgs_per_s=2.0, arrivals=120, pure_forwarders=60),
            BrokerFigures(broker="b", out_clients_msgs_per_s=3.0, deliveries=180),
            BrokerFigures(broker="c"),
        ),
        links=(
            LinkFigures(between=("a", "b"), primary=True, latency_ms=5.0, forth_msgs_per_s=2.0),
            LinkFigures(between=("a", "c"), primary=False, back_msgs_per_s=1.0),
        ),
        delays=(DelayClass(delay_ms, 1.02 * delay_ms, 100), DelayClass(80.0, 81.6, 80)),
        hops=(
            HopsFigures(
                hops=1,
                deliveries=180,
                delay_ms_mean=delay_ms,
                delay_ms_p50=delay_ms,
                delay_ms_p95=80.0,
                delay_ms_max=3 * delay_ms,
            ),
        ),
        periods=tuple(
            PeriodFigures(
                from_s=from_s,
                seconds=30.0,
                published_msgs_per_s=1.0,
                delivered_msgs_per_s=3.0,
                links_msgs_per_s=2.0,
                yield_share=0.5,
                delay_ms_mean=delay_ms,
                delay_ms_p95=None,
            )
            for from_s in (0.0, 30.0)
        ),
        topics_total=40,
        topics=(
            TopicFigures(
                topic=HOSTILE,
                publications=60,
                rate_msgs_per_s=1.0,
                rate_smoothed_msgs_per_s=1.1,
            ),
        ),
        publishers_total=1,
        publishers=(
            PublisherFigures(
                publisher=HOSTILE,
                published=60,
                homes=("a",),
                deliveries=180,
                audience=(Audience(broker="b", events=60, deliveries=180),),
            ),
        ),
        common_interest=(
            PairFigures(broker="a", other="b", events=10, events_bloom=11),
            PairFigures(broker="b", other="a", events=10, events_bloom=10),
        ),
        bloom_error_share=0.05,
        move_counts=(MoveCount(kind="relocate-publisher", outcome="done", moves=1),),
        moves=(
            MoveFigures(
                at_s=4.0,
                move="m1",
                kind="relocate-publisher",
                broker="a",
                outcome="done",
                reason=HOSTILE,
                gain=2.0,
                cost=1.0,
                details="{}",
            ),
        ),
        quarantined=(QuarantinedFile(HOSTILE, "cannot be read as Parquet"),),
    )


def headline(**figures: Any) -> Figures:
    """Every metric 1, but those given."""
    return {metric.name: 1.0 for metric in REPORTED} | figures


def single() -> Report:
    return Report(gravitate_version="0", run=run_figures())


def double() -> Report:
    first, second = run_figures("before"), run_figures("after", faster=2.0)
    second = msgspec.structs.replace(second, moves=(), move_counts=())
    return Report(
        gravitate_version="0",
        run=first,
        compared=second,
        differences=metrics.differences(first.headline, second.headline),
        caveats=("The seed differs: 1 and 7.",),
    )
