"""`gravitate up`, `broker`, `status`: run brokers on sockets, and ask them how they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
import typer

from gravitate.cli import output
from gravitate.cli.networks import NetworkFile, load
from gravitate.cli.options import from_structs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gravitate.config.network import BrokerSpec, Network
    from gravitate.serve.control.processes import RunSettings
    from gravitate.serve.node.status import NodeStatus

Trace = Annotated[
    Path | None, typer.Option("--trace", metavar="DIR", help="Write traces below DIR.")
]
Sampling = Annotated[
    float, typer.Option(help="Share of all events that traces keep, 0 to 1.", min=0.0, max=1.0)
]


class Running(msgspec.Struct, frozen=True):
    """How brokers are run, as options of a command."""

    emulate_latency: Annotated[
        bool, typer.Option("--emulate-latency", help="Delay links by the latencies in the file.")
    ] = False
    trace: Trace = None
    sampling: Sampling = 1.0
    trace_queue_mb: Annotated[
        int,
        typer.Option(
            metavar="MB",
            help="Memory for rows of traces that wait to be written; more are dropped and counted.",
            min=1,
        ),
    ] = 32
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False

    def settings(self) -> RunSettings:
        import logging

        from gravitate.serve.control.processes import RunSettings
        from gravitate.serve.logs import set_up
        from gravitate.serve.node.traces import TraceSettings

        level = logging.INFO if self.verbose else logging.WARNING
        set_up(level)
        traces = None
        if self.trace is not None:
            queue_bytes = self.trace_queue_mb * 2**20
            traces = TraceSettings(str(self.trace), self.sampling, queue_bytes=queue_bytes)
        return RunSettings(emulate_latency=self.emulate_latency, traces=traces, log_level=level)


def complete_broker(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids in the network file that stands before on the command line."""
    from gravitate.errors import GravitateError

    try:
        network = load(Path(str(ctx.params.get("path", ""))))
    except GravitateError:
        return []
    return [broker.id for broker in network.brokers if broker.id.startswith(incomplete)]


@from_structs
def up(
    path: NetworkFile,
    how: Running,
    processes: Annotated[
        bool, typer.Option("--processes", help="One process a broker instead of one for all.")
    ] = False,
) -> None:
    """Run all brokers of a network here, until Ctrl-C."""
    network = load(path)
    if how.trace is not None:
        from gravitate.trace.manifest import check_unused

        check_unused(how.trace)
    settings = how.settings()
    from gravitate.serve.control import processes as running

    def ready() -> None:
        _show_addresses(network, network.brokers)
        output.say(f"network '{network.name}' is up; Ctrl-C ends it")

    output.say(f"starting {len(network.brokers)} brokers ...")
    if processes:
        status = running.run_processes(network, settings, ready)
    else:
        status = running.run_network(network, settings, None, ready)
    raise typer.Exit(status)


@from_structs
def broker(
    path: NetworkFile,
    broker_id: Annotated[
        str, typer.Argument(metavar="ID", help="Which broker.", autocompletion=complete_broker)
    ],
    how: Running,
) -> None:
    """Run one broker of a network here, until Ctrl-C.

    When it is asked to restart, this command starts anew with what it was given."""
    network = load(path)
    settings = how.settings()
    from gravitate.serve.control.network import broker_spec
    from gravitate.serve.control.processes import RESTART_STATUS, run_network

    spec = broker_spec(network, broker_id)

    def ready() -> None:
        _show_addresses(network, [spec])
        output.say(f"broker '{broker_id}' is up; Ctrl-C ends it")

    output.say(f"starting broker '{broker_id}' ...")
    status = run_network(network, settings, [broker_id], ready)
    if status == RESTART_STATUS:
        output.say(f"restarting broker '{broker_id}' ...")
        _begin_anew()
    raise typer.Exit(status)


def _begin_anew() -> NoReturn:
    """Be replaced by the same command, in the same process: with the software and the files as they
    are now."""
    import os
    import sys

    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def status(path: NetworkFile, json: output.AsJson = False) -> None:
    """Ask every broker with an http port how it is. Exit status 1 when one does not answer."""
    from gravitate.operate.asking import statuses
    from gravitate.overlay.topology import Topology

    network = load(path)
    answers = statuses(network)
    silent = {broker.id for broker in network.brokers if not broker.address.http}
    if json:
        output.show_json(
            {
                broker: answer
                or {"broker": broker, "unreachable": True, "http_port": broker not in silent}
                for broker, answer in answers.items()
            }
        )
    else:
        output.show_table(
            ("broker", "state", "uptime (s)", "sessions", "links up", "rtt, most (ms)", "queued"),
            [_status_row(broker, answer, broker in silent) for broker, answer in answers.items()],
            title=f"network '{network.name}'",
        )
        told = {broker: answer.topology for broker, answer in answers.items() if answer}
        for one, other in Topology.of(told).differences:
            output.say(f"{one} names {other} as its neighbour, {other} does not name {one}")
    raise typer.Exit(0 if all(answers[broker] for broker in answers.keys() - silent) else 1)


def _status_row(broker: str, answer: NodeStatus | None, silent: bool) -> Sequence[object]:
    if answer is None:
        state = "no http port" if silent else "no answer"
        return (broker, state, None, None, None, None, None)
    links_up = sum(link.state == "up" for link in answer.links)
    return (
        broker,
        "up",
        round(answer.uptime_s, 1),
        answer.sessions,
        f"{links_up} of {len(answer.links)}",
        max((link.rtt_ms for link in answer.links), default=0.0),
        sum(link.queue_events for link in answer.links),
    )


def _show_addresses(network: Network, brokers: Sequence[BrokerSpec]) -> None:
    rows = []
    for spec in brokers:
        address = spec.address
        ports = (str(port or "-") for port in (address.mqtt, address.peer, address.http))
        rows.append((spec.id, address.host, *ports))
    output.show_table(
        ("broker", "host", "mqtt", "peer", "http"), rows, title=f"network '{network.name}'"
    )
