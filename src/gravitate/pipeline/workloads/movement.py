"""Where people are: trajectories of check-ins over a grid of cells, synthetic.

Owns the model and its fit; answers in arrays. Knows nothing of topics or subscriptions.

A person's number of check-ins is log-normal, gaps between them are log-normal too and scaled to
the whole time. Homes are spread over the cells by a Zipf law. Everybody has a few places of
their own to go to: some beside home, the rest drawn like homes. From one check-in to the next a
person leaves home, stays away, goes elsewhere or comes home, with fixed chances.

The figures are fitted to Foursquare check-ins of 4,969 users in North America, cut into
one-degree cells. Read off directly: the spread of check-ins a user (standard deviation of their
logarithm 0.98), the mean gap (6.4 times the median one), the chances to leave home (0.115), to
come home (0.427) and to stay away (0.376). Tried out: skew of homes and number of places. With
as many check-ins a user as measured, 37:

                                            measured   model
    successive check-ins in different cells     22 %    21 %
    check-ins in the user's first cell          79 %    79 %
    cells a user                                3.56     3.6
    check-ins in the first cell of all          23 %    27 %
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.popularity import ranks_at, zipf

Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Movement(msgspec.Struct, frozen=True):
    """Figures of the model; see the module's own description for the fit."""

    checkins_sigma: float = 0.98
    checkins_max_factor: float = 20.0
    """No user has more than this many times the mean."""
    gap_sigma: float = 1.93
    home_skew: float = 1.35
    places_each: Count = 8
    """Cells beside home that a user goes to."""
    nearby_share: Share = 0.3
    """Of them, those beside home."""
    leave_chance: Share = 0.115
    return_chance: Share = 0.427
    stay_chance: Share = 0.376
    """Away from home; what is left of the chances leads elsewhere."""


class Grid(msgspec.Struct, frozen=True):
    """Cells of one degree, numbered row by row from the south-west."""

    south: int = 28
    west: int = -126
    rows: Count = 20
    columns: Count = 60

    @property
    def cells(self) -> int:
        return self.rows * self.columns


class Trajectories(msgspec.Struct, frozen=True):
    """Check-ins by user and time."""

    user: Integers
    """From 0, each with at least one check-in."""
    at_s: Floats
    cell: Integers
    users: int

    @property
    def arrives(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether a check-in is in another cell than the user's last one, or the first."""
        moved = (self.user[1:] != self.user[:-1]) | (self.cell[1:] != self.cell[:-1])
        return np.concatenate([[True], moved])[: len(self.user)]

    def homes(self) -> Integers:
        """The cell where each user is most often; of several the one with the lowest number."""
        pairs, times = np.unique(np.stack([self.user, self.cell]), axis=1, return_counts=True)
        order = np.lexsort((pairs[1], -times, pairs[0]))
        _, first = np.unique(pairs[0][order], return_index=True)
        return np.asarray(pairs[1][order][first])

    def statistics(self) -> dict[str, float]:
        """What the model is fitted to, as it came out."""
        same = self.user[1:] == self.user[:-1]
        counts = np.bincount(self.user, minlength=self.users)
        pairs = np.unique(np.stack([self.user, self.cell]), axis=1).shape[1]
        return {
            "checkins_per_user_mean": float(counts.mean()),
            "checkins_log_sigma": float(np.log(counts).std()),
            "moves_share": float(self.arrives[1:][same].mean()) if same.any() else 0.0,
            "cells_per_user_mean": pairs / self.users,
            "home_share": float((self.cell == self.homes()[self.user]).mean()),
        }


def trajectories(
    random: np.random.Generator,
    users: int,
    grid: Grid,
    movement: Movement,
    checkins_per_user: float,
    duration_s: float,
    order: Integers,
) -> Trajectories:
    """Draw trajectories; `order` has the cells by popularity as homes."""
    counts = _activity(random, users, checkins_per_user, movement)
    at_s = _times(random, counts, movement.gap_sigma, duration_s)
    popularity = zipf(grid.cells, movement.home_skew)
    home = order[ranks_at(random.random(users), popularity)]
    places = order[ranks_at(random.random((users, movement.places_each)), popularity)]
    beside = random.random(places.shape) < movement.nearby_share
    beside |= places == home[:, np.newaxis]
    places = np.where(beside, _beside(random, home, places.shape, grid), places)
    cells = _walk(random, counts, home, places, movement)
    return Trajectories(np.repeat(np.arange(users), counts), at_s, cells, users)


def _activity(random: np.random.Generator, users: int, mean: float, movement: Movement) -> Integers:
    sigma = movement.checkins_sigma
    drawn = random.lognormal(np.log(mean) - sigma**2 / 2, sigma, users)
    return np.clip(np.rint(drawn), 1, mean * movement.checkins_max_factor).astype(np.int64)


def _times(
    random: np.random.Generator, counts: Integers, sigma: float, duration_s: float
) -> Floats:
    """Ascending times of each user: gaps, one more than check-ins, that fill the duration."""
    gaps = random.lognormal(0.0, sigma, int((counts + 1).sum()))
    user = np.repeat(np.arange(len(counts)), counts + 1)
    ends = np.cumsum(counts + 1)
    total = np.cumsum(gaps)
    before = np.concatenate([[0.0], total[ends - 1]])[:-1]
    elapsed = (total - before[user]) / (total[ends - 1] - before)[user]
    inside = np.ones(len(gaps), dtype=bool)
    inside[ends - 1] = False
    return np.asarray(np.clip(elapsed[inside], 0.0, 1.0) * duration_s)


def _beside(
    random: np.random.Generator, home: Integers, shape: tuple[int, int], grid: Grid
) -> Integers:
    """Cells next to home, also diagonally; at the border of the grid on the other side."""
    direction = random.integers(len(_AROUND), size=shape)
    row, column = np.divmod(home[:, np.newaxis], grid.columns)
    row = _inside(row, _AROUND[direction, 0], grid.rows)
    column = _inside(column, _AROUND[direction, 1], grid.columns)
    return np.asarray(row * grid.columns + column)


_AROUND = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)])


def _inside(start: Integers, step: Integers, size: int) -> Integers:
    there = start + step
    turned = np.where((there < 0) | (there >= size), start - step, there)
    return np.clip(turned, 0, size - 1)


def _walk(
    random: np.random.Generator,
    counts: Integers,
    home: Integers,
    places: Integers,
    movement: Movement,
) -> Integers:
    """Cell of every check-in: all users take a step at once, those with check-ins left."""
    first = np.cumsum(counts) - counts
    chance = random.random(int(counts.sum()))
    target = random.integers(places.shape[1], size=len(chance))
    cells = np.empty(len(chance), dtype=np.int64)
    now = home.copy()
    away = np.zeros(len(counts), dtype=bool)
    by_length = np.argsort(-counts, kind="stable")
    longest_first = counts[by_length]
    for step in range(int(counts.max(initial=0))):
        who = by_length[: np.searchsorted(-longest_first, -step, side="left")]
        row = first[who] + step
        out, drawn = away[who], chance[row]
        returns = out & (drawn < movement.return_chance)
        stays = out & ~returns & (drawn < movement.return_chance + movement.stay_chance)
        goes = np.where(out, ~returns & ~stays, drawn < movement.leave_chance)
        elsewhere = places[who, target[row]]
        here = np.where(goes, elsewhere, np.where(returns, home[who], now[who]))
        now[who] = cells[row] = here
        away[who] = here != home[who]
    return cells
