"""Physical networks: connected, of the sizes asked for, with shortest ways."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.pipeline.workloads.data import Graph
from gravitate.pipeline.workloads.transit_stub import (
    TransitStub,
    shortest_paths,
    transit_stub_graph,
)


def dijkstra(graph: Graph, source: int) -> list[float]:
    ways: dict[int, list[tuple[int, float]]] = {node: [] for node in range(graph.nodes)}
    for (one, other), length in zip(graph.edges.tolist(), graph.lengths.tolist(), strict=True):
        ways[one].append((other, length))
        ways[other].append((one, length))
    best = [float("inf")] * graph.nodes
    best[source] = 0.0
    heap = [(0.0, source)]
    while heap:
        distance, node = heapq.heappop(heap)
        for other, length in ways[node]:
            if distance + length < best[other]:
                best[other] = distance + length
                heapq.heappush(heap, (best[other], other))
    return best


@given(st.integers(1, 12), st.data())
def test_ways_are_as_short_as_dijkstras(nodes: int, data: st.DataObject) -> None:
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=25)
    )
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=len(pairs), max_size=len(pairs)))
    graph = Graph(
        nodes,
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        np.array(lengths, dtype=np.float64),
        np.arange(nodes),
    )
    found = shortest_paths(graph, np.arange(nodes))
    for source in range(nodes):
        assert found[source].tolist() == dijkstra(graph, source)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(0))
def test_networks_are_connected_and_complete(
    domains: int, transit: int, stubs: int, nodes: int, seed: int
) -> None:
    sizes = TransitStub(
        transit_domains=domains, transit_nodes=transit, stubs_per_node=stubs, stub_nodes=nodes
    )
    graph = transit_stub_graph(sizes, np.random.default_rng(seed))
    assert graph.nodes == sizes.nodes
    assert len(graph.stubs) == domains * transit * stubs * nodes
    assert len({tuple(edge) for edge in graph.edges.tolist()}) == len(graph.edges)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert np.isfinite(shortest_paths(graph, np.array([0]))).all()


def test_the_default_has_100_domains_over_10000_nodes_and_the_degree_of_gt_itm() -> None:
    sizes = TransitStub()
    transit_nodes = sizes.transit_domains * sizes.transit_nodes
    assert sizes.transit_domains + transit_nodes * sizes.stubs_per_node == 100
    assert sizes.nodes > 10_000
    graph = transit_stub_graph(sizes, np.random.default_rng(1))
    assert 2 * len(graph.edges) / graph.nodes == pytest.approx(3.62, abs=0.15)
