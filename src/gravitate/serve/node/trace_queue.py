"""Traces are written beside the brokers: a bounded queue, and a thread that empties it.

The thread of the brokers only puts groups of rows into the queue; making tables of them and
writing files is done in the other one. Whatever the disk does, brokers go on: rows that do not fit
into the queue, and rows that cannot be written, are dropped and counted. That is said once when it
begins and once when it is over.

Invariants: what waits never weighs more than `bytes_max`; every row that was put is in the end
written or counted as dropped; `close` returns within `close_s_max` and a second. A counter is
changed by one thread only.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Final, Protocol

from gravitate.trace.columns import Group
from gravitate.trace.writer import Sink

logger = logging.getLogger("gravitate.traces")

QUEUE_BYTES: Final = 32 * 2**20
CLOSE_S_MAX: Final = 10.0
"""How long what waits at the end may take to be written."""
LAST_WRITE_S: Final = 1.0
"""How long the write that is under way then is waited for."""
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 5.0
"""Between one that failed and the next attempt."""


class Files(Sink, Protocol):
    """What groups are written to; after something was raised, rows that come begin anew."""

    @property
    def rows_written(self) -> int: ...

    @property
    def rows_unfinished(self) -> int: ...


class TraceQueue:
    """A sink of rows that takes no time; `place` is what people are told about where they go."""

    def __init__(
        self,
        files: Files,
        place: str,
        bytes_max: int = QUEUE_BYTES,
        close_s_max: float = CLOSE_S_MAX,
    ) -> None:
        self._files = files
        self._place = place
        self._bytes_max = bytes_max
        self._close_s_max = close_s_max
        self._waiting: queue.SimpleQueue[tuple[str, Group] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._saying = threading.Lock()
        self._is_losing = False
        self._rows_lost_before = 0
        # A disk that does not answer keeps no process from ending: `close` waits long enough.
        self._thread = threading.Thread(
            target=self._write_all, name="gravitate-traces", daemon=True
        )
        # Changed by the thread of the brokers.
        self._bytes_put = 0
        self._rows_without_room = 0
        self._rows_left = 0
        # Changed by the thread that writes.
        self._bytes_done = 0
        self._rows_taken = 0
        self._rows_written = 0
        self._rows_not_written = 0
        self._rows_when_failed = -1
        self._pause_s = 0.0

    # --- in the thread of the brokers -----------------------------------------------------------

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, table: str, group: Group) -> None:
        """Take the rows in, or drop them when they do not fit."""
        if self._closing.is_set() or self.bytes_waiting + group.size_bytes > self._bytes_max:
            self._rows_without_room += group.rows
            self._say_losing(f"{self.bytes_waiting} bytes of rows wait, no more fit")
            return
        self._bytes_put += group.size_bytes
        self._waiting.put((table, group))

    @property
    def bytes_waiting(self) -> int:
        """The weight of what is not written yet, what is being written included."""
        return self._bytes_put - self._bytes_done

    def counters(self) -> dict[str, int]:
        """What became of the rows so far; those in files that are not complete are in none."""
        not_written = self._rows_not_written + self._rows_left
        return {
            "trace_rows_written": self._rows_written,
            "trace_rows_dropped": self._rows_without_room + not_written,
            "trace_rows_dropped_queue_full": self._rows_without_room,
            "trace_rows_dropped_not_written": not_written,
        }

    def close(self) -> None:
        """Write what waits and complete the files, within bounded time; drop what is left then."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(self._close_s_max)
        if self._thread.is_alive():
            self._drop_waiting()
            self._thread.join(LAST_WRITE_S)
        lost = self.counters()["trace_rows_dropped"]
        if self._thread.is_alive():
            logger.error(
                "traces in %s: the disk does not answer, files stay incomplete", self._place
            )
        elif lost > self._rows_lost_before:
            logger.warning("traces in %s ended; %d rows were lost in all", self._place, lost)

    def _drop_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while (item := self._waiting.get_nowait()) is not None:
                self._rows_left += item[1].rows
        self._waiting.put(None)

    # --- in the thread that writes --------------------------------------------------------------

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            pause_s = self._write(*item)
            del item
            self._closing.wait(pause_s)
        self._attempt(self._files.close)

    def _write(self, table: str, group: Group) -> float:
        """Write a group, or drop it; how long to leave the disk alone afterwards."""
        self._rows_taken += group.rows
        is_written = self._attempt(self._files.put, table, group)
        self._bytes_done += group.size_bytes
        if not is_written:
            self._pause_s = min(max(PAUSE_S_MIN, 2 * self._pause_s), PAUSE_S_MAX)
            return self._pause_s
        if self._rows_written > self._rows_when_failed:
            # Rows that wait in a file may still be lost; one that is complete is proof.
            self._pause_s = 0.0
            if not self.bytes_waiting:
                self._say_going_on()
        return 0.0

    def _attempt(self, step: Callable[..., None], *what: object) -> bool:
        """Whether it went well. Whatever is raised ends here: the rows are counted."""
        failure = ""
        try:
            step(*what)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".splitlines()[0]
            # The room that the failed file leaves may do to complete the others.
            with contextlib.suppress(Exception):
                self._files.close()
        self._rows_written = self._files.rows_written
        settled = self._rows_written + self._files.rows_unfinished
        self._rows_not_written = self._rows_taken - settled
        if failure:
            self._rows_when_failed = self._rows_written
            self._say_losing(failure)
        return not failure

    # --- in both ----------------------------------------------------------------------------------

    def _say_losing(self, why: str) -> None:
        with self._saying:
            if not self._is_losing:
                self._is_losing = True
                logger.warning(
                    "traces in %s cannot be written: %s; rows are dropped and counted",
                    self._place,
                    why,
                )

    def _say_going_on(self) -> None:
        with self._saying:
            if self._is_losing:
                self._is_losing = False
                lost = self.counters()["trace_rows_dropped"]
                logger.warning(
                    "traces in %s are written again; %d rows were lost",
                    self._place,
                    lost - self._rows_lost_before,
                )
                self._rows_lost_before = lost
