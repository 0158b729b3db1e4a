"""Subscriber set 2: fifty unit squares, as popular as RSS feeds, each wanted at ten places.

After the subscriber-assignment paper, section 6: interests are topics in all but name. Neither
nearness in the event space nor in the network means anything: squares lie anywhere, and so do the
places of a square's subscribers.

Decided here: squares lie wholly within the event space; an interest's places are different ones
of the PlanetLab hosts or their stand-in (`places`), drawn anew for each interest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.pipeline.workloads import places
from gravitate.pipeline.workloads.columns import Floats
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan, Tallied, generator
from gravitate.pipeline.workloads.popularity import zipf
from gravitate.pipeline.workloads.subscribers import (
    Exponent,
    Positive,
    Spots,
    SubscriberSet,
    brokers_plan,
    cumulative,
    drawn,
    interest_rows,
    shares_measured,
)

SIDE: Final = 1.0
"""Of the squares, section 6."""


class Set2(SubscriberSet, frozen=True, kw_only=True):
    """Parameters of set 2; defaults are the paper's, section 6."""

    interests: Positive = 50
    zipf_exponent: Exponent = 0.5
    """Of the interests' popularity."""
    locations_per_interest: Positive = 10


@dataclass(frozen=True)
class _Model:
    sums: Floats
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    spots: Spots
    hottest: int


def make(parameters: Set2, seed: int, data: Path | None) -> Made:
    """Set 2 ready to be generated."""
    sites = places.places_of(data, parameters.network_dimensions, seed)
    if parameters.locations_per_interest > len(sites):
        raise InputError(
            f"{parameters.locations_per_interest} locations per interest are not there: "
            f"write at most {len(sites)}"
        )
    if parameters.event_extent < SIDE:
        raise InputError(
            f"unit squares do not fit an event_extent of {parameters.event_extent:g}: "
            f"write at least {SIDE:g}"
        )
    shares = zipf(parameters.interests, parameters.zipf_exponent)
    model = _model(parameters, shares, sites, seed)
    brokers = brokers_plan(
        parameters.brokers, model.spots.points, model.spots.shares(shares), 0.0, seed
    )
    return Made(
        (TablePlan("interests", parameters.subscribers, partial(_rows, model)), brokers),
        sites.source,
        sites.statistics() | {"hottest_share_expected": float(shares.max())},
        shares_measured,
    )


def _model(parameters: Set2, shares: Floats, sites: places.Places, seed: int) -> _Model:
    random = generator(seed, "squares")
    corners = (parameters.interests, parameters.event_dimensions)
    low = random.uniform(0.0, parameters.event_extent - SIDE, corners)
    each = parameters.locations_per_interest
    chosen = np.concatenate(
        [random.choice(len(sites), each, replace=False) for _ in range(parameters.interests)]
    )
    spots = Spots(
        sites.points[chosen].astype(np.float32),
        np.arange(parameters.interests) * each,
        np.full(parameters.interests, each),
    )
    return _Model(
        cumulative(shares),
        low.astype(np.float32),
        (low + SIDE).astype(np.float32),
        spots,
        int(shares.argmax()),
    )


def _rows(model: _Model, block: Block) -> Tallied:
    """The subscribers of a block."""
    random = block.generator()
    square = drawn(random, model.sums, len(block))
    locations = model.spots.draw(random, square)
    rows = interest_rows(block, locations, model.low[square], model.high[square], square)
    counts = {"subscribers": len(block), "hottest": int((square == model.hottest).sum())}
    return Tallied(rows, counts)


DEFINITION: Final = Definition(
    "set2", "subscribers of 50 unit squares by Zipf's law, ten locations each", Set2, make
)
