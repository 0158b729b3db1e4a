"""The assignment problem for latencies that are known, where points would only approximate them.

    network = with_tree_ms(network_of(points[root], points, parent), tree_ms)
    problem = problem_at(network, points, Places(place, leaf_ms), interests)

The latencies of a recorded network are sums along its tree, and no points in a Euclidean space
have such distances. So the tree's latencies and those between places and leaves are given as they
are. Points stay beside them, as near to the latencies as they can be: algorithms that group
subscribers by where they are need some.

Owns how such problems are made. Invariants are those of `problem`: who may not move still has a
candidate, its own leaf.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.problem.problem import (
    Floats,
    Ints,
    Network,
    Places,
    Problem,
    Reach,
    Words,
    problem_of,
)

STAYS_FREE = -1
"""In `fixed`: this subscriber may go wherever it is near enough."""


def with_tree_ms(network: Network, tree_ms: ArrayLike) -> Network:
    """The same network with these latencies from the publisher to each broker."""
    given = np.ascontiguousarray(tree_ms, dtype=np.float64)
    if given.shape != (len(network),) or not (np.isfinite(given) & (given >= 0)).all():
        raise InputError(
            f"tree latencies {given.tolist()[:5]} are not accepted: write a finite number from 0 "
            f"for each of {len(network)} brokers"
        )
    return msgspec.structs.replace(network, tree_ms=given)


def problem_at(
    network: Network,
    points: ArrayLike,
    places: Places,
    interests: ArrayLike,
    delay_max: ArrayLike = 0.3,
    beta: float = 1.5,
    beta_max: float = 1.8,
    *,
    slack_ms: float = 0.0,
    fixed: Ints | None = None,
) -> Problem:
    """The problem for subscribers at known places, `points` being those of the places.

    `fixed` names for each subscriber the only leaf that may serve it, or `STAYS_FREE`."""
    leaves = len(network.leaves)
    near_ms = places.leaf_ms
    if near_ms.ndim != 2 or near_ms.shape[1] != leaves or not (near_ms >= 0).all():
        raise InputError(
            f"latencies of shape {near_ms.shape} between places and leaves are not accepted: "
            f"write numbers from 0, a row for each place and a column for each of {leaves} leaves"
        )
    if not 0 <= slack_ms < np.inf:
        raise InputError(f"slack of {slack_ms:g} ms is not accepted: write a finite number from 0")
    where = np.asarray(points, dtype=np.float64)[places.place]
    plain = problem_of(network, where, interests, delay_max, beta, beta_max)
    latency_ms = network.leaf_ms + near_ms
    shortest_ms = latency_ms.min(axis=1)[places.place]
    problem = msgspec.structs.replace(
        plain,
        places=places,
        slack_ms=float(slack_ms),
        reach=Reach(shortest_ms, plain.reach.candidates),
    )
    candidates = _candidates(latency_ms, places.place, problem.bound_ms)
    if fixed is not None:
        chosen = np.flatnonzero(fixed != STAYS_FREE)
        only = np.zeros((len(chosen), leaves), dtype=np.bool_)
        only[np.arange(len(chosen)), fixed[chosen]] = True
        candidates[chosen] = _as_bits(only)
    return msgspec.structs.replace(problem, reach=Reach(shortest_ms, candidates))


def _candidates(latency_ms: Floats, place: Ints, bound_ms: Floats) -> Words:
    leaves = latency_ms.shape[1]
    found = np.zeros((len(place), -(-leaves // 64)), dtype=np.uint64)
    for number, from_here_ms in enumerate(latency_ms):
        here = np.flatnonzero(place == number)
        # The shortest way itself must pass, whatever the bound is rounded to.
        bound = np.maximum(bound_ms[here], from_here_ms.min())
        found[here] = _as_bits(from_here_ms <= bound[:, None])
    return found


def _as_bits(is_candidate: NDArray[np.bool_]) -> Words:
    subscribers, leaves = is_candidate.shape
    words = -(-leaves // 64)
    octets = np.zeros((subscribers, words * 8), dtype=np.uint8)
    packed = np.packbits(is_candidate, axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    return octets.view("<u8").astype(np.uint64)
