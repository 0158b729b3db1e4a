"""Do files that tasks wrote lie where everybody sees them?

Tasks write files by their path. Where that path is a worker's own disk, the files exist and
nobody else finds them, so what tasks say they wrote is looked for here before it counts.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gravitate.errors import FileError


def check_shared(folder: Path, names: Collection[str]) -> None:
    """Refuse a folder in which files of these names, written by tasks, are not seen."""
    # A list is asked for anew; single names may be remembered as missing by a network's disk.
    there = {path.name for path in folder.glob("part-*.parquet")} if names else set()
    unseen = sorted(set(names) - there)
    if unseen:
        raise FileError(
            f"is not on storage that all workers share: {unseen[0]} was written and is not there",
            str(folder),
        )
