"""What a node tells about itself, as plain data: read by people, tools and tests.

Owns the shape of a status, not where the figures come from nor how they travel.
"""

from __future__ import annotations

import msgspec

from gravitate.overlay.topology import Neighbourhood


class LinkStatus(msgspec.Struct, frozen=True):
    """One link. `state` is `up`, `greeting` (connected, hello not exchanged) or `down`."""

    peer: str
    state: str
    rtt_ms: float
    queue_events: int
    """Sent and not acknowledged."""
    queue_bytes: int
    """Waiting in this process to be written."""
    bytes_in: int
    bytes_out: int
    unsettled: int = 0
    """Subscriptions of clients of this broker that have not settled behind it."""


class HeldStatus(msgspec.Struct, frozen=True):
    """Publishers here that are not read from because a link that their events go over has too much
    queued: the link of broker `broker` to `peer`."""

    broker: str
    peer: str
    count: int
    publishers: list[str]
    """The first of them, by name."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether a broker that was started does all it should."""

    broker: str
    ready: bool
    awaited: dict[str, str] = {}
    """Neighbours that it waits for, and why."""
    down: list[str] = []
    """Neighbours whose links have been up since the start, and are not now."""


class NodeStatus(msgspec.Struct, frozen=True):
    """One broker at one moment."""

    broker: str
    incarnation: int
    network: str
    uptime_s: float
    sessions: int
    links: list[LinkStatus]
    tables: dict[str, int]
    counters: dict[str, int]
    held: list[HeldStatus] = []
    detached: list[str] = []
    """Mechanisms and observers that raised, and are let go of."""
    topology: Neighbourhood = Neighbourhood(0, ())
    """Its own part of the primary tree."""
