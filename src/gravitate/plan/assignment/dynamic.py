"""Subscribers come and go, and few are reassigned (the future work of paper 4).

    keeper = Keeper(network, KeepingParameters(factor=1.2), beta=1.5, beta_max=1.8)
    changes = keeper.change(arrivals, departures)
    changes.reassigned        # (subscriber, from leaf, to leaf), as few as are found

A *batch* of departures and arrivals is taken in so:

1. Who departs leaves a slot; boxes shrink to what they hold. Bandwidth only falls.
2. Who arrives goes to the candidate whose path grows least, as in Gr; nobody else moves.
3. Loads count against all who are there, so they can break beta_max although nothing was added:
   then those above it go on along chains to leaves with room (`repair_kernels`).
4. The *yardstick* is the bandwidth of a fresh solution (Gr* unless told otherwise). It is made anew
   after so many changes, and whenever the old one is exceeded, since that may be its age. When the
   bandwidth is more than `factor` times a yardstick that is not older than the batch, subscribers
   are reassigned: blocks as in `searching`, where each subscriber away from where it was before the
   batch has a price. The price begins so high that only a block that closes the gap with one move
   would go, and falls step by step, so that those who bring most go first; it ends as soon as the
   bandwidth is within the factor. Whoever need not be away goes back at the end.
5. Where that does not suffice the fresh solution is adopted.

After every batch the solution holds latencies, and loads where candidates allow it at all, and the
bandwidth is within the factor of the last yardstick. A fresh solution that breaks hard bounds is no
yardstick: then there is none.

Owns who is there and where. Knows neither how moves are carried out nor when batches come.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.algorithms import Algorithm
from gravitate.plan.assignment.greedy.greedy import gr_star
from gravitate.plan.assignment.problem.problem import (
    Floats,
    Ints,
    Longs,
    Network,
    Problem,
    problem_of,
)
from gravitate.plan.assignment.problem.solution import Solution, filters_of, measures, violations
from gravitate.plan.assignment.search import repair_kernels, search_kernels
from gravitate.plan.assignment.search.searching import SearchParameters, shares_of
from gravitate.plan.assignment.search.slot_kernels import NOBODY
from gravitate.plan.assignment.search.slots import Slots, random_state, slots_of

_STEPS: Final = np.linspace(0.0, 1.0, 11)
"""The bound on load rises from beta to beta_max for arrivals as it does in Gr."""


class KeepingParameters(msgspec.Struct, frozen=True):
    """What is kept, and how hard it is tried."""

    factor: Annotated[float, msgspec.Meta(ge=1.0)] = 1.2
    """Bandwidth over that of a fresh solution."""
    period: Annotated[float, msgspec.Meta(gt=0.0)] = 0.1
    """After how many changes there is a new yardstick, as a part of the subscribers."""
    prices: Annotated[int, msgspec.Meta(ge=1)] = 10
    """How many prices are tried, each a quarter of the one before, the last 0."""
    search: SearchParameters = SearchParameters(rounds=5, attempts_min=500)
    """For each price."""


class Arrivals(msgspec.Struct, frozen=True, eq=False):
    """Subscribers with their ids, places and interests."""

    ids: Longs
    locations: Floats
    interests: Floats


class Reassignment(msgspec.Struct, frozen=True):
    """A subscriber goes from a leaf to another."""

    subscriber: int
    source: int
    target: int


class Changes(msgspec.Struct, frozen=True):
    """What a batch led to."""

    placed: list[tuple[int, int]]
    """(subscriber, leaf) of those who arrived."""
    reassigned: list[Reassignment]
    bandwidth: float
    yardstick: float | None
    """The fresh bandwidth that holds now; None while there is no valid one."""
    is_adopted: bool
    """Whether the fresh solution had to be taken over as a whole."""


class Keeper:
    """Who is assigned where, kept near to a fresh solution.

    `problem` and `solution` say how things are after the last batch; row i of them is subscriber
    `ids[i]`."""

    def __init__(
        self,
        network: Network,
        parameters: KeepingParameters = KeepingParameters(),  # noqa: B008 - frozen
        *,
        delay_max: float = 0.3,
        beta: float = 1.5,
        beta_max: float = 1.8,
        dimensions: int = 2,
        seed: int = 0,
        algorithm: Algorithm = gr_star,
    ) -> None:
        self.parameters = parameters
        self.algorithm = algorithm
        self.seed = seed
        self.ids: Longs = np.empty(0, dtype=np.int64)
        self.problem = problem_of(
            network,
            np.empty((0, network.points.shape[1])),
            np.empty((0, 2, dimensions)),
            delay_max,
            beta,
            beta_max,
        )
        nothing = filters_of([[]] * len(network), dimensions)
        self.solution = Solution(np.empty(0, dtype=np.int32), nothing)
        self.yardstick: float | None = None
        self._delay_max = delay_max
        self._changes = 0
        """Since the yardstick was made."""
        self._batch = 0

    def change(self, arrivals: Arrivals, departures: Longs) -> Changes:
        """Take in a batch; who departs must be there, who arrives must not (else `InputError`)."""
        stays = self._staying(arrivals.ids, departures)
        self._batch += 1
        self._changes += len(arrivals.ids) + len(departures)
        before = self.solution.leaf[stays]
        self.ids = np.concatenate([self.ids[stays], arrivals.ids])
        self.problem = self._problem(arrivals, stays)
        if len(self.problem) == 0:
            self.solution = Solution(
                before, filters_of([[]] * len(self.problem.network), self.problem.dimensions)
            )
            return Changes([], [], 0.0, self.yardstick, False)
        newcomers = np.full(len(arrivals.ids), NOBODY, dtype=np.int32)
        origin = np.concatenate([before, newcomers])
        slots = self._taken_in(origin)
        is_adopted = self._kept(slots)
        if not is_adopted:
            self.solution = slots.solution()
        leaf = self.solution.leaf
        moved = np.flatnonzero((origin != NOBODY) & (origin != leaf))
        return Changes(
            list(zip(arrivals.ids.tolist(), leaf[len(before) :].tolist(), strict=True)),
            [Reassignment(int(self.ids[row]), int(origin[row]), int(leaf[row])) for row in moved],
            measures(self.problem, self.solution).bandwidth,
            self.yardstick,
            is_adopted,
        )

    def _staying(self, arriving: Longs, departures: Longs) -> NDArray[np.bool_]:
        unknown = np.setdiff1d(departures, self.ids)
        if unknown.size:
            raise InputError(f"subscriber {unknown[0]} departs and is not there")
        stays = ~np.isin(self.ids, departures)
        twice = np.intersect1d(arriving, self.ids[stays])
        numbers, times = np.unique(arriving, return_counts=True)
        again = np.concatenate([twice, numbers[times > 1]])
        if again.size:
            raise InputError(f"subscriber {again[0]} arrives and is there already")
        return stays

    def _problem(self, arrivals: Arrivals, stays: NDArray[np.bool_]) -> Problem:
        old = self.problem
        return problem_of(
            old.network,
            np.concatenate([old.locations[stays], arrivals.locations]),
            np.concatenate([old.interests[stays], arrivals.interests]),
            self._delay_max,
            old.beta,
            old.beta_max,
        )

    def _taken_in(self, origin: Ints) -> Slots:
        """The batch taken in; only loads can make anybody move."""
        problem = self.problem
        factors = problem.beta + (problem.beta_max - problem.beta) * _STEPS
        capacities = np.stack([problem.leaf_capacities(factor) for factor in factors.tolist()])
        allowed = capacities[-1].copy()
        start = Solution(origin, self.solution.filters)
        slots = slots_of(problem, start, allowed, self.seed, origin)
        search_kernels.arrive(
            slots.fixed,
            slots.state,
            np.flatnonzero(origin == NOBODY),
            capacities,
            problem.network.capacity * len(problem),
            random_state(self.seed, "arrive", self._batch),
        )
        allowed[:] = capacities[-1]
        repair_kernels.relieve_overloaded(slots.fixed, slots.state)
        slots.refresh()
        return slots

    def _kept(self, slots: Slots) -> bool:
        """Bring the bandwidth within the factor; whether the fresh solution was adopted."""
        bandwidth = float(slots.state.volume.sum())
        fresh = None
        is_old = self._changes >= self.parameters.period * len(self.problem)
        if is_old or self.yardstick is None or bandwidth > self._allowed():
            fresh = self._fresh()
        if fresh is None or self.yardstick is None or bandwidth <= self._allowed():
            return False
        self._reassign(slots, bandwidth - self._allowed())
        if float(slots.state.volume.sum()) <= self._allowed():
            return False
        self.solution = fresh
        return True

    def _allowed(self) -> float:
        assert self.yardstick is not None
        return self.parameters.factor * self.yardstick * (1.0 + 1e-12)

    def _fresh(self) -> Solution:
        fresh = self.algorithm(self.problem, self.seed)
        self._changes = 0
        is_valid = not any(v.is_hard for v in violations(self.problem, fresh))
        self.yardstick = measures(self.problem, fresh).bandwidth if is_valid else None
        return fresh

    def _reassign(self, slots: Slots, gap: float) -> None:
        search = self.parameters.search
        network = self.problem.network
        attempts = max(
            search.rounds * int(network.complexity[network.leaves].sum()), search.attempts_min
        )
        random = random_state(self.seed, "keep", self._batch)
        last = self.parameters.prices - 1
        for number in range(self.parameters.prices):
            search_kernels.search(
                slots.fixed,
                slots.state,
                shares_of(search),
                attempts,
                search.work_max,
                0.0,
                0.0,
                gap / 4.0**number if number < last else 0.0,
                self._allowed(),
                search.tries,
                search.blink,
                random,
                slots.state.slot.copy(),
                slots.state.boxes.copy(),
            )
            if float(slots.state.volume.sum()) <= self._allowed():
                break
        search_kernels.send_home(slots.fixed, slots.state)
        slots.refresh()
