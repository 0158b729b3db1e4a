"""POP: the way of a relocation request to the broker closest to most subscribers.

Each broker on the way decides by its own publisher profile table alone, and by what the request
tells about the side it comes from:

    hop = next_hop({"b2": 6, "b4": 3, "b5": 15}, local=1)      # at b1
    hop == Hop("b5", behind=10)
    next_hop({"b6": 15}, local=0, sender="b1", behind=10)      # at b5: on to b6

Owns the paper's *closest* condition. Knows neither how profiles are traced nor messages; the
same walk for many publishers at once is `placement.closest_brokers`.

Deviation from the paper: a request never goes back to where it came from. With exact counts the
condition excludes that by itself; running averages of two brokers can contradict each other, and
the request would then go to and fro.

Reference: Cheung and Jacobsen, "Publisher Placement Algorithms in Content-based
Publish/Subscribe", ICDCS 2010, section III.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from gravitate.errors import InputError


class PopParameters(msgspec.Struct, frozen=True):
    """What can be set; the names in brackets are the paper's, and so are the defaults."""

    traced_max: int = 50
    """Publications of a publisher traced in one window [N] (section III-A)."""
    window_s: float = 60.0
    """[W] (section III-A)."""
    newest_weight: float = 0.25
    """Weight of the newest value in the running average of a profile (section III-A)."""
    traces_min: int = 100
    """Traced publications before a selection [P_threshold] (section III-B)."""

    def __post_init__(self) -> None:
        for name in ("traced_max", "traces_min"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name} {getattr(self, name)} is not accepted: write a whole number from 1"
                )
        if not 0 < self.window_s < math.inf:
            raise InputError(f"window {self.window_s} s is not accepted: write more than 0")
        if not 0 < self.newest_weight <= 1:
            raise InputError(
                f"weight {self.newest_weight} of the newest value is not accepted: "
                "write more than 0 and at most 1"
            )


class Hop(msgspec.Struct, frozen=True):
    """Where a relocation request goes next."""

    neighbour: str
    behind: float
    """Subscribers at and behind the broker that sends it on, as seen from the neighbour."""


def next_hop(
    downstream: Mapping[str, float], local: float, sender: str | None = None, behind: float = 0.0
) -> Hop | None:
    """The neighbour with more subscribers than everything else together; None: stay here.

    `downstream` counts the subscribers behind each neighbour, `local` those at this broker,
    `behind` those on the side of the `sender`, as the request tells; what `downstream` says of
    the sender is not used."""
    counts = {near: count for near, count in downstream.items() if near != sender}
    for near, count in counts.items():
        rest = math.fsum((*(c for other, c in counts.items() if other != near), local, behind))
        if count > rest:
            return Hop(near, rest)
    return None
