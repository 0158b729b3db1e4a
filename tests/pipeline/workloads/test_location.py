"""People who move: trajectories like measured ones, subscriptions that follow them."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.pipeline.workloads import location
from gravitate.pipeline.workloads.generate import Block, in_process
from gravitate.pipeline.workloads.making import parameters_of
from gravitate.pipeline.workloads.movement import Grid, Movement, Trajectories, trajectories

SMALL = {"users": 40, "duration_s": 1000.0, "checkins_per_user": 12}


def rows(data: Path | None = None, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    made = location.make(parameters_of(location.DEFINITION, SMALL | changes), 3, data)
    return {plan.table: in_process(plan, 3).to_pylist() for plan in made.plans}


def test_trajectories_are_like_measured_ones() -> None:
    """Foursquare, 4,969 users: 37 check-ins each, 22 % of them elsewhere than the one before,
    3.56 cells a user, 79 % at home, deviation of the logarithm of check-ins 0.98."""
    order = np.random.default_rng(5).permutation(1200)
    found = trajectories(
        np.random.default_rng(1), 3000, Grid(), Movement(), 37.4, 1e6, order
    ).statistics()
    assert found["checkins_per_user_mean"] == pytest.approx(37.4, rel=0.05)
    assert found["checkins_log_sigma"] == pytest.approx(0.98, rel=0.05)
    assert found["moves_share"] == pytest.approx(0.22, abs=0.02)
    assert found["cells_per_user_mean"] == pytest.approx(3.56, abs=0.3)
    assert found["home_share"] == pytest.approx(0.79, abs=0.02)


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 5), st.integers(0))
def test_everybody_checks_in_ascending_within_the_time_and_the_grid(
    users: int, height: int, width: int, seed: int
) -> None:
    grid = Grid(rows=height, columns=width)
    found = trajectories(
        np.random.default_rng(seed),
        users,
        grid,
        Movement(),
        5.0,
        100.0,
        np.arange(grid.cells),
    )
    assert set(found.user.tolist()) == set(range(users))
    assert found.cell.min() >= 0
    assert found.cell.max() < grid.cells
    assert found.at_s.min() >= 0.0
    assert found.at_s.max() <= 100.0
    for user in range(users):
        times = found.at_s[found.user == user]
        assert (np.diff(times) >= 0).all()


def test_home_is_the_most_frequent_cell() -> None:
    seen = Trajectories(
        np.array([0, 0, 0, 1, 1]), np.arange(5.0), np.array([4, 7, 7, 3, 2]), users=2
    )
    assert seen.homes().tolist() == [7, 2]
    assert seen.arrives.tolist() == [True, True, False, True, True]


def test_subscriptions_say_where_the_user_and_four_friends_are() -> None:
    tables = rows()
    where: dict[str, list[tuple[float, str]]] = {}
    for row in tables["publications"]:
        where.setdefault(row["publisher"], []).append((row["at_s"], row["topic"]))
    held: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in tables["subscriptions"]:
        held.setdefault((row["subscriber"], row["subscription"]), []).append(row)
    assert len(held) == 40 * 5
    tracks = {
        user: [seen[0][1], *(b[1] for a, b in itertools.pairwise(seen) if a[1] != b[1])]
        for user, seen in where.items()
    }
    for (subscriber, name), stays in held.items():
        assert stays[0]["from_s"] == 0.0
        assert stays[-1]["until_s"] is None
        for before, after in itertools.pairwise(stays):
            assert before["until_s"] == after["from_s"]
        track = [row["topic"] for row in stays]
        if name == "own":
            assert track == tracks[subscriber]
        else:
            assert any(track == tracks[user] for user in tracks if user != subscriber)


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 50))
def test_friends_are_others_and_different(users: int, friends: int, seed: int) -> None:
    follower, slot, followed = location._follows(Block(seed, "subscriptions", 0, 0, users), friends)
    each = min(friends, users - 1) + 1
    assert len(follower) == users * each
    for user in range(users):
        mine = followed[follower == user]
        assert mine[slot[follower == user] == 0].tolist() == [user]
        assert len(set(mine.tolist())) == each


def test_brokers_lie_as_far_apart_as_their_cells() -> None:
    places = {row["broker"]: row["location"] for row in rows()["brokers"]}
    assert len(places) == 1200
    north = np.hypot(*np.subtract(places["n40w100"], places["n30w100"]))
    assert north == pytest.approx(10 * 111.2 / 100, rel=1e-4)
    east = np.hypot(*np.subtract(places["n40w100"], places["n40w090"]))
    assert 0.7 * north < east < 0.85 * north  # meridians are closer at 38 degrees


def test_measured_check_ins_are_taken_as_they_are(tmp_path: Path) -> None:
    lines = ["user,epoch_s,lat,lon,poi"]
    lines += ["7,100,40.7,-73.9,1", "7,160,40.2,-74.0,2", "9,130,-33.9,151.2,3", "7,130,41.5,-74,4"]
    with gzip.open(tmp_path / "foursquare_3_checkins.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    tables = rows(tmp_path)
    assert {row["broker"] for row in tables["brokers"]} == {"n40w074", "n41w074", "s34e151"}
    assert [(row["publisher"], row["at_s"], row["topic"]) for row in tables["publications"]] == [
        ("user-01", 0.0, "cells/n40w074"),
        ("user-01", 30.0, "cells/n41w074"),
        ("user-01", 60.0, "cells/n40w074"),
        ("user-02", 30.0, "cells/s34e151"),
    ]
    friend = [row for row in tables["subscriptions"] if row["subscriber"] == "user-02"]
    assert [(row["subscription"], row["topic"], row["from_s"]) for row in friend] == [
        ("own", "cells/s34e151", 0.0),
        ("friend-1", "cells/n40w074", 0.0),
        ("friend-1", "cells/n41w074", 30.0),
        ("friend-1", "cells/n40w074", 60.0),
    ]
