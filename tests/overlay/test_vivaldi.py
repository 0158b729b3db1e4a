"""Vivaldi's coordinates come to tell round trips that their hosts have never measured."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.overlay.vivaldi import (
    DEFAULTS,
    Coordinate,
    VivaldiParameters,
    round_trip_s,
    sampled,
    start,
)


def planetlab_like(hosts: int, seed: int) -> list[list[float]]:
    """Round trips in seconds: continents in a plane, access links of their own, and a routing that
    takes detours, so that the triangle inequality is broken now and then."""
    draw = random.Random(seed)
    continents = [(0.0, 0.0), (0.08, 0.01), (0.20, 0.06)]
    places = []
    for _ in range(hosts):
        x, y = draw.choice(continents)
        places.append((x + draw.gauss(0, 0.012), y + draw.gauss(0, 0.012)))
    access = [draw.expovariate(1 / 0.004) for _ in range(hosts)]
    times = [[0.0] * hosts for _ in range(hosts)]
    for one in range(hosts):
        for other in range(one):
            detour = math.exp(draw.gauss(0.0, 0.12))
            straight = math.dist(places[one], places[other]) * detour
            times[one][other] = times[other][one] = straight + access[one] + access[other]
    return times


def learned(times: list[list[float]], partners: int, rounds: int, seed: int) -> list[Coordinate]:
    """Every host measures to a few others, again and again."""
    draw = random.Random(seed)
    hosts = len(times)
    known = [draw.sample([o for o in range(hosts) if o != host], partners) for host in range(hosts)]
    found = [start() for _ in range(hosts)]
    for _ in range(rounds):
        for host in range(hosts):
            other = draw.choice(known[host])
            found[host] = sampled(found[host], found[other], times[host][other], draw)
    return found


def relative_errors(times: list[list[float]], found: list[Coordinate]) -> list[float]:
    return [
        abs(round_trip_s(found[one], found[other]) - times[one][other]) / times[one][other]
        for one in range(len(times))
        for other in range(one)
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_most_round_trips_are_told_within_a_fifth(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    times = planetlab_like(80, seed)
    found = learned(times, partners=16, rounds=400, seed=seed)
    errors = relative_errors(times, found)
    record_property("relative_error_median", round(median(errors), 4))
    assert median(errors) < 0.2
    assert median(errors) < 0.3 * median(relative_errors(times, [start() for _ in times]))


def test_hosts_in_a_plane_are_told_almost_exactly() -> None:
    draw = random.Random(5)
    places = [(draw.uniform(0, 0.1), draw.uniform(0, 0.1)) for _ in range(30)]
    times = [[math.dist(one, other) or 1e-3 for other in places] for one in places]
    found = learned(times, partners=29, rounds=600, seed=5)
    assert median(relative_errors(times, found)) < 0.06


def test_two_hosts_at_one_place_part() -> None:
    moved = sampled(start(), start(), 0.1, random.Random(1))
    assert round_trip_s(moved, start()) > round_trip_s(start(), start())


def test_a_sure_host_hardly_listens_to_an_unsure_one() -> None:
    sure, unsure = Coordinate((0.0, 0.0), 0.0, 0.01), Coordinate((0.1, 0.0), 0.0, 1.0)
    draw = random.Random(1)
    moved = math.dist(sampled(sure, unsure, 0.2, draw).point, sure.point)
    listened = math.dist(sampled(unsure, sure, 0.2, draw).point, unsure.point)
    assert moved < 0.05 * listened


seconds = st.floats(1e-6, 10.0)
coordinates = st.builds(
    Coordinate,
    st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
    st.floats(DEFAULTS.height_s_min, 1.0),
    st.floats(0.0, 1.5),
)


@given(coordinates, coordinates, seconds)
def test_a_sample_brings_the_distance_nearer_and_keeps_figures_sane(
    own: Coordinate, other: Coordinate, rtt_s: float
) -> None:
    moved = sampled(own, other, rtt_s, random.Random(1))
    assert all(map(math.isfinite, moved.point))
    assert moved.height_s >= DEFAULTS.height_s_min
    assert 0 <= moved.error <= DEFAULTS.error_max
    before = abs(round_trip_s(own, other) - rtt_s)
    after = abs(round_trip_s(moved, other) - rtt_s)
    assert after <= before + DEFAULTS.height_s_min + 1e-9


@given(coordinates, coordinates, st.sampled_from([0.0, -1.0, math.inf, math.nan]))
def test_what_is_no_time_changes_nothing(own: Coordinate, other: Coordinate, rtt_s: float) -> None:
    assert sampled(own, other, rtt_s, random.Random(1)) is own


def test_nonsense_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="0 dimensions"):
        VivaldiParameters(dimensions=0)
    with pytest.raises(InputError, match=r"step 0\.0"):
        VivaldiParameters(step=0.0)
