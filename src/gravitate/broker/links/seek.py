"""The way along the tree to another broker, sought when it is needed and kept nowhere.

Whoever asks is answered by a call that may come later. As long as nothing changes the tree it comes
at once, from the tree that the broker was started with.
"""

from __future__ import annotations

from collections.abc import Callable

from gravitate.overlay.topology import Topology

Seek = Callable[[str, Callable[[tuple[str, ...] | None], None]], None]
"""Given a broker, and what is told those on the way to it, both ends included; None: there is no
way."""


def seek_in(tree: Topology, broker_id: str) -> Seek:
    return lambda to, then: then(tree.path(broker_id, to))
