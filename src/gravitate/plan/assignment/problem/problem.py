"""The subscriber assignment problem: a tree of brokers, subscribers, and what must hold.

    network = network_of(publisher=[0, 0], points=[[1, 0], [0, 2]])
    problem = problem_of(network, locations, interests, delay_max=0.3, beta=1.5, beta_max=1.8)

The publisher is the root of the tree and not one of the brokers. Brokers without children are
*leaves*, and subscribers are assigned to leaves. Points lie in the network space, where distance
is one-way latency in ms; interests are boxes in the event space, `interests[j, 0]` the lower
corner and `interests[j, 1]` the upper (paper 4, section 2).

A subscriber's *candidates* are the leaves through which its latency is within its bound. They are
kept as bits: bit `k % 64` of word `k // 64` stands for leaf k, so a million subscribers of 100
leaves take 16 MB. Leaves are numbered in the order of their brokers; algorithms and solutions
speak of leaves by these numbers.

Owns the arrays and their checks. Invariants: floats are doubles, all arrays are contiguous, every
subscriber has a candidate (its shortest way is one), parents come before children in `order`.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.problem import reach_kernels as kernels

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

PUBLISHER: Final = -1
"""The parent of brokers that are linked to the publisher itself."""

_ROUNDING: Final = 1e-9
"""What capacity fractions and loads may be off by because doubles are rounded."""


class Network(msgspec.Struct, frozen=True, eq=False):
    """Brokers in a tree below the publisher, and what each of them may hold."""

    publisher: Floats
    points: Floats
    """(brokers, network dimensions)"""
    parent: Ints
    """`PUBLISHER` for brokers linked to it."""
    order: Ints
    """All brokers, parents before children."""
    leaves: Ints
    """The brokers that serve subscribers, ascending."""
    tree_ms: Floats
    """Latency from the publisher through the tree to broker i."""
    complexity: Ints
    """How many boxes the filter of broker i may have: alpha."""
    capacity: Floats
    """Which fraction of all subscribers is the fair share of leaf k: kappa; the sum is 1."""

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def leaf_points(self) -> Floats:
        return self.points[self.leaves]

    @property
    def leaf_ms(self) -> Floats:
        return self.tree_ms[self.leaves]


class Reach(msgspec.Struct, frozen=True, eq=False):
    """Which leaves are near enough for each subscriber."""

    shortest_ms: Floats
    """Of the ways through the tree and through any leaf."""
    candidates: Words
    """(subscribers, words); bit k stands for leaf k."""


class Places(msgspec.Struct, frozen=True, eq=False):
    """Where subscribers are, by number, when latencies are known and not distances of points."""

    place: Ints
    """Of each subscriber."""
    leaf_ms: Floats
    """(places, leaves): latency between a place and a leaf."""


class Problem(msgspec.Struct, frozen=True, eq=False):
    """What is asked of an assignment."""

    network: Network
    locations: Floats
    """(subscribers, network dimensions)"""
    interests: Floats
    """(subscribers, 2, event dimensions)"""
    delay_max: Floats
    """Allowed delay of subscriber j: latency / shortest latency - 1."""
    reach: Reach
    beta: float
    """The wanted bound on the load balance factor."""
    beta_max: float
    """The bound that must hold."""
    places: Places | None = None
    """None: a subscriber is as far from a leaf as its location is."""
    slack_ms: float = 0.0
    """So much longer than the shortest way is never too far, whatever `delay_max` says."""

    def __len__(self) -> int:
        return len(self.locations)

    @property
    def bound_ms(self) -> Floats:
        """The latency that each subscriber may have."""
        shortest_ms = self.reach.shortest_ms
        return np.maximum(shortest_ms * (1.0 + self.delay_max), shortest_ms + self.slack_ms)

    @property
    def dimensions(self) -> int:
        """Of the event space."""
        return int(self.interests.shape[2])

    def leaf_capacities(self, factor: float) -> Longs:
        """How many subscribers each leaf may have for a load balance factor."""
        return whole(factor * self.network.capacity * len(self))


def whole(subscribers: Floats) -> Longs:
    """How many whole subscribers fit; a rounding below a whole number counts as that number."""
    return np.floor(subscribers * (1 + _ROUNDING) + _ROUNDING).astype(np.int64)


def network_of(
    publisher: ArrayLike,
    points: ArrayLike,
    parent: ArrayLike | None = None,
    complexity: ArrayLike = 3,
    capacity: ArrayLike | None = None,
) -> Network:
    """A tree of brokers. Without parents all are linked to the publisher; a single complexity
    serves for all; without capacities all leaves have the same (paper 4, section 6)."""
    root = _floats("publisher", publisher, 1)
    places = _floats("points", points, 2)
    count = len(places)
    if count == 0:
        raise InputError("no brokers are given: write at least one point")
    if places.shape[1] != len(root):
        raise InputError(
            f"points of {places.shape[1]} dimensions are not accepted: "
            f"the publisher has {len(root)}, write as many for each broker"
        )
    parents = _parents(parent, count)
    order = _top_down(parents)
    tree_ms = np.zeros(count)
    for broker in order:
        above = parents[broker]
        start = root if above == PUBLISHER else places[above]
        way = 0.0 if above == PUBLISHER else tree_ms[above]
        tree_ms[broker] = way + np.linalg.norm(places[broker] - start)
    is_leaf = np.ones(count, dtype=np.bool_)
    is_leaf[parents[parents != PUBLISHER]] = False
    leaves = np.flatnonzero(is_leaf).astype(np.int32)
    return Network(
        publisher=root,
        points=places,
        parent=parents,
        order=order,
        leaves=leaves,
        tree_ms=tree_ms,
        complexity=_complexities(complexity, count),
        capacity=_capacities(capacity, len(leaves)),
    )


def problem_of(
    network: Network,
    locations: ArrayLike,
    interests: ArrayLike,
    delay_max: ArrayLike = 0.3,
    beta: float = 1.5,
    beta_max: float = 1.8,
) -> Problem:
    """The problem for these subscribers; defaults are those of set 1 (paper 4, section 6).

    A single `delay_max` serves for all. Interests have to be finite: cut them off where the event
    space ends."""
    places = _floats("locations", locations, 2)
    boxes = _floats("interests", interests, 3)
    _require_boxes(boxes)
    if len(boxes) != len(places):
        raise InputError(
            f"{len(boxes)} interests for {len(places)} locations are not accepted: "
            "write one of each for every subscriber"
        )
    if not 0.0 < beta <= beta_max or np.isinf(beta_max):
        raise InputError(
            f"beta = {beta:g} and beta_max = {beta_max:g} are not accepted: "
            "write 0 < beta <= beta_max, both finite"
        )
    delays = _delays(delay_max, len(places))
    reach = reach_of(network, places, delays)
    return Problem(network, places, boxes, delays, reach, float(beta), float(beta_max))


def reach_of(network: Network, locations: ArrayLike, delay_max: ArrayLike) -> Reach:
    """Shortest ways and candidates of subscribers; each one's depend on nobody else's."""
    places = _floats("locations", locations, 2)
    if places.shape[1] != network.points.shape[1]:
        raise InputError(
            f"locations of {places.shape[1]} dimensions are not accepted: "
            f"the network has {network.points.shape[1]}"
        )
    shortest_ms = np.empty(len(places))
    words = -(-len(network.leaves) // 64)
    candidates = np.zeros((len(places), words), dtype=np.uint64)
    delays = _delays(delay_max, len(places))
    kernels.reach(places, network.leaf_points, network.leaf_ms, delays, shortest_ms, candidates)
    return Reach(shortest_ms, candidates)


def latencies_ms(problem: Problem, leaf: Ints) -> Floats:
    """The latency of each subscriber through the leaf that is named for it."""
    network = problem.network
    if problem.places is not None:
        near_ms: Floats = problem.places.leaf_ms[problem.places.place, leaf]
        return network.leaf_ms[leaf] + near_ms
    hops = problem.locations - network.points[network.leaves[leaf]]
    found: Floats = network.leaf_ms[leaf] + np.sqrt(np.einsum("ij,ij->i", hops, hops))
    return found


def all_leaves(problem: Problem) -> Words:
    """Candidates as they would be without bounds on latency."""
    row = leaf_bits(np.ones(len(problem.network.leaves), dtype=np.bool_))
    return np.tile(row, (len(problem), 1))


def leaf_bits(is_in: NDArray[np.bool_]) -> Words:
    """A set of leaves as bits, one row of candidates."""
    bits = np.zeros(-(-len(is_in) // 64) * 64, dtype=np.bool_)
    bits[: len(is_in)] = is_in
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def candidate_table(candidates: Words, leaves: int) -> NDArray[np.bool_]:
    """Candidates as (subscribers, leaves), a byte each."""
    octets = np.ascontiguousarray(candidates).astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(octets, axis=1, bitorder="little")[:, :leaves]
    return bits.view(np.bool_)


def candidate_lists(candidates: Words, leaves: int) -> list[list[int]]:
    """Candidates as lists of leaves: for reading, not for millions."""
    return [np.flatnonzero(row).tolist() for row in candidate_table(candidates, leaves)]


def _floats(name: str, values: ArrayLike, axes: int) -> Floats:
    found = np.ascontiguousarray(values, dtype=np.float64)
    if found.ndim != axes or (axes > 1 and found.shape[-1] == 0):
        raise InputError(
            f"{name} of shape {found.shape} are not accepted: write an array of {axes} axes, "
            "the last of them at least 1 long"
        )
    if not np.isfinite(found).all():
        place = np.argwhere(~np.isfinite(found))[0].tolist()
        raise InputError(f"{found[tuple(place)]} at {place} of {name}: write finite numbers")
    return found


def _integers(name: str, values: ArrayLike) -> Ints:
    given = np.asarray(values)
    found = given.astype(np.int32)
    wrong = given[found != given]
    if wrong.size:
        raise InputError(f"{name} {wrong[0]} is not accepted: write whole numbers of 32 bits")
    return found


def _parents(parent: ArrayLike | None, count: int) -> Ints:
    if parent is None:
        return np.full(count, PUBLISHER, dtype=np.int32)
    found = _integers("parent", parent)
    if found.shape != (count,):
        raise InputError(f"parents of shape {found.shape}: write one for each of {count} brokers")
    wrong = np.flatnonzero((found < PUBLISHER) | (found >= count))
    if wrong.size:
        raise InputError(
            f"parent {found[wrong[0]]} of broker {wrong[0]} is not accepted: "
            f"write 0 to {count - 1}, or {PUBLISHER} for the publisher"
        )
    return found


def _top_down(parent: Ints) -> Ints:
    children: list[list[int]] = [[] for _ in parent]
    order: list[int] = []
    for broker, above in enumerate(parent.tolist()):
        (order if above == PUBLISHER else children[above]).append(broker)
    for broker in order:
        order.extend(children[broker])
    if len(order) < len(parent):
        lost = min(set(range(len(parent))) - set(order))
        raise InputError(
            f"broker {lost} is not below the publisher: its parents form a circle; "
            f"the topmost of them must have parent {PUBLISHER}"
        )
    return np.array(order, dtype=np.int32)


def _complexities(complexity: ArrayLike, count: int) -> Ints:
    given = _integers("complexity", complexity)
    if given.shape not in ((), (count,)):
        raise InputError(
            f"complexities of shape {given.shape}: write one number, or one for each of "
            f"{count} brokers"
        )
    found = np.array(np.broadcast_to(given, count))
    wrong = np.flatnonzero(found < 1)
    if wrong.size:
        raise InputError(
            f"complexity {found[wrong[0]]} of broker {wrong[0]} is not accepted: write 1 or more"
        )
    return found


def _capacities(capacity: ArrayLike | None, leaves: int) -> Floats:
    if capacity is None:
        return np.full(leaves, 1.0 / leaves)
    found = _floats("capacity", capacity, 1)
    if found.shape != (leaves,):
        raise InputError(f"{len(found)} capacities: write one for each of {leaves} leaves")
    if (found < 0).any():
        wrong = int(np.flatnonzero(found < 0)[0])
        raise InputError(f"capacity {found[wrong]:g} of leaf {wrong}: write 0 or more")
    if abs(found.sum() - 1.0) > _ROUNDING:
        raise InputError(f"capacities add up to {found.sum():.12g}: write fractions of 1")
    return found


def _delays(delay_max: ArrayLike, count: int) -> Floats:
    given = np.asarray(delay_max, dtype=np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(
            f"delay_max of shape {given.shape}: write one number, or one for each of "
            f"{count} subscribers"
        )
    found = np.array(np.broadcast_to(given, count))
    wrong = np.flatnonzero(~(found >= 0) | np.isinf(found))
    if wrong.size:
        raise InputError(
            f"delay_max {found[wrong[0]]:g} of subscriber {wrong[0]} is not accepted: "
            "write a finite number from 0"
        )
    return found


def _require_boxes(boxes: Floats) -> None:
    if boxes.shape[1] != 2:
        raise InputError(
            f"interests of shape {boxes.shape} are not accepted: "
            "write a lower and an upper corner for each subscriber"
        )
    wrong = np.argwhere(boxes[:, 0] > boxes[:, 1])
    if wrong.size:
        subscriber, axis = wrong[0].tolist()
        low, high = boxes[subscriber, :, axis]
        raise InputError(
            f"interest of subscriber {subscriber} from {low:g} to {high:g} on axis {axis}: "
            "write the lower corner first"
        )
