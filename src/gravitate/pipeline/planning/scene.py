"""A recorded network as the assignment problem has it: a root, a tree, latencies.

    scene = Scene.of(network, overlay, published)

Paper 4 has one publisher at the root of a tree, and subscribers at its leaves. A recorded network
has publishers and subscribers anywhere. So the root is the broker that is nearest to where events
are published, weighed by how many; every broker may serve, and one with brokers below it is two
nodes of the problem: an inner one, and a leaf at the same place.

A subscriber's place is unknown to traces, so it counts as being where its present broker is. Its
latency through another one is that of the tree from the root to there, and from there to its
present broker: by the network file's coordinates if all brokers have some, else along the links.

Owns how a network becomes a tree of the problem. It knows no subscribers.
"""

from __future__ import annotations

import msgspec
import numpy as np

from gravitate.config.network import Network
from gravitate.overlay.embedding import distances, embed
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.plan.assignment.problem import problem as problems
from gravitate.plan.assignment.problem.known_latencies import with_tree_ms
from gravitate.plan.assignment.problem.problem import Floats, Ints


class Scene(msgspec.Struct, frozen=True, eq=False):
    """A network as the problem has it, seen from its root; brokers by their position."""

    overlay: Overlay
    root: int
    network: problems.Network
    broker: Ints
    """Of each leaf."""
    leaf: Ints
    """Of each broker."""
    near_ms: Floats
    """(brokers, leaves): latency between brokers' places."""
    points: Floats
    """Of brokers."""

    @classmethod
    def of(
        cls, network: Network, overlay: Overlay, published: Floats, complexity: int = 3
    ) -> Scene:
        """`published` are the events that were published at each broker."""
        along_ms, hops = tree_distances(overlay)
        # Of brokers that are equally near the one with the fewest links between.
        far_ms, far_hops = along_ms @ published, hops @ published
        root = int(np.lexsort((far_hops, far_ms))[0])
        points, direct_ms = _places(network, overlay, along_ms)
        count = len(overlay.brokers)
        parent = _parents(overlay, root)
        inner = np.unique(parent[parent >= 0])
        nodes = np.concatenate((np.arange(count), inner))
        posed = problems.network_of(
            points[root], points[nodes], np.concatenate((parent, inner)), complexity
        )
        posed = with_tree_ms(posed, along_ms[root][nodes])
        broker = nodes[posed.leaves].astype(np.int32)
        leaf = np.empty(count, dtype=np.int32)
        leaf[broker] = np.arange(count)
        near_ms = np.ascontiguousarray(direct_ms[:, broker])
        return cls(overlay, root, posed, broker, leaf, near_ms, points)

    def own_ms(self, place: Ints, broker: Ints) -> Floats:
        """How far subscribers are from a broker that serves them; `place` is where they are, the
        broker that they had when they were recorded."""
        found: Floats = self.near_ms[place, self.leaf[broker]]
        return found


def tree_distances(overlay: Overlay) -> tuple[Floats, Floats]:
    """Between all pairs of brokers along the tree: latency in ms, and links."""
    tree = overlay.tree
    count = len(tree)
    far_ms, hops = np.zeros((2, count, count))
    known: list[int] = []
    for broker in np.argsort(tree.depth, kind="stable").tolist():
        up = tree.parent[broker]
        if up >= 0:
            for table, step in ((far_ms, 1000 * tree.latency_s[broker]), (hops, 1.0)):
                table[broker, known] = table[known, broker] = table[up, known] + step
        known.append(broker)
    return far_ms, hops


def _places(network: Network, overlay: Overlay, along_ms: Floats) -> tuple[Floats, Floats]:
    """Points of brokers in the network space, and latencies between their places."""
    given = {broker.id: broker.coordinates for broker in network.brokers}
    rows = [given[broker] for broker in overlay.brokers]
    if rows[0] and len({len(row) for row in rows}) == 1:
        points = np.array(rows, dtype=np.float64)
        return points, distances(points)
    return np.ascontiguousarray(embed(2 * along_ms).points), along_ms


def _parents(overlay: Overlay, root: int) -> Ints:
    """The parent of each broker when the tree hangs from `root`."""
    parent = overlay.tree.parent.copy()
    above, broker = problems.PUBLISHER, root
    while broker >= 0:
        parent[broker], above, broker = above, broker, int(overlay.tree.parent[broker])
    return parent
