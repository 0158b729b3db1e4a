"""Subscriber set 1: interests in topics of a poset, different in each part of the world.

After the subscriber-assignment paper, section 6, whose generator extrapolates from statistics of
Google Groups. Two factors are varied: interest skewness (IS) and broad interests (BI); the
baseline is IS high, BI low.

Each subscriber is of a region and wants a topic; regions and topics are drawn together, so that
regions are as 4 : 1 : 4 and topics as popular as they shall be (`topics.regional`). The
subscriber is near one of its region's places, and its rectangle is the topic's or somewhat less.

Decided here, because the paper leaves it open:

- sizes of communities of another service stand in for Google Groups (`communities`), its hottest
  left out as in the paper; the poset over them is grown (`topics`);
- the places are PlanetLab hosts or a stand-in (`places`), all of a region equally likely, and
  subscribers are scattered around them by `scatter_ms` on each axis for the way to their host;
- two subscribers of a topic want alike, not the same: each side of the rectangle is cut by up to
  `interest_variation` of the width, at the lower and at the upper end independently;
- regions like topics differently by a lognormal factor of 0.7 per level of the poset.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.pipeline.workloads import communities, places, topics
from gravitate.pipeline.workloads.columns import Floats
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan, Tallied, generator
from gravitate.pipeline.workloads.subscribers import (
    Positive,
    Spots,
    SubscriberSet,
    brokers_plan,
    cumulative,
    drawn,
    interest_rows,
    scattered,
    shares_measured,
)

REGION_SHARES: Final = (4.0, 1.0, 4.0)
"""Asia : North America : Europe, section 6; in the order of `places.REGIONS`."""
REGION_LIKING_SPREAD: Final = 0.7
VARIANCE_CUT: Final = {"low": 0.55, "high": 0.0}
"""Interest skewness: by how much the variance between siblings is reduced, section 6."""
PASSED_UPWARD: Final = {"low": 0.01, "high": 0.10}
"""Broad interests: the fraction of popularity that goes to the more general topic, section 6."""


class Set1(SubscriberSet, frozen=True, kw_only=True):
    """Parameters of set 1; defaults are the paper's baseline where it states them."""

    interest_skewness: Literal["low", "high"] = "high"
    """IS: `low` balances popularities by 55 %, `high` leaves them."""
    broad_interests: Literal["low", "high"] = "low"
    """BI: `low` passes 1 % of popularity upward, `high` 10 %."""
    topics: Positive = communities.COUNT
    """Communities that topics are made of, the hottest included; as many as were measured."""
    hottest_removed: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Section 6: topics that everybody wants are left to broadcast."""
    categories: Positive = 12
    """At the top of the poset. Not stated."""
    subcategories: Positive = 10
    """Of each category. Not stated."""
    interest_variation: Annotated[float, msgspec.Meta(ge=0.0, le=0.4)] = 0.1
    """Not stated; 0: all subscribers of a topic have its rectangle."""
    scatter_ms: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    """Not stated; 0: subscribers are exactly at places."""
    broker_regions: Annotated[str, msgspec.Meta(pattern=r"^([0-9.]+:[0-9.]+:[0-9.]+)?$")] = ""
    """Asia : North America : Europe of the brokers, as `1:1:1`; empty: as the subscribers, which
    is the paper's. Its Table 3 varies this."""


@dataclass(frozen=True)
class _Model:
    """What a block of rows is drawn from; a few hundred kilobytes."""

    sums: Floats
    """Of the shares of (region, topic), regions the slower."""
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    broad: NDArray[np.bool_]
    spots: Spots
    variation: float
    scatter_ms: float


def make(parameters: Set1, seed: int, data: Path | None) -> Made:
    """Set 1 ready to be generated."""
    if parameters.hottest_removed >= parameters.topics:
        raise InputError(
            f"{parameters.hottest_removed} of {parameters.topics} topics cannot be removed: "
            f"write hottest_removed below {parameters.topics}"
        )
    sites = places.places_of(data, parameters.network_dimensions, seed)
    sizes = communities.communities_of(data, parameters.topics)
    poset = _poset(parameters, sizes.sizes[parameters.hottest_removed :], seed)
    joint = topics.regional(
        poset, np.array(REGION_SHARES), REGION_LIKING_SPREAD, generator(seed, "regional liking")
    )
    spots = _spots_of(sites)
    model = _Model(
        cumulative(joint),
        poset.low.astype(np.float32),
        poset.high.astype(np.float32),
        poset.broad,
        spots,
        parameters.interest_variation,
        parameters.scatter_ms,
    )
    brokers = brokers_plan(
        parameters.brokers,
        spots.points,
        spots.shares(_broker_regions(parameters, joint)),
        parameters.scatter_ms,
        seed,
    )
    return Made(
        (TablePlan("interests", parameters.subscribers, partial(_rows, model)), brokers),
        f"{sites.source}; {sizes.source}",
        sites.statistics() | _statistics(poset, sizes.sizes, parameters),
        shares_measured,
    )


def _poset(parameters: Set1, sizes: Floats, seed: int) -> topics.Topics:
    poset = topics.grown(
        sizes,
        parameters.categories,
        parameters.subcategories,
        parameters.event_extent,
        parameters.event_dimensions,
        generator(seed, "topics"),
    )
    poset = topics.diffused(poset, VARIANCE_CUT[parameters.interest_skewness])
    return topics.generalised(poset, PASSED_UPWARD[parameters.broad_interests])


def _broker_regions(parameters: Set1, joint: Floats) -> Floats:
    """The share of the brokers that each region has; `joint` is that of (region, topic) in the
    subscribers."""
    if not parameters.broker_regions:
        found: Floats = joint.sum(axis=1)
        return found
    try:
        shares = np.array([float(part) for part in parameters.broker_regions.split(":")])
    except ValueError:
        shares = np.zeros(len(places.REGIONS))
    if not shares.any():
        raise InputError(
            f"broker_regions '{parameters.broker_regions}' are no shares: write three numbers "
            "that are not all 0, as 4:1:4"
        )
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def _spots_of(sites: places.Places) -> Spots:
    """A group for each region; places are sorted by region."""
    count = np.bincount(sites.regions, minlength=len(places.REGIONS))
    return Spots(sites.points.astype(np.float32), np.cumsum(count) - count, count)


def _statistics(poset: topics.Topics, sizes: Floats, parameters: Set1) -> dict[str, float]:
    areas = (poset.high - poset.low).prod(axis=1)
    # Each side loses a uniform share of up to `variation` at both ends, independently.
    remaining = (1.0 - parameters.interest_variation) ** parameters.event_dimensions
    return {
        "community_rank_slope": communities.rank_slope(sizes),
        "topics": float(len(poset)),
        "topic_share_max": float(poset.popularity.max()),
        "broad_share_expected": float(poset.popularity[poset.broad].sum()),
        "interest_volume_mean": float((areas * poset.popularity).sum() * remaining),
    }


def _rows(model: _Model, block: Block) -> Tallied:
    """The subscribers of a block."""
    random = block.generator()
    region, topic = np.divmod(drawn(random, model.sums, len(block)), len(model.low))
    locations = scattered(random, model.spots.draw(random, region), model.scatter_ms)
    low, high = model.low[topic], model.high[topic]
    if model.variation:
        cut = np.float32(model.variation) * (high - low)
        low = low + cut * random.random(low.shape, dtype=np.float32)
        high = high - cut * random.random(low.shape, dtype=np.float32)
    counts = {
        "subscribers": len(block),
        "broad": int(model.broad[topic].sum()),
        **dict(zip(places.REGIONS, np.bincount(region, minlength=3).tolist(), strict=True)),
    }
    return Tallied(interest_rows(block, locations, low, high, topic), counts)


DEFINITION: Final = Definition(
    "set1",
    "subscribers of a topic poset over three regions: skewed and broad interests, real distances",
    Set1,
    make,
)
