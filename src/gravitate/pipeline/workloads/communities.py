"""Communities by size: how many follow each, measured or after the same power law.

Owns the sizes alone, largest first. What a community is about is for who uses them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads.places import MISSING

FILE: Final = "reddit_2013-08_2500_subreddits_subscribers.csv"
SOURCE: Final = "Reddit 2013-08 community sizes"
COUNT: Final = 2500
"""Communities there."""
RANK_SLOPE: Final = -1.16
"""Of log(size) against log(rank) there, by least squares over all ranks."""
STAND_IN_SOURCE: Final = f"synthetic community sizes fitted to {SOURCE} (rank slope {RANK_SLOPE})"


@dataclass(frozen=True)
class Communities:
    """Sizes, largest first, and where they are from."""

    sizes: NDArray[np.float64]
    source: str


def communities_of(data: Path | None, count: int) -> Communities:
    """The `count` largest communities of a data folder, or a power law in their place."""
    if data is None:
        return Communities(_power_law(count, RANK_SLOPE), STAND_IN_SOURCE)
    sizes = _measured(data / FILE)
    if count > len(sizes):
        raise InputError(
            f"{count} communities are asked for and {data / FILE} has {len(sizes)}: "
            f"write at most {len(sizes)}"
        )
    return Communities(sizes[:count], SOURCE)


def rank_slope(sizes: NDArray[np.float64]) -> float:
    """The slope of log(size) against log(rank), by least squares over positive sizes."""
    positive = np.sort(sizes[sizes > 0])[::-1]
    ranks = np.arange(1, len(positive) + 1)
    return float(np.polyfit(np.log(ranks), np.log(positive), 1)[0]) if len(positive) > 1 else 0.0


def _power_law(count: int, exponent: float) -> NDArray[np.float64]:
    """The ranks from 1 to the power of `exponent`."""
    return np.power(np.arange(1, count + 1, dtype=np.float64), exponent)


def _measured(file: Path) -> NDArray[np.float64]:
    sizes = []
    if not file.exists():
        raise FileError(MISSING, str(file))
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = csv.DictReader(opened)
            if "subscribers" not in (rows.fieldnames or ()):
                raise FileError("has no column 'subscribers'", str(file), 1)
            for row in rows:
                size = row["subscribers"] or ""
                if not size.isdecimal():
                    raise FileError(
                        f"'{size}' in column 'subscribers' is no number of subscribers",
                        str(file),
                        rows.line_num,
                    )
                sizes.append(float(size))
    except OSError as problem:
        raise FileError(f"cannot be read: {problem.strerror}", str(file)) from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise FileError(f"is no CSV table: {problem}", str(file)) from None
    return np.sort(np.array(sizes))[::-1]
