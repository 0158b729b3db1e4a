"""Loads brought within their bounds by as cheap moves as are found, as kernels.

An overloaded leaf and one with room are joined by a shortest chain of leaves, each of which has
members that the next can serve; along the chain as many go on as the narrowest step lets pass.
A leaf that has no chain keeps what it has: no moves whatsoever would help it, because chains are
the augmenting paths of the flow from overloaded leaves to leaves with room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gravitate.matching.jit import kernel
from gravitate.plan.assignment.greedy.greedy_kernels import least_loaded
from gravitate.plan.assignment.search.slot_kernels import (
    NOBODY,
    ONE,
    forget,
    path_cost,
    put_in,
    shrink_stale,
    take_out,
)


@kernel
def _is_candidate(fixed: Any, subscriber: Any, leaf: Any) -> Any:
    word = fixed.candidates[subscriber, leaf // 64]
    return (word >> np.uint64(leaf % 64)) & ONE != 0


@kernel
def _servable(fixed: Any, state: Any, leaf: Any, found: Any) -> None:
    """How many members of a leaf each other leaf can serve."""
    found[:] = 0
    for position in range(state.first[leaf], state.first[leaf] + state.load[leaf]):
        for other in range(len(found)):
            if _is_candidate(fixed, state.members[position], other):
                found[other] += 1


@kernel
def _chain(fixed: Any, state: Any, servable: Any, start: Any, before: Any) -> Any:
    """The nearest leaf with room that a chain from `start` leads to, or `NOBODY`."""
    before[:] = NOBODY
    before[start] = start
    queue = np.empty(len(before), dtype=np.int64)
    queue[0] = start
    count = 1
    for number in range(len(before)):
        if number == count:
            break
        leaf = queue[number]
        for other in range(len(before)):
            if before[other] == NOBODY and servable[leaf, other] > 0:
                before[other] = leaf
                if state.load[other] < fixed.capacity[other]:
                    return other
                queue[count] = other
                count += 1
    return NOBODY


@kernel
def _pass_on(fixed: Any, state: Any, leaf: Any, other: Any, amount: Any) -> None:
    """Let the cheapest `amount` of a leaf's members go to another leaf."""
    who = np.empty(state.load[leaf], dtype=np.int64)
    cost = np.empty(state.load[leaf])
    count = 0
    for position in range(state.first[leaf], state.first[leaf] + state.load[leaf]):
        subscriber = state.members[position]
        if _is_candidate(fixed, subscriber, other):
            interest = fixed.interests[subscriber]
            who[count] = subscriber
            cost[count] = path_cost(fixed, state, fixed.leaves[other], interest, np.inf)
            count += 1
    for number in np.argsort(cost[:count])[:amount]:
        take_out(fixed, state, who[number])
        put_in(fixed, state, who[number], other)
        state.counts[1] = 0  # this is never undone
    shrink_stale(fixed, state)


@kernel
def relieve_overloaded(fixed: Any, state: Any) -> None:
    """Bring loads to at most `capacity`, as far as candidates allow."""
    leaves = len(fixed.leaves)
    servable = np.zeros((leaves, leaves), dtype=np.int64)
    for leaf in range(leaves):
        _servable(fixed, state, leaf, servable[leaf])
    before = np.empty(leaves, dtype=np.int64)
    for start in range(leaves):
        while state.load[start] > fixed.capacity[start]:
            end = _chain(fixed, state, servable, start, before)
            if end == NOBODY:
                break
            amount = state.load[start] - fixed.capacity[start]
            amount = min(amount, fixed.capacity[end] - state.load[end])
            leaf = end
            while leaf != start:
                amount = min(amount, servable[before[leaf], leaf])
                leaf = before[leaf]
            leaf = end
            while leaf != start:
                _pass_on(fixed, state, before[leaf], leaf, amount)
                _servable(fixed, state, leaf, servable[leaf])
                leaf = before[leaf]
            _servable(fixed, state, start, servable[start])
    forget(state)


@kernel
def bring_home(candidates: Any, fair: Any, leaf: Any, load: Any) -> None:
    """Whoever is at a leaf that is no candidate goes to the candidate that is loaded least."""
    for subscriber in range(len(leaf)):
        at = leaf[subscriber]
        if (candidates[subscriber, at // 64] >> np.uint64(at % 64)) & ONE == 0:
            load[at] -= 1
            leaf[subscriber] = least_loaded(candidates[subscriber], fair, load)
            load[leaf[subscriber]] += 1
