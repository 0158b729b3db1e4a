"""Rows of subscribers and brokers whose places and interests follow given shares.

Owns what the three subscriber sets have in common: their parameters, drawing from shares, drawing
locations, the columns of `interests` and the table `brokers`. Drawing is vectorised over a block,
and columns of lists are flat arrays with offsets: ten million rows are a matter of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gravitate.pipeline.workloads import columns
from gravitate.pipeline.workloads.columns import Floats
from gravitate.pipeline.workloads.generate import Block, TablePlan, generator

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Exponent = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]
Dimensions = Annotated[int, msgspec.Meta(ge=1, le=16)]


class SubscriberSet(msgspec.Struct, frozen=True, kw_only=True):
    """What all three sets have (subscriber-assignment paper, section 6)."""

    subscribers: Count = 100_000
    """Section 6, one-level network."""
    brokers: Positive = 100
    """Section 6, one-level network; 200 in the multi-level one."""
    network_dimensions: Dimensions = 5
    """Section 6: the network space is R^5."""
    event_dimensions: Annotated[int, msgspec.Meta(ge=1, le=4)] = 2
    """Section 6: the event space is R^2."""
    event_extent: Annotated[float, msgspec.Meta(gt=0.0)] = 10.0
    """Events lie in `[0, event_extent]` on each axis. Not stated; ten makes the 100 cells of set
    3 as large as the unit squares of set 2."""


@dataclass(frozen=True)
class Spots:
    """Groups of places; a subscriber of group g is at one of
    `points[first[g] : first[g] + count[g]]`, each as likely."""

    points: NDArray[np.float32]
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    def draw(self, random: np.random.Generator, groups: NDArray[np.int64]) -> NDArray[np.float32]:
        """A location for each member of `groups`, one row each."""
        within = (random.random(len(groups)) * self.count[groups]).astype(np.int64)
        locations: NDArray[np.float32] = self.points[self.first[groups] + within]
        return locations

    def shares(self, group_shares: Floats) -> Floats:
        """How likely each point is when groups have these shares."""
        found = np.zeros(len(self.points))
        for first, count, share in zip(self.first, self.count, group_shares, strict=True):
            found[first : first + count] += share / count
        return found


def cumulative(shares: Floats) -> Floats:
    """For `drawn`: sums of the shares, the last exactly 1."""
    sums = np.cumsum(np.asarray(shares, dtype=np.float64).ravel())
    sums /= sums[-1]
    # Rounding must not leave room behind the last share that is not zero.
    sums[np.flatnonzero(np.diff(sums, prepend=0.0))[-1] :] = 1.0
    return sums


def drawn(random: np.random.Generator, sums: Floats, count: int) -> NDArray[np.int64]:
    """`count` numbers, each as likely as its share; never one whose share is zero."""
    return np.searchsorted(sums, random.random(count), side="right")


def interest_rows(
    block: Block,
    locations: NDArray[np.float32],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    communities: NDArray[np.int64],
) -> pa.Table:
    """The rows of table `interests` for a block of subscribers."""
    return columns.table(
        "interests",
        {
            "subscriber": np.arange(block.start, block.stop, dtype=np.int64),
            "location": _points(locations),
            "low": _points(low),
            "high": _points(high),
            "community": communities.astype(np.int32),
        },
        len(block),
    )


def _points(rows: NDArray[np.float32]) -> pa.Array:
    """A column with a list for each row of an array."""
    return columns.lists(rows.reshape(-1), rows.shape[1])


def shares_measured(counts: dict[str, int]) -> dict[str, float]:
    """Counts of blocks as shares of all subscribers, for the manifest."""
    total = counts.get("subscribers", 0)
    return {
        f"{name}_share": count / total
        for name, count in counts.items()
        if name != "subscribers" and total
    }


def brokers_plan(
    count: int, points: NDArray[np.float32], shares: Floats, scatter_ms: float, seed: int
) -> TablePlan:
    """Brokers spread over the network space as the subscribers are (section 6).

    The line of all points, each as long as its share, is stepped through in equal steps: every
    part of the world gets its share of brokers, rounded. All have the same weight, since the
    paper's leaf brokers have equal capacities."""
    random = generator(seed, "broker places")
    steps = (np.arange(count) + random.random()) / count
    chosen = points[np.searchsorted(cumulative(shares), steps, side="right")]
    locations = scattered(random, chosen, scatter_ms)
    return TablePlan("brokers", count, partial(_broker_rows, locations))


def scattered(
    random: np.random.Generator, locations: NDArray[np.float32], scatter_ms: float
) -> NDArray[np.float32]:
    """Locations around the given ones: normal, `scatter_ms` on each axis."""
    if scatter_ms == 0.0:
        return locations
    noise = random.standard_normal(locations.shape, dtype=np.float32)
    moved: NDArray[np.float32] = locations + np.float32(scatter_ms) * noise
    return moved


def _broker_rows(locations: NDArray[np.float32], block: Block) -> pa.Table:
    numbers = np.arange(block.start, block.stop)
    return columns.table(
        "brokers",
        {
            "broker": columns.numbered("b", numbers, len(locations)),
            "location": _points(locations[block.start : block.stop]),
            "weight": 1.0 / len(locations),
            "processing_cost": 1.0,
        },
        len(block),
    )
