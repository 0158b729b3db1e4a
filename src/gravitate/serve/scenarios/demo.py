"""The demo: a tree of 15 brokers on loopback, wide-area latencies, stock quotes, 300 subscribers.

    static = play_act(script, folder / "static")      # blocking; `live=False` shows nothing
    grape = play_act(with_grape(script), folder / "grape")
    console.print(report_table(DemoReport(...)))      # or report_json(report)

The same quotes twice: in the first act publishers stay where they connected, in the second GRAPE
moves them to their audience. Figures are those of the second half of each act, of the same quotes
then, when publishers have moved; what is delivered is judged over all of it.
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
from gravitate.model.moves import RelocatePublisher
from gravitate.serve.node.traces import TraceSettings
from gravitate.serve.scenarios.stage import LiveResult, Stage, staged

VIEW_S: Final = 0.5
"""Between two looks at the network."""
MEASURED_FROM: Final = 0.5
"""The share of an act after which figures are taken."""
GRAPE: Final = {"prioritised": "delay", "session_publications": 50, "confirmations": 1}
"""Quicker to decide than by default: an act is short."""
_MOVES_SHOWN: Final = 3


class Act(Outcome, frozen=True, kw_only=True):
    """What one act amounted to, with the names that `--json` has."""

    published: int
    """In the part that is measured, as all that follows but moves."""
    delay_ms_p50: float
    delay_ms_p99: float
    hops_mean: float
    broker_msgs_per_s_mean: float
    broker_msgs_per_s_max: float
    pure_forwarders: int
    yield_: float = msgspec.field(name="yield")
    moves: int
    traces: str


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    """Of each act."""
    brokers: int
    publishers: int
    subscribers: int
    static: Act
    grape: Act
    network: str = ""
    """The network file of both acts."""
    workload: str = ""
    """Folder of the workload that was played; empty when it was drawn on the spot."""
    page: str = ""
    """The report for people; empty when none was made."""

    def is_sound(self) -> bool:
        return self.static.is_sound() and self.grape.is_sound()


def with_grape(script: Script) -> Script:
    """The same script on brokers that move publishers."""
    network = msgspec.structs.replace(script.network, mechanisms={"grape": dict(GRAPE)})
    return msgspec.structs.replace(script, network=network)


def play_act(
    script: Script, directory: Path, *, live: bool = True, console: Console | None = None
) -> Act:
    """Play the script; traces go into `directory`."""
    return uvloop.run(_play(script, directory, console or Console() if live else None))


async def _play(script: Script, directory: Path, console: Console | None) -> Act:
    settings = TraceSettings(str(directory), scenario=script.name, seed=script.seed)
    measured_from_s = script.duration_s * MEASURED_FROM
    async with (
        staged(script, traces=settings, measured_from_s=measured_from_s) as stage,
        _watched(stage, console),
    ):
        result = await stage.play()
    return reckon(result, directory)


def report_of(script: Script, static: Act, grape: Act) -> DemoReport:
    publishers, subscribers = _roles(script)
    return DemoReport(
        seconds=script.duration_s,
        brokers=len(script.network.brokers),
        publishers=publishers,
        subscribers=subscribers,
        static=static,
        grape=grape,
    )


# --- the scene ----------------------------------------------------------------------------------


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
        f"{len(script.publications)} quotes in {script.duration_s:.0f} s, twice."
    )


def _roles(script: Script) -> tuple[int, int]:
    publishers = {publication.client for publication in script.publications}
    subscribers = sum(bool(client.subscriptions) for client in script.clients)
    return len(publishers), subscribers


# --- the network at work ------------------------------------------------------------------------


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
    return Group(table, summary, *_moves(stage))


def _moves(stage: Stage) -> list[Text]:
    """The latest moves, where there is anything that moves."""
    if not stage.script.network.mechanisms:
        return []
    done = stage.moves.done
    latest = ", ".join(
        f"{move.publisher} {move.source} > {move.target}"
        for move in done[-_MOVES_SHOWN:]
        if isinstance(move, RelocatePublisher)
    )
    return [Text(f"publishers moved: {len(done)}   {latest}")]


# --- the reckoning ------------------------------------------------------------------------------


def reckon(result: LiveResult, directory: Path) -> Act:
    """The figures of an act."""
    metrics = result.metrics
    assert metrics is not None, "the demo's brokers run in this process"
    outcome = {name: getattr(result, name) for name in Outcome.__struct_fields__}
    return Act(
        **outcome,
        published=metrics.published,
        delay_ms_p50=round(result.delay_ms_p50, 3),
        delay_ms_p99=round(result.delay_ms_p99, 3),
        hops_mean=round(metrics.hops_mean, 3),
        broker_msgs_per_s_mean=round(metrics.broker_rate_msgs_per_s_mean, 1),
        broker_msgs_per_s_max=round(metrics.broker_rate_msgs_per_s_max, 1),
        pure_forwarders=metrics.pure_forwarders,
        yield_=round(metrics.yield_share, 4),
        moves=result.moves,
        traces=str(directory),
    )


def report_json(report: DemoReport) -> str:
    """The report as one JSON object."""
    return msgspec.json.encode(report).decode()


def report_table(report: DemoReport) -> Table:
    """The report for people: before and after."""
    table = Table(
        title=f"{report.brokers} brokers, {report.publishers} publishers, "
        f"{report.subscribers} subscribers, {report.seconds:.0f} s each",
        title_justify="left",
    )
    for heading in ("", "static", "with GRAPE", "change"):
        table.add_column(heading, justify="right" if heading else "left")
    acts = (report.static, report.grape)
    table.add_row("delivered of expected", *(f"{a.delivered:,} of {a.expected:,}" for a in acts))
    table.add_row("duplicates", *(f"{act.duplicates:,}" for act in acts))
    table.add_row("out of order", *(f"{act.out_of_order:,}" for act in acts))
    table.add_row("publishers moved", *(f"{act.moves:,}" for act in acts), end_section=True)
    for what, field, shown in (
        ("delay p50", "delay_ms_p50", "{:.1f} ms"),
        ("delay p99", "delay_ms_p99", "{:.1f} ms"),
        ("hops, mean", "hops_mean", "{:.2f}"),
        ("messages per broker, mean", "broker_msgs_per_s_mean", "{:,.0f} /s"),
        ("messages per broker, most", "broker_msgs_per_s_max", "{:,.0f} /s"),
        ("arrivals at pure forwarders", "pure_forwarders", "{:,}"),
        ("yield", "yield_", "{:.1%}"),
    ):
        before, after = (getattr(act, field) for act in acts)
        change = f"{100 * (after / before - 1):+.0f} %" if before else ""
        table.add_row(what, shown.format(before), shown.format(after), change)
    table.caption = "lower part: of the quotes of the second half, when publishers have moved"
    table.caption_justify = "left"
    return table
