"""Subscriber set 3: rectangles around hot spots of a grid, wherever the subscriber is.

After the subscriber-assignment paper, section 6. The event space is cut into 100 cells, ranked at
random; an interest is centred on a cell drawn by Zipf's law over the ranks, its width on each
axis is drawn by Zipf's law from a set of widths. Places are independent of interests.

Decided here: the widths are multiples of half a cell up to five cells, the narrowest the most
frequent; rectangles are clipped by the event space, since there are no events beyond; places are
the PlanetLab hosts or their stand-in (`places`), each as likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

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


class Set3(SubscriberSet, frozen=True, kw_only=True):
    """Parameters of set 3; defaults are the paper's where it states them, section 6."""

    cells_per_axis: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    """100 cells in two dimensions."""
    cell_zipf_exponent: Exponent = 0.5
    """Of the cells' popularity."""
    widths: Positive = 10
    """How many there are. Not stated."""
    width_cells_max: Annotated[float, msgspec.Meta(gt=0.0)] = 5.0
    """The widest, in cells; the others are equal steps below it. Not stated."""
    width_zipf_exponent: Exponent = 0.5
    """Of the widths' frequency, the narrowest first."""


@dataclass(frozen=True)
class _Model:
    cell_sums: Floats
    """By number of the cell."""
    cells_per_axis: int
    dimensions: int
    width_sums: Floats
    widths: Floats
    extent: float
    spots: Spots
    hottest: int


def make(parameters: Set3, seed: int, data: Path | None) -> Made:
    """Set 3 ready to be generated."""
    sites = places.places_of(data, parameters.network_dimensions, seed)
    cells = parameters.cells_per_axis**parameters.event_dimensions
    ranked = zipf(cells, parameters.cell_zipf_exponent)
    shares = np.empty(cells)
    shares[generator(seed, "ranks of cells").permutation(cells)] = ranked
    cell = parameters.event_extent / parameters.cells_per_axis
    steps = np.arange(1, parameters.widths + 1) / parameters.widths
    everywhere = Spots(
        sites.points.astype(np.float32), np.zeros(1, dtype=np.int64), np.array([len(sites)])
    )
    model = _Model(
        cumulative(shares),
        parameters.cells_per_axis,
        parameters.event_dimensions,
        cumulative(zipf(parameters.widths, parameters.width_zipf_exponent)),
        steps * parameters.width_cells_max * cell,
        parameters.event_extent,
        everywhere,
        int(shares.argmax()),
    )
    brokers = brokers_plan(
        parameters.brokers, everywhere.points, everywhere.shares(np.ones(1)), 0.0, seed
    )
    width_mean = float(model.widths @ np.diff(model.width_sums, prepend=0.0))
    return Made(
        (TablePlan("interests", parameters.subscribers, partial(_rows, model)), brokers),
        sites.source,
        sites.statistics()
        | {"hottest_share_expected": float(shares.max()), "width_mean_unclipped": width_mean},
        shares_measured,
    )


def _rows(model: _Model, block: Block) -> Tallied:
    """The subscribers of a block."""
    random = block.generator()
    count = len(block)
    cell = drawn(random, model.cell_sums, count)
    axes = np.unravel_index(cell, (model.cells_per_axis,) * model.dimensions)
    centre = (np.stack(axes, axis=1) + 0.5) * (model.extent / model.cells_per_axis)
    chosen = drawn(random, model.width_sums, count * model.dimensions)
    half = model.widths[chosen].reshape(centre.shape) / 2.0
    low = np.maximum(centre - half, 0.0).astype(np.float32)
    high = np.minimum(centre + half, model.extent).astype(np.float32)
    locations = model.spots.draw(random, np.zeros(count, dtype=np.int64))
    counts = {"subscribers": count, "hottest": int((cell == model.hottest).sum())}
    return Tallied(interest_rows(block, locations, low, high, cell), counts)


DEFINITION: Final = Definition(
    "set3",
    "subscribers of rectangles around hot spots of a grid, at independent places",
    Set3,
    make,
)
