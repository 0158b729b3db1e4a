"""How much memory a job takes at most: this process and everything it started, Java included."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final

import psutil

INTERVAL_S: Final = 0.5


class PeakMemory:
    """Watches while its block runs; `peak_gib` is the most that was seen.

    Memory that processes share is counted once where the system can tell (Linux), so that
    forked workers do not count what they have in common."""

    def __init__(self) -> None:
        self.peak_gib = 0.0
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._watcher.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while True:
            taken = sum(_bytes(process) for process in (me, *me.children(recursive=True)))
            self.peak_gib = max(self.peak_gib, taken / 2**30)
            if self._ended.wait(INTERVAL_S):
                return


def _bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0  # it has just ended
    return int(getattr(memory, "pss", memory.rss))
