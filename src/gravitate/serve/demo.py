"""The demo: a tree of 15 brokers on loopback, wide-area latencies, stock quotes, 300 subscribers.

    report = run_demo(script, folder)     # blocking; `live=False` shows nothing while it runs
    console.print(report_table(report))   # or report_json(report)

One function per act: the scene is introduced, the network comes up and is watched while the
script is played, the reckoning is shown. A mechanism that joins the demo later adds an act.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import uvloop
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gravitate.config.outcome import Outcome
from gravitate.config.script import Script
from gravitate.serve.stage import LiveResult, Stage, staged
from gravitate.serve.traces import TraceSettings

VIEW_S: Final = 0.5
"""Between two looks at the network."""


class DemoReport(Outcome, frozen=True, kw_only=True):
    """What the demo amounted to, with the names that `--json` has."""

    seconds: float
    brokers: int
    publishers: int
    subscribers: int
    published: int
    delay_ms_p50: float
    delay_ms_p99: float
    hops_mean: float
    broker_msgs_per_s_mean: float
    broker_msgs_per_s_max: float
    pure_forwarders: int
    yield_: float = msgspec.field(name="yield")
    traces: str = ""
    workload: str = ""
    """Folder of the workload that was played; empty when it was drawn on the spot."""
    page: str = ""
    """The report for people; empty when none was made."""


def run_demo(
    script: Script, directory: Path, *, live: bool = True, console: Console | None = None
) -> DemoReport:
    """Play the script; traces go into `directory`."""
    return uvloop.run(_play(script, directory, console or Console() if live else None))


async def _play(script: Script, directory: Path, console: Console | None) -> DemoReport:
    settings = TraceSettings(str(directory), scenario=script.name, seed=script.seed)
    if console is not None:
        introduce(script, console)
    async with staged(script, traces=settings) as stage, _watched(stage, console):
        result = await stage.play()
    return reckon(script, result, directory)


# --- act one: the scene -------------------------------------------------------------------------


def introduce(script: Script, console: Console) -> None:
    """Say what is about to be seen."""
    network = script.network
    latencies_ms = [link.latency_ms for link in network.links]
    publishers, subscribers = _roles(script)
    console.print(
        f"[bold]{len(network.brokers)} brokers[/] in a tree on loopback, links of "
        f"{min(latencies_ms):.0f} to {max(latencies_ms):.0f} ms one way; "
        f"[bold]{publishers} publishers[/] of stock quotes, "
        f"[bold]{subscribers} subscribers[/] with a condition each; "
        f"{len(script.publications)} quotes in {script.duration_s:.0f} s. Everybody connects ..."
    )


def _roles(script: Script) -> tuple[int, int]:
    publishers = {publication.client for publication in script.publications}
    subscribers = sum(bool(client.subscriptions) for client in script.clients)
    return len(publishers), subscribers


# --- act two: the network at work ---------------------------------------------------------------


@contextlib.asynccontextmanager
async def _watched(stage: Stage, console: Console | None) -> AsyncIterator[None]:
    if console is None:
        yield
        return
    with Live(console=console, auto_refresh=False, transient=True) as view:
        watching = asyncio.create_task(_watch(stage, view))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])


async def _watch(stage: Stage, view: Live) -> None:
    before: dict[str, int] = {}
    at_s = time.monotonic()
    while True:
        await asyncio.sleep(VIEW_S)
        now_s = time.monotonic()
        view.update(show(stage, before, now_s - at_s), refresh=True)
        before, at_s = dict(stage.metrics.messages), now_s


def show(stage: Stage, before: dict[str, int], interval_s: float) -> Group:
    """The network at this moment; `before` are the brokers' message counts `interval_s` ago."""
    assert stage.live is not None
    table = Table("broker", "clients", "links up", "rtt ms", "msgs/s", "delivered", "queued")
    for column in table.columns[1:]:
        column.justify = "right"
    for broker_id, node in stage.live.nodes.items():
        status = node.status()
        messages = stage.metrics.messages[broker_id] - before.get(broker_id, 0)
        rtts_ms = [link.rtt_ms for link in status.links if link.rtt_ms]
        table.add_row(
            broker_id,
            str(status.sessions),
            f"{sum(link.state == 'up' for link in status.links)}/{len(status.links)}",
            f"{max(rtts_ms):.0f}" if rtts_ms else "-",
            f"{messages / interval_s:.0f}",
            str(status.counters["events_delivered"]),
            str(sum(link.queue_events for link in status.links)),
        )
    audience, duration_s = stage.audience, stage.script.duration_s
    p50_ms, p99_ms = audience.percentile_ms(0.5), audience.percentile_ms(0.99)
    summary = Text.assemble(
        (f"{min(stage.elapsed_s, duration_s):4.0f} of {duration_s:.0f} s   ", "dim"),
        (f"{len(audience.received)}", "bold"),
        f" of {len(audience.wanted)} deliveries   ",
        f"delay p50 {p50_ms:.0f} ms, p99 {p99_ms:.0f} ms   ",
        f"duplicates {audience.duplicates}   out of order {audience.out_of_order}",
    )
    return Group(table, summary)


# --- act three: the reckoning -------------------------------------------------------------------


def reckon(script: Script, result: LiveResult, directory: Path) -> DemoReport:
    """The figures of the run."""
    metrics = result.metrics
    assert metrics is not None, "the demo's brokers run in this process"
    publishers, subscribers = _roles(script)
    outcome = {name: getattr(result, name) for name in Outcome.__struct_fields__}
    return DemoReport(
        **outcome,
        seconds=script.duration_s,
        brokers=len(script.network.brokers),
        publishers=publishers,
        subscribers=subscribers,
        published=metrics.published,
        delay_ms_p50=round(result.delay_ms_p50, 3),
        delay_ms_p99=round(result.delay_ms_p99, 3),
        hops_mean=round(metrics.hops_mean, 3),
        broker_msgs_per_s_mean=round(metrics.broker_rate_msgs_per_s_mean, 1),
        broker_msgs_per_s_max=round(metrics.broker_rate_msgs_per_s_max, 1),
        pure_forwarders=metrics.pure_forwarders,
        yield_=round(metrics.yield_share, 4),
        traces=str(directory),
    )


def report_json(report: DemoReport) -> str:
    """The report as one JSON object."""
    return msgspec.json.encode(report).decode()


def report_table(report: DemoReport) -> Table:
    """The report for people."""
    table = Table(
        title=f"{report.brokers} brokers, {report.publishers} publishers, "
        f"{report.subscribers} subscribers, {report.seconds:.0f} s",
        show_header=False,
        title_justify="left",
    )
    table.add_column()
    table.add_column(justify="right")
    share = report.delivered / report.expected if report.expected else 1.0
    rows: list[tuple[str, str]] = [
        ("published", f"{report.published:,}"),
        ("expected deliveries", f"{report.expected:,}"),
        ("delivered", f"{report.delivered:,} ({100 * share:.1f} %)"),
        ("duplicates", f"{report.duplicates:,}"),
        ("out of order", f"{report.out_of_order:,}"),
        ("delay p50", f"{report.delay_ms_p50:.1f} ms"),
        ("delay p99", f"{report.delay_ms_p99:.1f} ms"),
        ("hops, mean", f"{report.hops_mean:.2f}"),
        ("messages per broker, mean", f"{report.broker_msgs_per_s_mean:,.0f} /s"),
        ("messages per broker, most", f"{report.broker_msgs_per_s_max:,.0f} /s"),
        ("arrivals at pure forwarders", f"{report.pure_forwarders:,}"),
        ("yield", f"{100 * report.yield_:.1f} %"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table
