"""How far brokers are apart that need not be neighbours.

Links are made at run time between any two brokers of a network; simulated worlds, and nodes that
emulate latencies, ask here how long they are. Simulated clients ask how far brokers are from where
they are themselves.
"""

from __future__ import annotations

import heapq

from gravitate.config.network import Network
from gravitate.errors import InputError
from gravitate.overlay.coordinates import latency_ms


def distance_ms(network: Network, one: str, other: str) -> float:
    """One-way latency between two brokers: their link's, else the distance of their coordinates,
    else the sum along the way between them."""
    known = {broker.id for broker in network.brokers}
    for broker in (one, other):
        if broker not in known:
            raise InputError(f"network {network.name!r} has no broker {broker!r}")
    distances = distances_ms(network, one)
    if other not in distances:
        raise InputError(f"no way leads from {one!r} to {other!r} in network {network.name!r}")
    return distances[other]


def distances_ms(network: Network, source: str) -> dict[str, float]:
    """`distance_ms` from a broker to each that it has a distance to."""
    places = {broker.id: broker.coordinates for broker in network.brokers}
    here = places[source]
    distances = ways_ms(network, source)
    if here:
        distances |= {id: latency_ms(here, place) for id, place in places.items() if place}
    for link in network.links:
        if source in link.between:
            one, other = link.between
            distances[other if one == source else one] = link.latency_ms
    return distances


def ways_ms(network: Network, source: str) -> dict[str, float]:
    """One-way latency from a broker to each that links lead to, by the shortest way over them."""
    near: dict[str, list[tuple[str, float]]] = {broker.id: [] for broker in network.brokers}
    for link in network.links:
        one, other = link.between
        near[one].append((other, link.latency_ms))
        near[other].append((one, link.latency_ms))
    found: dict[str, float] = {}
    ahead = [(0.0, source)]
    while ahead:
        way_ms, broker = heapq.heappop(ahead)
        if broker not in found:
            found[broker] = way_ms
            for other, latency_ms in near[broker]:
                heapq.heappush(ahead, (way_ms + latency_ms, other))
    return found
