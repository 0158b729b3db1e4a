"""Physical networks like the Internet: transit domains, stub domains, and the ways between nodes.

Owns a small generator of transit-stub graphs and shortest paths on any graph. Domains lie around
points in a plane, nodes around their domain; lengths of edges are distances. A domain is a random
tree in which every node joins one of its nearest predecessors, plus extra edges, so it is always
connected. Knows nothing of brokers.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.data import Graph

Count = Annotated[int, msgspec.Meta(ge=1)]


class TransitStub(msgspec.Struct, frozen=True):
    """Sizes of a transit-stub graph: 100 domains with over 10,000 nodes as in Section 5 of the
    self-organizing topologies; extents and degrees are fitted to GT-ITM's `topo-0-big`."""

    transit_domains: Count = 4
    transit_nodes: Count = 8
    """In each transit domain."""
    stubs_per_node: Count = 3
    stub_nodes: Count = 105
    """In each stub domain."""
    extra_edges_per_node: Annotated[float, msgspec.Meta(ge=0.0)] = 0.8
    """Beyond the tree of each domain; the mean degree is about 2 + 2 * this."""
    extent: float = 283.0
    """Side of the plane that transit domains are drawn from."""
    transit_extent: float = 142.0
    stub_extent: float = 72.0

    @property
    def nodes(self) -> int:
        transit = self.transit_domains * self.transit_nodes
        return transit * (1 + self.stubs_per_node * self.stub_nodes)


def transit_stub_graph(sizes: TransitStub, random: np.random.Generator) -> Graph:
    """Draw a graph; transit nodes come first."""
    transit = sizes.transit_domains * sizes.transit_nodes
    centres = random.random((sizes.transit_domains, 2)) * sizes.extent
    around = np.repeat(centres, sizes.transit_nodes, axis=0)
    backbone = around + _offsets(random, transit, sizes.transit_extent)
    stubs = transit * sizes.stubs_per_node
    homes = np.repeat(np.arange(transit), sizes.stubs_per_node)
    # A stub domain lies beside its transit node, its nodes around its own centre.
    middles = backbone[homes] + _offsets(random, stubs, sizes.stub_extent)
    hosts = np.repeat(middles, sizes.stub_nodes, axis=0)
    hosts = hosts + _offsets(random, len(hosts), sizes.stub_extent)
    points = np.concatenate([backbone, hosts])
    edges: set[tuple[int, int]] = set()
    for domain in range(sizes.transit_domains):
        first = domain * sizes.transit_nodes
        edges |= _domain(points, first, sizes.transit_nodes, sizes.extra_edges_per_node, random)
        for other in range(domain):  # every two transit domains touch
            ends = random.integers(sizes.transit_nodes, size=2).tolist()
            edges.add((other * sizes.transit_nodes + ends[0], first + ends[1]))
    for stub in range(stubs):
        first = transit + stub * sizes.stub_nodes
        edges |= _domain(points, first, sizes.stub_nodes, sizes.extra_edges_per_node, random)
        edges.add((int(homes[stub]), first + int(random.integers(sizes.stub_nodes))))
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    lengths = np.hypot(*(points[pairs[:, 0]] - points[pairs[:, 1]]).T)
    return Graph(len(points), pairs, np.round(lengths, 3), np.arange(transit, len(points)))


def _offsets(random: np.random.Generator, count: int, extent: float) -> Floats:
    return np.asarray((random.random((count, 2)) - 0.5) * extent)


def _domain(
    points: Floats, first: int, count: int, extra_per_node: float, random: np.random.Generator
) -> set[tuple[int, int]]:
    """Edges within one domain: a tree of short edges and some drawn at random."""
    offered = random.random((count - 1, 4)) * np.arange(1, count)[:, np.newaxis]
    candidates = first + offered.astype(np.int64)
    nodes = np.arange(first + 1, first + count)
    apart = points[candidates] - points[nodes][:, np.newaxis]
    nearest = np.hypot(apart[..., 0], apart[..., 1]).argmin(axis=1)
    parents = candidates[np.arange(count - 1), nearest]
    edges = set(zip(parents.tolist(), nodes.tolist(), strict=True))
    extra = np.sort(random.integers(first, first + count, (int(count * extra_per_node), 2)))
    edges.update((one, other) for one, other in extra.tolist() if one != other)
    return edges


def shortest_paths(graph: Graph, sources: Integers) -> Floats:
    """Length of the shortest way from each source to every node; infinite without one.

    All sources relax all edges at once until nothing changes; on networks whose ways have a
    dozen edges that is a dozen rounds."""
    ends = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    order = np.argsort(ends[:, 1], kind="stable")
    origins, targets = ends[order, 0], ends[order, 1]
    lengths = np.concatenate([graph.lengths, graph.lengths])[order][:, np.newaxis]
    reached, starts = np.unique(targets, return_index=True)
    distances = np.full((graph.nodes, len(sources)), np.inf)
    distances[sources, np.arange(len(sources))] = 0.0
    while len(reached):
        through = np.minimum.reduceat(distances[origins] + lengths, starts, axis=0)
        shorter = np.minimum(distances[reached], through)
        if np.array_equal(shorter, distances[reached]):
            break
        distances[reached] = shorter
    return np.ascontiguousarray(distances.T)
