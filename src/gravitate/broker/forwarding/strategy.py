"""Forwarding strategies: which links lead to the anchors that want an event.

The matcher answers with anchors; a strategy turns them into neighbours. `S0` uses primary links
alone: with `delta = 1` an anchor is the neighbour itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Forwarder(Protocol):
    def next_hops(self, anchors: Sequence[str]) -> tuple[str, ...]:
        """The neighbours to send to so that every anchor is reached, sorted."""
        ...


class S0:
    """Primary links only."""

    def next_hops(self, anchors: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(anchors))


FORWARDERS: dict[str, type[Forwarder]] = {"S0": S0}
"""Every forwarding strategy by the name the network file uses."""
