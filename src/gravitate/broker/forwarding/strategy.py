"""Forwarding strategies: which links lead to the anchors that want an event.

The router answers with anchors; a strategy turns them into neighbours. `S0` uses primary links
alone: with `delta = 1` an anchor is the neighbour itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Forwarder(Protocol):
    def hops(self, anchors: Collection[str], came_from: str | None) -> tuple[str, ...]:
        """The neighbours to send to so that every anchor is reached, each once and sorted; never
        the one that it came from."""
        ...


class S0:
    """Primary links only."""

    def hops(self, anchors: Collection[str], came_from: str | None) -> tuple[str, ...]:
        return tuple(sorted({*anchors} - {came_from}))


FORWARDERS: dict[str, type[Forwarder]] = {"S0": S0}
"""Every forwarding strategy by the name the network file uses."""
