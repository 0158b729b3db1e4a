"""Gr and Gr* word for word: lists, sorted anew at every step, volumes by counting unit cells.

The oracle for the kernels; for problems whose interests have small whole corners."""

from __future__ import annotations

import itertools

import numpy as np

from gravitate.plan.assignment.greedy.greedy import arrival
from gravitate.plan.assignment.problem.problem import PUBLISHER, Problem, candidate_lists

Box = tuple[tuple[int, ...], tuple[int, ...]]


def cells(boxes: list[Box]) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for low, high in boxes:
        found.update(itertools.product(*(range(a, b) for a, b in zip(low, high, strict=True))))
    return found


def within(box: Box, outer: Box) -> bool:
    return all(a >= b for a, b in zip(box[0], outer[0], strict=True)) and all(
        a <= b for a, b in zip(box[1], outer[1], strict=True)
    )


def put(filter: list[Box], complexity: int, box: Box) -> tuple[list[Box], Box | None]:
    """The filter with a box more, and which of its boxes is new."""
    if any(within(box, other) for other in filter):
        return filter, None
    if len(filter) < complexity:
        choices = [([*filter, box], box)]
    else:
        choices = []
        for number, other in enumerate(filter):
            low = tuple(map(min, box[0], other[0]))
            high = tuple(map(max, box[1], other[1]))
            grown = (low, high)
            choices.append(([*filter[:number], grown, *filter[number + 1 :]], grown))
    chosen, new = min(choices, key=lambda choice: len(cells(choice[0])))
    return [other for other in chosen if other is new or not within(other, new)], new


class LiteralGreedy:
    """Everything that grows while subscribers are assigned."""

    def __init__(self, problem: Problem, seed: int, fewest_first: bool, steps: int) -> None:
        self.problem = problem
        self.parent = problem.network.parent.tolist()
        self.leaves = problem.network.leaves.tolist()
        self.fair = problem.network.capacity * len(problem)
        self.candidates = candidate_lists(problem.reach.candidates, len(self.leaves))
        self.filters: list[list[Box]] = [[] for _ in self.parent]
        self.load = [0] * len(self.leaves)
        self.leaf = [-1] * len(problem)
        factors = np.linspace(problem.beta, problem.beta_max, steps + 1)
        self.capacities = [problem.leaf_capacities(factor).tolist() for factor in factors]
        waiting = arrival(problem, seed).tolist()
        while waiting:
            # Of several with as few candidates `min` finds the one that arrived first.
            subscriber = min(waiting, key=self.choices) if fewest_first else waiting[0]
            if not self.open(subscriber) and len(self.capacities) > 1:
                self.capacities.pop(0)
                continue
            self.assign(subscriber)
            waiting.remove(subscriber)

    def open(self, subscriber: int) -> list[int]:
        return [k for k in self.candidates[subscriber] if self.load[k] < self.capacities[0][k]]

    def choices(self, subscriber: int) -> int:
        return len(self.open(subscriber))

    def interest(self, subscriber: int) -> Box:
        low, high = self.problem.interests[subscriber].astype(int).tolist()
        return tuple(low), tuple(high)

    def grown(self, subscriber: int, leaf: int) -> dict[int, list[Box]]:
        """The filters that change when a leaf serves a subscriber."""
        found = {}
        box: Box | None = self.interest(subscriber)
        broker = self.leaves[leaf]
        while broker != PUBLISHER and box is not None:
            complexity = int(self.problem.network.complexity[broker])
            found[broker], box = put(self.filters[broker], complexity, box)
            broker = self.parent[broker]
        return found

    def assign(self, subscriber: int) -> None:
        def rank(leaf: int) -> tuple[float, bool, float, int]:
            grown = self.grown(subscriber, leaf)
            cost = sum(
                len(cells(new)) - len(cells(self.filters[broker])) for broker, new in grown.items()
            )
            broker = self.leaves[leaf]
            is_changed = grown[broker] is not self.filters[broker]
            return cost, is_changed, self.load[leaf] / self.fair[leaf], leaf

        choices = self.open(subscriber)
        if choices:
            best = min(choices, key=rank)
        else:
            best = min(
                self.candidates[subscriber], key=lambda k: ((self.load[k] + 1) / self.fair[k], k)
            )
        for broker, new in self.grown(subscriber, best).items():
            self.filters[broker] = new
        self.leaf[subscriber] = best
        self.load[best] += 1
