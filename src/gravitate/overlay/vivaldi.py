"""Vivaldi: network coordinates that hosts keep by themselves, sample by sample.

A host has a point in a Euclidean space, a *height* (what its own access link adds to every way)
and an idea of how wrong it is. Each measured round trip to another host moves it along the line
between the two, as a spring of that length would:

    distance(i, j) = |x_i - x_j| + h_i + h_j                       (section 5.4)
    w = e_i / (e_i + e_j),   e_s = |distance - rtt| / rtt
    e_i <- e_s * c_e * w + e_i * (1 - c_e * w),   delta = c_c * w   (figure 4)
    x_i <- x_i + delta * (rtt - distance) * unit(x_i - x_j)

Owns the arithmetic of one sample. Knows neither who measures nor how coordinates travel: a sample
needs the other side's coordinate and nothing else, so there is no central part. Distances mean
something between hosts that have, directly or through others, measured enough pairs: links of a
tree alone do not tell how far its leaves are from each other.

Reference: Dabek, Cox, Kaashoek and Morris, "Vivaldi: A Decentralized Network Coordinate System",
SIGCOMM 2004.
"""

from __future__ import annotations

import math
import random

import msgspec

from gravitate.errors import InputError


class VivaldiParameters(msgspec.Struct, frozen=True):
    """What can be set; the names in brackets are the paper's."""

    dimensions: int = 2
    """Beside the height (section 5.4)."""
    error_step: float = 0.25
    """How far the newest sample moves a host's error [c_e] (section 2.5)."""
    step: float = 0.25
    """How far a sample moves a host [c_c] (section 2.5)."""
    height_s_min: float = 1e-5
    error_max: float = 1.5
    """A host is never less sure of itself than that."""

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise InputError(f"{self.dimensions} dimensions are not accepted: write at least 1")
        for name in ("error_step", "step"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise InputError(f"{name} {value} is not accepted: write more than 0 and at most 1")


DEFAULTS = VivaldiParameters()


class Coordinate(msgspec.Struct, frozen=True, array_like=True):
    """Where a host is; seconds of round-trip time."""

    point: tuple[float, ...]
    height_s: float
    error: float = 1.0
    """Relative, as the host believes."""


def start(parameters: VivaldiParameters = DEFAULTS) -> Coordinate:
    """The coordinate of a host that knows nothing."""
    return Coordinate((0.0,) * parameters.dimensions, parameters.height_s_min)


def round_trip_s(one: Coordinate, other: Coordinate) -> float:
    """The round-trip time between two different hosts, as their coordinates have it; above 0."""
    return math.dist(one.point, other.point) + one.height_s + other.height_s


def sampled(
    own: Coordinate,
    other: Coordinate,
    rtt_s: float,
    generator: random.Random,
    parameters: VivaldiParameters = DEFAULTS,
) -> Coordinate:
    """The host's coordinate after it has measured a round trip to another one.

    `generator` gives a direction to hosts at the same place that must part. A time that is not one
    (not above 0, not finite) changes nothing."""
    if not 0 < rtt_s < math.inf or len(own.point) != len(other.point):
        return own
    certainty = own.error + other.error
    weight = own.error / certainty if certainty > 0 else 0.5
    distance_s = round_trip_s(own, other)
    sample_error = abs(distance_s - rtt_s) / rtt_s
    share = parameters.error_step * weight
    error = min(sample_error * share + own.error * (1 - share), parameters.error_max)
    pull_s = parameters.step * weight * (rtt_s - distance_s)
    between = [mine - theirs for mine, theirs in zip(own.point, other.point, strict=True)]
    if pull_s > 0 and not any(between):
        between = [generator.gauss(0.0, 1.0) for _ in own.point]
        direction = [part / math.hypot(*between) for part in between]
        rise = 0.0
    else:
        # The height takes its share of the spring as if it were one more dimension.
        direction = [part / distance_s for part in between]
        rise = (own.height_s + other.height_s) / distance_s
    return Coordinate(
        tuple(mine + pull_s * part for mine, part in zip(own.point, direction, strict=True)),
        max(parameters.height_s_min, own.height_s + pull_s * rise),
        error,
    )
