"""What bounds a test: processor time, of this process and of all that it started.

A busy machine makes tests slow, not wrong; so a clock is no measure of whether one hangs. A test
that uses more than `SECONDS` of processor time fails, or more than its mark
`processor_time(seconds)` says. Where a test waits and uses none, `WAITING_S` by the clock ends it,
and where not even that is heard, pytest's `faulthandler_timeout` ends the process.

A plugin: `-p tests.support.processor_time`. It uses SIGALRM, in the main thread.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psutil
import pytest

SECONDS: Final = 240.0
WAITING_S: Final = 1200.0
_LOOKS: Final = 5.0
"""So many seconds lie between two looks, or a quarter of the bound where that is less."""
_MARK: Final = "processor_time"


def others_s() -> float:
    """Processor time of all that this process started, and of what has ended of it."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    for process in psutil.Process().children(recursive=True):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


@contextmanager
def bounded(seconds: float, waiting_s: float = WAITING_S) -> Iterator[None]:
    """Fail what is done within once it has used more than `seconds`.

    Other processes count from the first look on: most tests end before, and need not pay for it."""
    begun_s, until_s = time.process_time(), time.monotonic() + waiting_s
    others_begun_s: float | None = None

    def look(*_: Any) -> None:
        nonlocal others_begun_s
        others = others_s()
        others_begun_s = others if others_begun_s is None else others_begun_s
        used = time.process_time() - begun_s + others - others_begun_s
        if used > seconds:
            pytest.fail(f"used {used:.1f} s of processor time, {seconds:g} s allowed")
        if time.monotonic() > until_s:
            pytest.fail(f"waited for {waiting_s:g} s")

    pause_s = min(_LOOKS, seconds / 4)
    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, pause_s, pause_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARK}(seconds): how much of it a test may use")


def _bound(item: pytest.Item) -> float:
    mark = item.get_closest_marker(_MARK)
    return float(mark.args[0]) if mark else SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with bounded(_bound(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with bounded(_bound(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    with bounded(_bound(item)):
        return (yield)
