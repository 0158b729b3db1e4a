"""Brokers as processes: some of a network here, or one process a broker.

Owns signals, supervision and the orderly end: SIGINT and SIGTERM stop every broker in order, a
child that crashes is reported and ends the rest, children whose parent has vanished stop by
themselves. A broker that has its process to itself can be asked to restart: it ends in order with
`RESTART_STATUS`, and whoever runs the process starts it again. Does not know how a node is made
(`network` does).

Invariants: no child outlives `Supervisor.stop`; the exit status is 0 only if every broker ended
in order, and `RESTART_STATUS` only if one did that was asked to restart.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from types import FrameType, TracebackType
from typing import Final

import msgspec
import uvloop

from gravitate.broker.options import BrokerOptions
from gravitate.config.network import Network
from gravitate.errors import GravitateError, InputError
from gravitate.serve.control.network import up
from gravitate.serve.logs import set_up
from gravitate.serve.node.trace_queue import CLOSE_S_MAX
from gravitate.serve.node.traces import TraceSettings, TraceSink
from gravitate.serve.warm import warm_up

logger = logging.getLogger("gravitate.processes")

START_TIMEOUT_S: Final = 60.0
STOP_MARGIN_S: Final = 5.0
RESTART_STATUS: Final = 75
"""Exit status of a process that wants to be started again: that of `sysexits.h` for "try again"."""
ANSWER_S: Final = 0.1
"""How long a broker that was asked to restart goes on, so that the answer is out."""
COLLECT_AFTER: Final = 100_000
"""New objects between two looks of the cycle collector."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class RunSettings(msgspec.Struct, frozen=True):
    """How brokers run: the same for one process and for many."""

    emulate_latency: bool = False
    options: BrokerOptions | None = None
    """None: those of the network file."""
    traces: TraceSettings | None = None
    log_level: int = logging.WARNING


DEFAULT_SETTINGS: Final = RunSettings()


def _nothing() -> None:
    """The default of `on_ready`."""


# --- brokers in this process --------------------------------------------------------------------


def run_network(
    network: Network,
    settings: RunSettings = DEFAULT_SETTINGS,
    brokers: Sequence[str] | None = None,
    on_ready: Callable[[], None] = _nothing,
) -> int:
    """Run all brokers of the network, or those named, here until a signal; the exit status.

    One broker alone may be asked to restart: then the status is `RESTART_STATUS`."""
    return uvloop.run(_serve(network, settings, brokers, on_ready, None))


class _End:
    """When a process is to end, and whether it is to be started again."""

    def __init__(self) -> None:
        self.has_come = asyncio.Event()
        self.is_restart = False

    def for_good(self) -> None:
        self.is_restart = False
        self.has_come.set()

    def restart(self) -> None:
        if not self.has_come.is_set():
            self.is_restart = True
            asyncio.get_running_loop().call_later(ANSWER_S, self.has_come.set)


async def _serve(
    network: Network,
    settings: RunSettings,
    brokers: Sequence[str] | None,
    on_ready: Callable[[], None],
    lifeline: Connection | None,
) -> int:
    loop = asyncio.get_running_loop()
    end = _End()
    for number in SIGNALS:
        loop.add_signal_handler(number, end.for_good)
    if lifeline is not None:
        # Nothing is ever sent to a child: its lifeline reads only when the parent has gone.
        loop.add_reader(lifeline.fileno(), end.for_good)
    is_alone = brokers is not None and len(brokers) == 1
    warm_up()
    quieten_collector()
    with TraceSink(settings.traces, network, brokers) as sink:
        live = await up(
            network,
            brokers=brokers,
            emulate_latency=settings.emulate_latency,
            observers=sink.observers,
            counters=sink.counters,
            options=settings.options,
            restart=end.restart if is_alone else None,
        )
        async with live:
            on_ready()
            stopping = loop.create_task(end.has_come.wait())
            failing = loop.create_task(live.wait())
            noting = loop.create_task(sink.note_round_trips(live.nodes.values()))
            await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            failed = failing.done() and failing.exception() is not None
            for task in (stopping, failing, noting):
                task.cancel()
    if failed:
        return 1
    return RESTART_STATUS if end.is_restart else 0


def quieten_collector() -> None:
    """Batches die by reference counting; looking for cycles among them is wasted time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 100)


# --- one process a broker -----------------------------------------------------------------------


def _child(network: Network, broker_id: str, settings: RunSettings, report: Connection) -> None:
    """Body of a child: says `ready` or what went wrong, then runs until told to stop."""
    set_up(settings.log_level)
    try:
        status = uvloop.run(
            _serve(network, settings, [broker_id], lambda: report.send("ready"), report)
        )
    except GravitateError as error:
        report.send(str(error))
        status = 1
    raise SystemExit(status)


class Supervisor:
    """One process for each broker of a network; a context manager.

    Children are forked from a server that has imported and compiled everything once, so that
    many start quickly and none inherits the state of this process."""

    def __init__(self, network: Network, settings: RunSettings = DEFAULT_SETTINGS) -> None:
        self.network = network
        self.settings = settings
        self.processes: dict[str, ForkServerProcess] = {}
        self._reports: dict[str, Connection] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["gravitate.serve.control.forked"])

    def start(self) -> None:
        """Start every broker and wait until each has opened its doors."""
        for spec in self.network.brokers:
            self._launch(spec.id)
        for broker_id in self.processes:
            self._await_ready(broker_id)

    def _launch(self, broker_id: str) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_child,
            args=(self.network, broker_id, self.settings, theirs),
            name=f"gravitate-{broker_id}",
        )
        process.start()
        theirs.close()
        self.processes[broker_id] = process
        self._reports[broker_id] = ours

    def _await_ready(self, broker_id: str) -> None:
        report = self._reports[broker_id]
        if not report.poll(START_TIMEOUT_S):
            raise InputError(f"broker {broker_id!r} did not start in {START_TIMEOUT_S:g} s")
        try:
            said = report.recv()
        except EOFError:
            said = f"it ended with status {self.processes[broker_id].exitcode}"
        if said != "ready":
            raise InputError(f"broker {broker_id!r} did not start: {said}")

    def start_again(self, broker_id: str) -> bool:
        """Launch a broker that has ended, if it was asked to restart; whether it was.

        It is not waited for: one that does not start ends, and says why in its `last_words`."""
        process = self.processes[broker_id]
        process.join()
        if process.exitcode != RESTART_STATUS:
            return False
        self._reports.pop(broker_id).close()
        self._launch(broker_id)
        return True

    def last_words(self, broker_id: str) -> str:
        """What kept a broker that has ended from starting; empty when nothing did."""
        report, said = self._reports[broker_id], ""
        while not report.closed and report.poll():
            try:
                said = report.recv()
            except EOFError:
                break
        return "" if said == "ready" else said

    def wait_for_end(self, timeout_s: float | None = None, wake: int | None = None) -> list[str]:
        """Until children end; their brokers. Empty after `timeout_s`, or when `wake` reads."""
        sentinels = {process.sentinel: name for name, process in self.processes.items()}
        watched = [*sentinels] if wake is None else [wake, *sentinels]
        ended = wait(watched, timeout_s)
        return [sentinels[one] for one in ended if one in sentinels] if wake not in ended else []

    def stop(self) -> dict[str, int]:
        """Stop every broker in order, by force where that takes too long; exit statuses."""
        for process in self.processes.values():
            process.terminate()
        writing_s = 0.0 if self.settings.traces is None else CLOSE_S_MAX
        options = self.settings.options or self.network.options
        stopping_s = options.stop_s_max or math.inf
        deadline = time.monotonic() + stopping_s + writing_s + STOP_MARGIN_S
        statuses = {}
        for broker_id, process in self.processes.items():
            left_s = max(0.0, deadline - time.monotonic())
            process.join(left_s if left_s < math.inf else None)
            if process.is_alive():
                logger.error("broker %s did not stop in time and is killed", broker_id)
                process.kill()
                process.join()
            status = process.exitcode or 0
            statuses[broker_id] = 0 if status == RESTART_STATUS else status
        for report in self._reports.values():
            report.close()
        self.processes.clear()
        self._reports.clear()
        return statuses

    def __enter__(self) -> Supervisor:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def run_processes(
    network: Network,
    settings: RunSettings = DEFAULT_SETTINGS,
    on_ready: Callable[[], None] = _nothing,
) -> int:
    """Run the network with one process a broker until a signal or a crash; the exit status."""
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)

    def wake(number: int, frame: FrameType | None) -> None:
        os.write(wake_out, b"!")

    former = {number: signal.signal(number, wake) for number in SIGNALS}
    supervisor = Supervisor(network, settings)
    crashed: list[str] = []
    try:
        supervisor.start()
        on_ready()
        crashed = _supervised(supervisor, wake_in)
    finally:
        statuses = supervisor.stop()
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(wake_in)
        os.close(wake_out)
    return 1 if crashed or any(statuses.values()) else 0


def _supervised(supervisor: Supervisor, wake: int) -> list[str]:
    """Start brokers again that were asked to restart, until `wake` reads or others end: these."""
    while ended := supervisor.wait_for_end(wake=wake):
        crashed = [name for name in ended if not supervisor.start_again(name)]
        for name in crashed:
            status, said = supervisor.processes[name].exitcode, supervisor.last_words(name)
            why = f": {said}" if said else ""
            logger.error("broker %s ended by itself with status %s%s", name, status, why)
        if crashed:
            return crashed
    return []
