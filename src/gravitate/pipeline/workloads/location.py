"""People who follow places: their own and those of friends (paper 5; Section 6.1.1).

The country is cut into one-degree cells; a cell is a topic and has a broker in it. A check-in is
a publication on its cell's topic. A user subscribes to the cell where it is, and to those where
four others are, and changes these subscriptions as they move. Everybody is connected to the
broker of its most frequent cell.

Users are made in groups of 2,000, and friends are drawn from one's own group: groups are alike,
so that a friend is anybody, as in the source. Of measured check-ins everybody is one group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.errors import InputError
from gravitate.model.seeds import generator
from gravitate.pipeline.workloads import columns, data
from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan
from gravitate.pipeline.workloads.movement import Grid, Movement, Trajectories, trajectories

GROUP = 2000
KM_PER_DEGREE = 111.2


class Location(msgspec.Struct, frozen=True):
    """Section 6.1.1 of DYNATOPS: 40 K users, 3 months, 20 x 60 cells, 4 friends. The time per
    distance is chosen here: the source has it proportional."""

    users: Annotated[int, msgspec.Meta(ge=2)] = 40_000
    """At most as many as were measured, where measurements are given."""
    friends: Annotated[int, msgspec.Meta(ge=0)] = 4
    duration_s: Annotated[float, msgspec.Meta(gt=0.0)] = 92 * 86_400.0
    """August to October. Measured check-ins keep their own times, up to this one; 0 is the
    first of them."""
    km_per_ms: Annotated[float, msgspec.Meta(gt=0.0)] = 100.0
    """One way between brokers; light in fibre makes 200, ways are not straight."""
    checkins_per_user: Annotated[float, msgspec.Meta(ge=1.0)] = 75.0
    """Mean: 3 million of 40,000 users. Of synthetic movement, as grid and movement are."""
    grid: Grid = Grid()
    movement: Movement = Movement()
    payload_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


class Cells(msgspec.Struct, frozen=True):
    """The cells that have a broker: latitude and longitude of their south-west corners."""

    south: Integers
    west: Integers

    def names(self, indices: Integers) -> pa.Array:
        """`n40w074` for the cell around New York."""
        return columns.joined(
            *_degrees(self.south[indices], "n", "s", 2), *_degrees(self.west[indices], "e", "w", 3)
        )

    def places_ms(self, km_per_ms: float) -> Floats:
        """Network coordinates of the middles: a plane with the right widths at mid latitude."""
        north, east = self.south + 0.5, self.west + 0.5
        narrowing = np.cos(np.radians(north.mean()))
        return np.asarray(np.stack([east * narrowing, north], axis=1) * KM_PER_DEGREE / km_per_ms)


Movers = Callable[[int, int, int], Trajectories]
"""`(seed, group, users)`: trajectories of a group."""


def make(parameters: Location, seed: int, folder: Path | None) -> Made:
    """Take the check-ins of the data, or fit to them; statistics are of the first group."""
    if folder is None:
        grid = parameters.grid
        row, column = np.divmod(np.arange(grid.cells), grid.columns)
        cells = Cells(row + grid.south, column + grid.west)
        order = generator(seed, "homes").permutation(grid.cells)
        movers: Movers = functools.partial(synthetic, parameters=parameters, order=order)
        users, group = parameters.users, GROUP
        source = "synthetic, fitted to Foursquare check-ins in North America (4,969 users)"
    else:
        measured, cells = measured_trajectories(data.checkins(folder), parameters)
        movers = functools.partial(_given, measured=measured)
        users = group = measured.users
        source = "Foursquare check-ins (North America, 4,969 users)"
    made = functools.partial
    what: dict[str, Any] = {
        "parameters": parameters,
        "cells": cells,
        "movers": movers,
        "users": users,
    }
    return Made(
        plans=(
            TablePlan(
                "brokers", len(cells.south), made(brokers, parameters=parameters, cells=cells)
            ),
            TablePlan("publishers", users, made(publishers, **what), group),
            TablePlan("publications", users, made(publications, **what), group),
            TablePlan("subscriptions", users, made(subscriptions, **what), group),
        ),
        source=source,
        statistics=movers(seed, 0, min(users, group)).statistics(),
    )


def synthetic(
    seed: int, group: int, users: int, parameters: Location, order: Integers
) -> Trajectories:
    """Trajectories of a group, the same for every table."""
    return trajectories(
        generator(seed, "movement", group),
        users,
        parameters.grid,
        parameters.movement,
        parameters.checkins_per_user,
        parameters.duration_s,
        order,
    )


def measured_trajectories(
    checkins: data.Checkins, parameters: Location
) -> tuple[Trajectories, Cells]:
    """The first users of the data within the duration, and the cells they were in."""
    wanted = (checkins.user < parameters.users) & (checkins.at_s <= parameters.duration_s)
    if not wanted.any():
        raise InputError(
            f"the first {parameters.users} users have no check-ins within "
            f"{parameters.duration_s:g} s: give a longer duration_s or more users"
        )
    _, user = np.unique(checkins.user[wanted], return_inverse=True)
    corners = np.floor(np.stack([checkins.latitude[wanted], checkins.longitude[wanted]])).astype(
        np.int64
    )
    (south, west), cell = np.unique(corners, axis=1, return_inverse=True)
    found = Trajectories(user, checkins.at_s[wanted], cell.ravel(), int(user.max()) + 1)
    return found, Cells(south, west)


def _given(seed: int, group: int, users: int, measured: Trajectories) -> Trajectories:
    return measured


def brokers(block: Block, parameters: Location, cells: Cells) -> pa.Table:
    """One broker a cell, in the middle of it."""
    at = np.arange(block.start, block.stop)
    places = cells.places_ms(parameters.km_per_ms)[at]
    return columns.table(
        "brokers",
        {
            "broker": cells.names(at),
            "location": columns.lists(places.astype(np.float32).ravel(), 2),
            "weight": 1.0 / len(cells.south),
            "processing_cost": 1.0,
        },
        len(block),
    )


def publishers(
    block: Block, parameters: Location, cells: Cells, movers: Movers, users: int
) -> pa.Table:
    """Every user: it may check in anywhere."""
    seen = movers(block.seed, block.number, len(block))
    rate = np.bincount(seen.user, minlength=seen.users) / parameters.duration_s
    return columns.table(
        "publishers",
        {
            "publisher": columns.numbered("user-", np.arange(block.start, block.stop), users),
            "broker": cells.names(seen.homes()),
            "advertisement": "topic MATCHES 'cells/+'",
            "rate_msgs_per_s": rate,
        },
        len(block),
    )


def publications(
    block: Block, parameters: Location, cells: Cells, movers: Movers, users: int
) -> pa.Table:
    """Every check-in, on the topic of its cell."""
    seen = movers(block.seed, block.number, len(block))
    counts = np.bincount(seen.user, minlength=seen.users)
    first = np.cumsum(counts) - counts
    return columns.table(
        "publications",
        {
            "publisher": columns.numbered("user-", seen.user + block.start, users),
            "number": np.arange(len(seen.user)) - first[seen.user] + 1,
            "at_s": seen.at_s,
            "topic": columns.joined("cells/", cells.names(seen.cell)),
            "attributes": "{}",
            "payload_bytes": parameters.payload_bytes,
            "broker": None,
        },
        len(seen.user),
    )


def subscriptions(
    block: Block, parameters: Location, cells: Cells, movers: Movers, users: int
) -> pa.Table:
    """A row for every stay of somebody followed, for every follower.

    Where somebody is before the first check-in is taken from that one."""
    seen = movers(block.seed, block.number, len(block))
    stays = np.flatnonzero(seen.arrives)
    who, cell = seen.user[stays], seen.cell[stays]
    begins = np.append(True, who[1:] != who[:-1])
    from_s = np.where(begins, 0.0, seen.at_s[stays])
    until_s, last = np.append(from_s[1:], 0.0), np.append(begins[1:], True)
    follower, slot, followed = _follows(block, parameters.friends)
    # The stays of one user are neighbours: pick those of each one followed.
    counts = np.bincount(who, minlength=len(block))
    start = np.cumsum(counts) - counts
    length = counts[followed]
    inside = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    row = np.repeat(start[followed], length) + inside
    follower, slot = np.repeat(follower, length), np.repeat(slot, length)
    names = pa.array(["own", *(f"friend-{number + 1}" for number in range(parameters.friends))])
    return columns.table(
        "subscriptions",
        {
            "subscriber": columns.numbered("user-", follower + block.start, users),
            "subscription": names.take(pa.array(slot)),
            "broker": cells.names(seen.homes()[follower]),
            "topic": columns.joined("cells/", cells.names(cell[row])),
            "condition": "",
            "from_s": from_s[row],
            "until_s": pa.array(until_s[row], mask=last[row]),
        },
        len(row),
    )


def _follows(block: Block, friends: int) -> tuple[Integers, Integers, Integers]:
    """Who follows whom: follower, slot (0 for oneself) and followed, within the group.

    Friends are others and different ones, fewer where the group is small. A friend is drawn as
    a distance in the circle of numbers: the n-th of those that are left."""
    users = len(block)
    random = block.generator("friends")
    everybody = np.arange(users)
    distances = np.zeros((users, 1), dtype=np.int64)
    for left in range(users - 1, max(users - 1 - friends, 0), -1):
        drawn = random.integers(left, size=users) + 1
        for taken in np.sort(distances[:, 1:], axis=1).T:
            drawn += drawn >= taken
        distances = np.column_stack([distances, drawn])
    slots = distances.shape[1]
    followed = (everybody[:, np.newaxis] + distances) % users
    return np.repeat(everybody, slots), np.tile(np.arange(slots), users), followed.ravel()


def _degrees(
    values: Integers, positive: str, negative: str, width: int
) -> tuple[pa.Array, pa.Array]:
    """Degrees with a letter for their sign."""
    letters = pa.array(np.where(values >= 0, positive, negative))
    texts = pa.compute.cast(pa.array(np.abs(values)), pa.string())
    return letters, pa.compute.utf8_lpad(texts, width=width, padding="0")


DEFINITION = Definition(
    "location",
    "people who follow their own one-degree cell and those of 4 friends, and move",
    Location,
    make,
)
