"""Forwarding strategies: which links lead to the anchors that want an event.

The router answers with anchors; a strategy turns them into neighbours. `S0` uses primary links
alone: with `delta = 1` an anchor is the neighbour itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from gravitate.overlay.strategies import S0, Forwarding


class Forwarder(Protocol):
    def hops(self, anchors: Collection[str], came_from: str | None) -> tuple[str, ...]:
        """The neighbours to send to so that every anchor is reached, each once and sorted; never
        the one that it came from."""
        ...


class PrimaryLinks:
    """S0."""

    def hops(self, anchors: Collection[str], came_from: str | None) -> tuple[str, ...]:
        return tuple(sorted({*anchors} - {came_from}))


FORWARDERS: Final[Mapping[Forwarding, type[Forwarder]]] = {S0: PrimaryLinks}
