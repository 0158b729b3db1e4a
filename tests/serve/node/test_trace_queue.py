"""Rows of traces are taken in whatever the disk does, within a bound, and accounted for."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gravitate.serve.node import trace_queue
from gravitate.serve.node.trace_queue import PAUSE_S_MAX, PAUSE_S_MIN, TraceQueue
from gravitate.trace.columns import Group

DEADLINE_S = 10.0


class Rows:
    """A group whose content matters to nobody."""

    def __init__(self, name: str, rows: int = 10, size_bytes: int = 1000) -> None:
        self.name = name
        self.rows = rows
        self.size_bytes = size_bytes

    def table(self) -> None: ...


class FakeFiles:
    """Files that are complete after each group, on a disk that can be made to fail or hang."""

    def __init__(self) -> None:
        self.rows_written = 0
        self.rows_unfinished = 0
        self.failure: Exception | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.begun = threading.Event()
        self.written: list[str] = []
        self.threads: set[str] = set()
        self.closed = 0

    def put(self, table: str, group: Group) -> None:
        assert isinstance(group, Rows)
        self.threads.add(threading.current_thread().name)
        self.begun.set()
        self.goes_on.wait(DEADLINE_S)
        if self.failure is not None:
            raise self.failure
        self.written.append(group.name)
        self.rows_written += group.rows

    def close(self) -> None:
        self.closed += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_queue, "PAUSE_S_MIN", 0.001)
    monkeypatch.setattr(trace_queue, "PAUSE_S_MAX", 0.001)


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.001)


def started(files: FakeFiles, **bounds: Any) -> TraceQueue:
    queue = TraceQueue(files, "traces", **bounds)
    queue.start()
    return queue


def figures(queue: TraceQueue) -> tuple[int, int, int]:
    """Rows written, without room in the queue, and not written."""
    counters = queue.counters()
    without_room = counters["trace_rows_dropped_queue_full"]
    not_written = counters["trace_rows_dropped_not_written"]
    assert counters["trace_rows_dropped"] == without_room + not_written
    return counters["trace_rows_written"], without_room, not_written


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_groups_are_written_in_order_in_another_thread_that_ends(files: FakeFiles) -> None:
    queue = started(files)
    for name in "abc":
        queue.put("hops", Rows(name))
    queue.close()
    assert files.written == ["a", "b", "c"]
    assert files.threads == {"gravitate-traces"}
    assert files.closed == 1
    assert figures(queue) == (30, 0, 0)
    assert "gravitate-traces" not in {thread.name for thread in threading.enumerate()}


def test_what_waits_stays_within_the_bound_and_the_rest_is_counted(
    files: FakeFiles, caplog: pytest.LogCaptureFixture
) -> None:
    files.goes_on.clear()
    queue = started(files, bytes_max=5_000)
    for number in range(1000):
        queue.put("hops", Rows(str(number)))
        assert queue.bytes_waiting <= 5_000
    assert figures(queue) == (0, 9_950, 0)
    assert said(caplog) == [
        "traces in traces cannot be written: 5000 bytes of rows wait, no more fit; "
        "rows are dropped and counted"
    ]
    files.goes_on.set()
    eventually(lambda: len(said(caplog)) == 2)
    assert said(caplog)[1] == "traces in traces are written again; 9950 rows were lost"
    assert queue.bytes_waiting == 0
    queue.put("hops", Rows("late"))
    queue.close()
    assert files.written == ["0", "1", "2", "3", "4", "late"]
    assert figures(queue) == (60, 9_950, 0)
    assert len(said(caplog)) == 2


def test_a_group_heavier_than_the_whole_queue_is_dropped(files: FakeFiles) -> None:
    queue = started(files, bytes_max=5_000)
    queue.put("hops", Rows("heavy", size_bytes=5_001))
    queue.put("hops", Rows("light"))
    queue.close()
    assert files.written == ["light"]
    assert figures(queue) == (10, 10, 0)


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        FileNotFoundError("the folder has vanished"),
        OverflowError("Python int too large to convert to C long"),
        MemoryError(),
    ],
)
def test_what_cannot_be_written_is_counted_and_said_once_until_it_can(
    files: FakeFiles, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    queue = started(files)
    files.failure = failure
    for number in range(5):
        queue.put("hops", Rows(str(number)))
    eventually(lambda: figures(queue) == (0, 0, 50))
    (text,) = said(caplog)
    assert text.startswith(f"traces in traces cannot be written: {type(failure).__name__}: ")
    files.failure = None
    queue.put("hops", Rows("a"))
    eventually(lambda: len(said(caplog)) == 2)
    assert said(caplog)[1] == "traces in traces are written again; 50 rows were lost"
    files.failure = failure
    queue.put("hops", Rows("b"))
    eventually(lambda: figures(queue) == (10, 0, 60))
    files.failure = None
    queue.put("hops", Rows("c"))
    queue.close()
    assert said(caplog)[3] == "traces in traces are written again; 10 rows were lost"
    assert files.written == ["a", "c"]
    assert figures(queue) == (20, 0, 60)


def test_rows_of_a_file_that_is_lost_later_are_counted_then(files: FakeFiles) -> None:
    queue = started(files)
    files.rows_written -= 10  # the group goes into a file that is not complete
    files.rows_unfinished += 10
    queue.put("hops", Rows("a"))
    eventually(lambda: files.written == ["a"])
    assert figures(queue)[2] == 0
    files.rows_unfinished -= 10
    files.failure = OSError("the file has vanished")
    queue.put("hops", Rows("b"))
    eventually(lambda: figures(queue) == (0, 0, 20))
    queue.close()


def test_pauses_between_failures_grow_to_a_bound_and_end_with_the_trouble(
    files: FakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_queue, "PAUSE_S_MIN", PAUSE_S_MIN)
    monkeypatch.setattr(trace_queue, "PAUSE_S_MAX", PAUSE_S_MAX)
    queue = TraceQueue(files, "traces")
    files.failure = OSError("full")
    pauses_s = [queue._write("hops", Rows("x")) for _ in range(8)]  # type: ignore[arg-type]
    assert pauses_s == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    files.failure = None
    assert queue._write("hops", Rows("x")) == 0.0  # type: ignore[arg-type]
    files.failure = OSError("full")
    assert queue._write("hops", Rows("x")) == 0.1  # type: ignore[arg-type]


def test_an_end_on_a_full_disk_does_not_pause_nor_raise(
    files: FakeFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_queue, "PAUSE_S_MIN", 1000.0)
    monkeypatch.setattr(trace_queue, "PAUSE_S_MAX", 1000.0)
    files.failure = OSError(errno.ENOSPC, "No space left on device")
    queue = started(files, close_s_max=DEADLINE_S)
    for number in range(5):
        queue.put("hops", Rows(str(number)))
    queue.close()
    assert figures(queue) == (0, 0, 50)
    assert said(caplog)[-1] == "traces in traces ended; 50 rows were lost in all"
    assert len(said(caplog)) == 2


def test_an_end_does_not_wait_for_a_disk_that_hangs(
    files: FakeFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_queue, "LAST_WRITE_S", 0.01)
    files.goes_on.clear()
    queue = started(files, close_s_max=0.01)
    for number in range(5):
        queue.put("hops", Rows(str(number)))
    files.begun.wait(DEADLINE_S)
    queue.close()
    assert not files.goes_on.is_set()
    assert figures(queue) == (0, 0, 40), "all but the one that is being written"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    files.goes_on.set()
    eventually(lambda: files.closed == 1)
    assert files.written == ["0"]


def test_rows_after_the_end_are_counted(files: FakeFiles) -> None:
    queue = started(files)
    queue.put("hops", Rows("a"))
    queue.close()
    queue.put("hops", Rows("b"))
    queue.close()
    assert files.written == ["a"]
    assert figures(queue) == (10, 10, 0)
