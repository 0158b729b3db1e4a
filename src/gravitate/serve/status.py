"""What a node tells about itself, as plain data: read by people, tools and tests.

Owns the shape of a status, not where the figures come from nor how they travel.
"""

from __future__ import annotations

import msgspec


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
    detached: list[str] = []
    """Mechanisms and observers that raised, and are let go of."""
