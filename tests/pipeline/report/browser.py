"""A page in headless Chromium: its elements after its scripts have run, and what they complained
about."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 120


class Opened(NamedTuple):
    dom: str
    complaints: list[str]
    """Errors and warnings on the console, uncaught exceptions among them."""


def browser() -> str | None:
    """A Chromium on the path."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def opened(page: Path, profile: Path, *options: str) -> Opened:
    """Open a file; `profile` is a new folder for the browser's own files."""
    program = browser()
    assert program is not None
    done = subprocess.run(
        [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--v=0",
            "--virtual-time-budget=10000",
            *options,
            "--dump-dom",
            page.resolve().as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    said = re.findall(r"^\[[^\]]*CONSOLE[^\]]*\] (.*)$", done.stderr, re.MULTILINE)
    return Opened(done.stdout, said)
