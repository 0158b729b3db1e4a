"""Broker processes that can be started, killed and paused, each as an operator would run it.

A broker is `gravitate broker FILE ID` with a network file and a log of its own. Owns the processes,
what they take of memory, and which of them ended though nobody had ended them. Does not know why
somebody ends one.

Invariants: no process outlives `close`, nor on Linux the run, however that ends; one that is paused
is resumed or killed there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import psutil

from gravitate.config import network as networks
from gravitate.config.network import Network
from gravitate.serve.node.status import NodeStatus, Readiness
from gravitate.torture.asking import NoAnswer, ask

READY_S_MAX: Final = 90.0
"""How long brokers may take to start and be ready; the first ones may have to compile."""
STOP_S_MAX: Final = 25.0
LOOK_EVERY_S: Final = 0.1
WATCH_EVERY_S: Final = 0.5
MIB: Final = 1024 * 1024
ERROR: Final = re.compile(r"^Traceback \(most recent|^\S+ \S+ (?:ERROR|CRITICAL) ", re.MULTILINE)


_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


def _end_with_parent() -> None:
    """In a new process: when the run is killed and cannot end its brokers, the system does."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Memory(msgspec.Struct):
    """Resident memory of one broker, over all its processes, in MiB."""

    first_mib: float = 0.0
    last_mib: float = 0.0
    max_mib: float = 0.0

    def note(self, mib: float) -> None:
        self.first_mib = self.first_mib or mib
        self.last_mib = mib
        self.max_mib = max(self.max_mib, mib)


class Broker:
    """One broker of the network, whatever process it has."""

    def __init__(self, view: Network, id: str, directory: Path) -> None:
        (spec,) = [one for one in view.brokers if one.id == id]
        self.id = id
        self.address = spec.address
        self.memory = Memory()
        self.log = directory / f"{id}.log"
        self._file = directory / f"{id}.toml"
        networks.save(view, self._file)
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False

    # --- what can be done to it -----------------------------------------------------------------

    def start(self) -> None:
        assert self._process is None, f"{self.id} runs"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gravitate", "broker", str(self._file), self.id],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        self._wanted = True

    async def kill(self) -> None:
        process = self._let_go()
        process.kill()
        await asyncio.to_thread(process.wait)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on; one that has ended meanwhile does not."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> int:
        """End it in order, by force when that takes too long; its exit status."""
        process = self._let_go()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return await asyncio.to_thread(process.wait, STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return await asyncio.to_thread(process.wait)

    def end_at_once(self) -> None:
        """Whatever state it is in; for when nothing is judged any more."""
        if self._process is not None:
            process = self._let_go()
            process.kill()
            process.wait()

    def _let_go(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.id} does not run"
        process, self._process, self._wanted = self._process, None, False
        return process

    # --- what can be asked of it ----------------------------------------------------------------

    def ended_by_itself(self) -> int | None:
        """The exit status of a process that nobody ended; None while it runs, and once told."""
        if self._process is None or not self._wanted or self._process.poll() is None:
            return None
        return self._let_go().returncode

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def note_memory(self) -> None:
        if self._process is not None:
            with contextlib.suppress(psutil.Error):
                self.memory.note(psutil.Process(self._process.pid).memory_info().rss / MIB)

    async def is_ready(self) -> bool:
        """Whether it says so, and has no link that is down."""
        try:
            status, told = await ask(self.address, "/ready", Readiness)
        except NoAnswer:
            return False
        return status == 200 and not told.down

    async def await_ready(self, within_s: float = READY_S_MAX) -> bool:
        """Until it is ready; False when it is not in time."""
        try:
            async with asyncio.timeout(within_s):
                while not await self.is_ready():
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            return False
        return True

    async def queued_events(self, peer: str) -> int:
        """What waits for a neighbour; 0 when it does not answer."""
        try:
            _, told = await ask(self.address, "/status", NodeStatus)
        except NoAnswer:
            return 0
        return sum(link.queue_events for link in told.links if link.peer == peer)

    def errors_logged(self) -> list[str]:
        """What its log has of errors and tracebacks: the first line of each."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [
            f"{self.id}: {text[found.start() :].splitlines()[0][:300]}"
            for found in ERROR.finditer(text)
        ]


class Brokers:
    """All brokers of a run."""

    def __init__(self, views: dict[str, Network], directory: Path) -> None:
        self.by_id = {id: Broker(view, id, directory) for id, view in views.items()}
        self.ended: list[str] = []
        """Those that ended by themselves, each with its exit status."""

    async def start(self) -> bool:
        """Start all of them; whether they came to be ready."""
        for broker in self.by_id.values():
            broker.start()
        ready = await asyncio.gather(*(one.await_ready() for one in self.by_id.values()))
        return all(ready)

    async def watch(self) -> None:
        """Note what they take of memory and who ends, until cancelled."""
        while True:
            for broker in self.by_id.values():
                broker.note_memory()
            self._note_ended()
            await asyncio.sleep(WATCH_EVERY_S)

    def _note_ended(self) -> None:
        for broker in self.by_id.values():
            status = broker.ended_by_itself()
            if status is not None:
                self.ended.append(f"{broker.id} ended by itself with status {status}")

    def running(self) -> list[Broker]:
        return [one for one in self.by_id.values() if one.runs]

    async def stop(self) -> None:
        """End all in order; one that does not, or has ended already, is noted."""
        self._note_ended()
        running = self.running()
        statuses = await asyncio.gather(*(one.stop() for one in running))
        for broker, status in zip(running, statuses, strict=True):
            if status:
                self.ended.append(f"{broker.id} ended with status {status} when it was stopped")

    def close(self) -> None:
        for broker in self.by_id.values():
            broker.end_at_once()

    def errors_logged(self) -> list[str]:
        return [line for broker in self.by_id.values() for line in broker.errors_logged()]
