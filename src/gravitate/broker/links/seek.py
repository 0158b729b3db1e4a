"""The way along the tree to another broker, sought when it is needed and kept nowhere.

Whoever asks is answered by a call that may come later. As long as nothing changes the tree it comes
at once, from the tree that the broker was started with.
"""

from __future__ import annotations

from collections.abc import Callable

from gravitate.overlay.topology import Topology

Found = Callable[[tuple[str, ...] | None], None]
"""Told the brokers on the way, both ends included; None when there is no way."""


class Seek:
    def __init__(self, broker_id: str, tree: Topology) -> None:
        self._broker_id = broker_id
        self._tree = tree

    def find(self, to: str, then: Found) -> None:
        then(self._tree.path(self._broker_id, to))
