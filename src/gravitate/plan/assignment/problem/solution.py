"""A solution of the assignment problem: who is served where, and the brokers' filters.

    found = measures(problem, solution)
    assert not [v for v in violations(problem, solution) if v.is_hard]

A broker's filter is a union of boxes: those from `first[broker]` to `first[broker + 1]`. Owns what
a solution costs (paper 4, sections 2 and 6) and the checker that every algorithm's result goes
through. The checker trusts nothing that an algorithm computed, and knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes import filter_kernels as kernels
from gravitate.plan.assignment.boxes.volume_kernels import union_volume
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Floats,
    Ints,
    Longs,
    Network,
    Problem,
    latencies_ms,
)

Kind = Literal["complexity", "nesting", "interest", "latency", "load", "balance"]

_ROUNDING: Final = 1e-9
"""Relative; what latencies and loads may be over their bounds because doubles are rounded."""


class Filters(msgspec.Struct, frozen=True, eq=False):
    """The filters of all brokers."""

    boxes: Floats
    """(boxes of all brokers, 2, event dimensions)"""
    first: Longs
    """(brokers + 1)"""

    def __len__(self) -> int:
        return len(self.first) - 1

    def of(self, broker: int) -> Floats:
        """The boxes of one broker."""
        return self.boxes[self.first[broker] : self.first[broker + 1]]

    def volumes(self) -> Floats:
        """The volume of each broker's filter."""
        return np.array([union_volume(self.of(broker)) for broker in range(len(self))])


class Solution(msgspec.Struct, frozen=True, eq=False):
    """An assignment with filters."""

    leaf: Ints
    """For each subscriber the number of its leaf; the broker is `network.leaves[leaf]`."""
    filters: Filters


class Measures(msgspec.Struct, frozen=True):
    """What a solution is compared by."""

    bandwidth: float
    """Q: the volumes of all brokers' filters, added up."""
    delay_rms: float
    """Root of the mean square of latency / shortest latency - 1."""
    load_deviation: float
    """Standard deviation of the leaves' numbers of subscribers."""
    load_balance_factor: float
    """The greatest ratio of a leaf's subscribers to its fair share."""


class Violation(msgspec.Struct, frozen=True):
    """One bound that one broker breaks, however many subscribers it breaks it for."""

    kind: Kind
    broker: int
    found: float
    accepted: float
    message: str

    @property
    def is_hard(self) -> bool:
        """Whether the solution is not valid; being over beta alone is only not what was wanted."""
        return self.kind != "balance"


def filters_of(boxes: Sequence[ArrayLike], dimensions: int) -> Filters:
    """Filters from the boxes of each broker."""
    parts = [np.asarray(own, dtype=np.float64).reshape(-1, 2, dimensions) for own in boxes]
    sizes = [len(part) for part in parts]
    joined = np.concatenate(parts) if parts else np.empty((0, 2, dimensions))
    return Filters(np.ascontiguousarray(joined), np.cumsum([0, *sizes], dtype=np.int64))


def measures(problem: Problem, solution: Solution) -> Measures:
    """Bandwidth, delay and balance of a solution, valid or not."""
    _require_fits(problem, solution)
    loads = loads_of(problem.network, solution.leaf)
    relative = delays(problem, solution.leaf)
    return Measures(
        bandwidth=float(solution.filters.volumes().sum()),
        delay_rms=float(np.sqrt(np.mean(relative**2))) if len(relative) else 0.0,
        load_deviation=float(loads.std()),
        load_balance_factor=float(load_factors(problem, loads).max()),
    )


def delays(problem: Problem, leaf: Ints) -> Floats:
    """Each subscriber's delay: latency / shortest latency - 1; 0 where both are 0."""
    latency_ms = latencies_ms(problem, leaf)
    shortest_ms = problem.reach.shortest_ms
    found = np.where(latency_ms > 0, np.inf, 0.0)
    np.divide(latency_ms - shortest_ms, shortest_ms, out=found, where=shortest_ms > 0)
    return np.maximum(found, 0.0)


def loads_of(network: Network, leaf: Ints) -> Longs:
    """How many subscribers each leaf has."""
    return np.bincount(leaf, minlength=len(network.leaves)).astype(np.int64)


def load_factors(problem: Problem, loads: Longs) -> Floats:
    """Each leaf's load over its fair share; infinite where a leaf without one has subscribers."""
    fair = problem.network.capacity * len(problem)
    found = np.where(loads > 0, np.inf, 0.0)
    np.divide(loads, fair, out=found, where=fair > 0)
    return found


def violations(problem: Problem, solution: Solution) -> list[Violation]:
    """Every bound that is broken, hard ones and the wanted balance; empty for a perfect one."""
    _require_fits(problem, solution)
    return [
        *_complexity(problem, solution),
        *_nesting(problem, solution),
        *_interests(problem, solution),
        *_latency(problem, solution),
        *_load(problem, solution),
    ]


def rank(problem: Problem, solution: Solution) -> tuple[int, int, bool, float]:
    """Less is better: broken filters and latencies, load beyond what is allowed, whether any is
    beyond what is wanted, bandwidth."""
    broken = sum(v.is_hard and v.kind != "load" for v in violations(problem, solution))
    loads = loads_of(problem.network, solution.leaf)
    over = int(np.maximum(loads - problem.leaf_capacities(problem.beta_max), 0).sum())
    is_unbalanced = bool((loads > problem.leaf_capacities(problem.beta)).any())
    return broken, over, is_unbalanced, measures(problem, solution).bandwidth


def _complexity(problem: Problem, solution: Solution) -> list[Violation]:
    sizes = np.diff(solution.filters.first)
    allowed = problem.network.complexity
    return [
        Violation(
            "complexity",
            int(broker),
            float(sizes[broker]),
            float(allowed[broker]),
            f"the filter of broker {broker} has {sizes[broker]} boxes, {allowed[broker]} allowed",
        )
        for broker in np.flatnonzero(sizes > allowed)
    ]


def _nesting(problem: Problem, solution: Solution) -> list[Violation]:
    found = []
    for broker, above in enumerate(problem.network.parent.tolist()):
        if above == PUBLISHER:
            continue
        own, outer = solution.filters.of(broker), solution.filters.of(above)
        if len(own) == 0:
            continue
        is_held = kernels.each_held(outer, own)
        if not is_held.all():
            out = int((~is_held).sum())
            text = f"{out} boxes of broker {broker} are not within the filter of broker {above}"
            found.append(Violation("nesting", broker, out, 0.0, text))
    return found


def _interests(problem: Problem, solution: Solution) -> list[Violation]:
    is_held = np.empty(len(problem), dtype=np.bool_)
    kernels.interests_held(
        solution.filters.boxes,
        solution.filters.first,
        problem.network.leaves,
        solution.leaf,
        problem.interests,
        is_held,
    )
    return [
        Violation(
            "interest",
            broker,
            len(those),
            0.0,
            f"{len(those)} subscribers of broker {broker} want more than its filter lets pass, "
            f"subscriber {those[0]} for one",
        )
        for broker, those in _by_broker(problem, solution, ~is_held)
    ]


def _latency(problem: Problem, solution: Solution) -> list[Violation]:
    bound_ms = problem.bound_ms
    latency_ms = latencies_ms(problem, solution.leaf)
    found = []
    is_late = latency_ms > bound_ms * (1.0 + _ROUNDING) + _ROUNDING
    for broker, those in _by_broker(problem, solution, is_late):
        worst = those[np.argmax(latency_ms[those] - bound_ms[those])]
        text = (
            f"{len(those)} subscribers of broker {broker} are too far, "
            f"subscriber {worst} for one: {latency_ms[worst]:.6g} ms, {bound_ms[worst]:.6g} allowed"
        )
        found.append(
            Violation("latency", broker, float(latency_ms[worst]), float(bound_ms[worst]), text)
        )
    return found


def _load(problem: Problem, solution: Solution) -> list[Violation]:
    loads = loads_of(problem.network, solution.leaf)
    factors = load_factors(problem, loads)
    found = []
    for leaf in np.flatnonzero(factors > problem.beta * (1.0 + _ROUNDING)):
        broker, factor = int(problem.network.leaves[leaf]), float(factors[leaf])
        is_hard = factor > problem.beta_max * (1.0 + _ROUNDING)
        kind: Kind = "load" if is_hard else "balance"
        accepted = problem.beta_max if is_hard else problem.beta
        word = "allowed" if is_hard else "wanted"
        text = (
            f"broker {broker} has {loads[leaf]} subscribers, "
            f"{factor:.6g} times its share, {accepted:g} {word}"
        )
        found.append(Violation(kind, broker, factor, accepted, text))
    return found


def _by_broker(
    problem: Problem, solution: Solution, is_wrong: NDArray[np.bool_]
) -> list[tuple[int, Longs]]:
    """The subscribers that are marked, by broker."""
    marked = np.flatnonzero(is_wrong)
    brokers = problem.network.leaves[solution.leaf[marked]]
    return [(int(broker), marked[brokers == broker]) for broker in np.unique(brokers)]


def _require_fits(problem: Problem, solution: Solution) -> None:
    leaf, filters = solution.leaf, solution.filters
    if leaf.shape != (len(problem),):
        raise InputError(f"{len(leaf)} leaves: write one for each of {len(problem)} subscribers")
    leaves = len(problem.network.leaves)
    wrong = np.flatnonzero((leaf < 0) | (leaf >= leaves))
    if wrong.size:
        raise InputError(
            f"leaf {leaf[wrong[0]]} of subscriber {wrong[0]} is not there: write 0 to {leaves - 1}"
        )
    if len(filters) != len(problem.network):
        raise InputError(
            f"{len(filters)} filters: write one for each of {len(problem.network)} brokers"
        )
    if filters.boxes.shape[2] != problem.dimensions:
        raise InputError(
            f"filters of {filters.boxes.shape[2]} dimensions: interests have {problem.dimensions}"
        )
