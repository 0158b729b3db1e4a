"""A solution as slots that kernels work on, and back.

    slots = slots_of(problem, solution, capacity, seed)
    ...                                     # kernels change slots.state
    solution = slots.solution()

Owns the arrays of `slot_kernels` and how they come from a solution: each subscriber is put in the
first box of its leaf's filter that holds its interest. Where a filter is not usable so (it has too
many boxes, or holds an interest or a child's box only by several boxes together, or not at all) a
new one is made for what it has to hold, as Adjust does.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.model.seeds import generator
from gravitate.plan.assignment.boxes import filter_kernels
from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs, Network, Problem
from gravitate.plan.assignment.problem.solution import Solution, filters_of, loads_of
from gravitate.plan.assignment.search import slot_kernels as kernels
from gravitate.plan.assignment.search.adjusting import small_filter


class Slots(msgspec.Struct, frozen=True, eq=False):
    """A problem and the changing state of a solution of it."""

    problem: Problem
    fixed: kernels.Fixed
    state: kernels.State

    def leaf(self, slot: Ints | None = None) -> Ints:
        """The leaf of each subscriber, now or as kept in `slot`."""
        chosen = self.state.slot if slot is None else slot
        found: Ints = self.fixed.leaf_of[chosen // self.state.boxes.shape[1]]
        return found

    def solution(self, slot: Ints | None = None, boxes: Floats | None = None) -> Solution:
        """The solution, now or as kept."""
        rooms = self.state.boxes if boxes is None else boxes
        used = [own[own[:, 0, 0] <= own[:, 1, 0]] for own in rooms]
        return Solution(self.leaf(slot), filters_of(used, self.problem.dimensions))

    def refresh(self) -> None:
        """Shrink all boxes to what they hold, and measure all filters."""
        for broker in self.problem.network.order[::-1].tolist():
            if self.fixed.leaf_of[broker] == kernels.NOBODY:
                kernels.shrink_above(self.fixed, self.state, broker)
            else:
                kernels.shrink_leaf(self.fixed, self.state, broker)
            kernels.refresh_volume(self.fixed, self.state, broker)


def slots_of(
    problem: Problem,
    solution: Solution,
    capacity: Longs,
    seed: int,
    origin: Ints | None = None,
) -> Slots:
    """The slots of a solution, shrunk to what they hold; `capacity` bounds the leaves' loads from
    now on, and may be less than what they have.

    Whose leaf is `NOBODY` is in no slot yet. `origin` names leaves that subscribers should stay
    at, or `NOBODY`; without it nobody has one."""
    nowhere = np.full(len(problem), kernels.NOBODY, dtype=np.int32)
    fixed = _fixed(problem, capacity, nowhere if origin is None else origin)
    is_out = solution.leaf == kernels.NOBODY
    load = loads_of(problem.network, solution.leaf[~is_out])
    state = _empty(problem, np.maximum(capacity, load) + int(is_out.sum()))
    found = Slots(problem, fixed, state)
    places = _leaf_boxes(problem, solution, state.boxes, seed)
    brokers = np.where(is_out, kernels.NOBODY, problem.network.leaves[solution.leaf])
    kernels.fill(fixed, state, brokers, places)
    _inner_boxes(problem, solution, state.boxes, seed)
    found.refresh()
    return found


def random_state(seed: int, *about: str | int) -> NDArray[np.uint64]:
    """What `slot_kernels.drawn` draws from."""
    return generator(seed, "assignment", *about).integers(1, 2**63, 1, dtype=np.uint64)


def _leaf_boxes(problem: Problem, solution: Solution, boxes: Floats, seed: int) -> Ints:
    """Fill in the leaves' boxes; the place of each subscriber in its leaf's filter."""
    network = problem.network
    places = np.zeros(len(problem), dtype=np.int32)
    order = np.argsort(solution.leaf, kind="stable")
    starts = np.searchsorted(solution.leaf[order], np.arange(len(network.leaves) + 1))
    for leaf, broker in enumerate(network.leaves.tolist()):
        own = order[starts[leaf] : starts[leaf + 1]]
        interests = problem.interests[own]
        filter = _usable(network, broker, solution.filters.of(broker), interests, seed)
        boxes[broker, : len(filter)] = filter
        holder = np.empty(len(own), dtype=np.int32)
        filter_kernels.first_holders(filter, interests, holder)
        places[own] = holder
    return places


def _inner_boxes(problem: Problem, solution: Solution, boxes: Floats, seed: int) -> None:
    network = problem.network
    for broker in network.order[::-1].tolist():
        children = boxes[network.parent == broker].reshape(-1, 2, problem.dimensions)
        inside = np.ascontiguousarray(children[children[:, 0, 0] <= children[:, 1, 0]])
        if len(children):
            filter = _usable(network, broker, solution.filters.of(broker), inside, seed)
            boxes[broker, : len(filter)] = filter


def _usable(network: Network, broker: int, filter: Floats, inside: Floats, seed: int) -> Floats:
    """The filter if one of its boxes holds each of `inside`, otherwise another that does so."""
    complexity = int(network.complexity[broker])
    whole = np.ascontiguousarray(filter)
    holder = np.empty(len(inside), dtype=np.int32)
    filter_kernels.first_holders(whole, inside, holder)
    if len(filter) <= complexity and (holder != filter_kernels.BY_NONE).all():
        return whole
    made = small_filter(inside, complexity, generator(seed, "assignment", "slots", broker))
    return np.ascontiguousarray(made)


def _fixed(problem: Problem, capacity: Longs, origin: Ints) -> kernels.Fixed:
    network = problem.network
    leaf_of = np.full(len(network), kernels.NOBODY, dtype=np.int32)
    leaf_of[network.leaves] = np.arange(len(network.leaves))
    below = np.flatnonzero(network.parent >= 0)
    children = below[np.argsort(network.parent[below], kind="stable")].astype(np.int32)
    first_child = np.zeros(len(network) + 1, dtype=np.int64)
    np.cumsum(np.bincount(network.parent[below], minlength=len(network)), out=first_child[1:])
    return kernels.Fixed(
        parent=network.parent,
        order=network.order,
        leaves=network.leaves,
        leaf_of=leaf_of,
        complexity=network.complexity,
        first_child=first_child,
        children=children,
        capacity=capacity,
        candidates=problem.reach.candidates,
        interests=problem.interests,
        sizes=np.prod(problem.interests[:, 1] - problem.interests[:, 0], axis=1),
        origin=origin,
    )


def _empty(problem: Problem, load_max: Longs) -> kernels.State:
    network = problem.network
    brokers, most = len(network), int(network.complexity.max())
    subscribers = len(problem)
    boxes = np.empty((brokers, most, 2, problem.dimensions))
    boxes[:, :, 0], boxes[:, :, 1] = np.inf, -np.inf
    first = np.zeros(len(load_max) + 1, dtype=np.int64)
    np.cumsum(load_max, out=first[1:])
    return kernels.State(
        slot=np.full(subscribers, kernels.NOBODY, dtype=np.int32),
        first=first,
        members=np.empty(first[-1], dtype=np.int32),
        position=np.empty(subscribers, dtype=np.int64),
        load=np.zeros(len(load_max), dtype=np.int64),
        boxes=boxes,
        volume=np.zeros(brokers),
        kept_boxes=boxes.copy(),
        kept_volume=np.zeros(brokers),
        touched=np.empty(brokers, dtype=np.int64),
        is_touched=np.zeros(brokers, dtype=np.bool_),
        is_stale=np.zeros(brokers, dtype=np.bool_),
        block=np.empty(2 * subscribers, dtype=np.int32),
        block_slot=np.empty(2 * subscribers, dtype=np.int32),
        counts=np.zeros(3, dtype=np.int64),
        room=np.empty((3 + most, 2, problem.dimensions)),
    )
