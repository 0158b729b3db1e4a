"""Where the subscribers of a run should be: its assignment problem, and moves from the solution.

    posed = Posed.of(scene, listeners, densities, choice)
    target, yardstick = posed.targets()
    moves = moves_of(posed, listeners, target, after, gains)

Owns how a run becomes a problem and a solution becomes moves with their reasons. It knows neither
Spark nor how links are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from gravitate.config.planning import SubscriberOptions
from gravitate.model.moves import Rationale, ReassignSubscriber, moving_cost
from gravitate.overlay.tree import path
from gravitate.pipeline.planning.listeners import Listeners
from gravitate.pipeline.planning.scene import Scene
from gravitate.plan.assignment.algorithms import solve_with_yardstick
from gravitate.plan.assignment.bounds.bounds import lower_bound
from gravitate.plan.assignment.greedy.greedy import with_grown_filters
from gravitate.plan.assignment.problem.event_space import Density
from gravitate.plan.assignment.problem.known_latencies import STAYS_FREE, problem_at
from gravitate.plan.assignment.problem.problem import (
    Floats,
    Ints,
    Longs,
    Places,
    Problem,
    candidate_table,
)
from gravitate.plan.assignment.problem.solution import Solution, violations
from gravitate.plan.assignment.search.gains import Candidates, Gains, Limits
from gravitate.plan.assignment.search.searching import relieved, within_latencies

BY_EVENTS: Final = "recorded events"
"""What chose a broker when the algorithm did not."""
REFINED_MAX: Final = 500_000
"""So many pairs of a subscriber and a broker are looked at in a round on the recorded events;
where there are more, subscribers with the most deliveries come first."""


class Posed(msgspec.Struct, frozen=True, eq=False):
    """The problem for those subscribers whom recorded events concern."""

    scene: Scene
    problem: Problem
    subscriber: Longs
    """For each of the problem's subscribers its number among all."""
    home: Ints
    """Where all are now."""
    choice: SubscriberOptions

    @classmethod
    def of(
        cls,
        scene: Scene,
        listeners: Listeners,
        densities: Sequence[Density],
        choice: SubscriberOptions,
    ) -> Posed | None:
        """None when nobody got anything. Who got too little to tell stays where it is; who got
        nothing at all stays too, and is not counted."""
        concerned = np.flatnonzero(listeners.is_interested & (listeners.deliveries > 0))
        if not len(concerned):
            return None
        sides = [
            density.interval(listeners.lows[concerned, axis], listeners.highs[concerned, axis])
            for axis, density in enumerate(densities)
        ]
        interests = np.stack(
            [
                np.stack([begins for begins, _ in sides], 1),
                np.stack([ends for _, ends in sides], 1),
            ],
            axis=1,
        )
        home = listeners.home[concerned]
        knows = listeners.deliveries[concerned] >= choice.at_least
        # With fewer subscribers than brokers a broker must still be allowed one.
        least = len(scene.overlay.brokers) / len(concerned)
        problem = problem_at(
            scene.network,
            scene.points,
            Places(home, scene.near_ms),
            interests,
            choice.delay_max,
            max(choice.beta, least),
            max(choice.beta_max, least),
            slack_ms=choice.delay_ms_max,
            fixed=np.where(knows, STAYS_FREE, scene.leaf[home]).astype(np.int32),
        )
        return cls(scene, problem, concerned, listeners.home, choice)

    def targets(self) -> tuple[Ints, float | None]:
        """Where the algorithm would have every subscriber, whether moving there is worth while
        or not; and the value of its linear programs, if it has any.

        Some algorithms ignore candidates, and with them who is to stay, or how many brokers may
        have: what they chose is brought within the bounds as far as candidates allow."""
        problem, seed = self.problem, self.choice.seed
        solution, yardstick = solve_with_yardstick(self.choice.algorithm, problem, seed)
        table = candidate_table(problem.reach.candidates, len(self.scene.leaf))
        is_candidate = table[np.arange(len(solution.leaf)), solution.leaf]
        home = self.scene.leaf[self.home[self.subscriber]]
        near = within_latencies(
            problem, Solution(np.where(is_candidate, solution.leaf, home), solution.filters)
        )
        found = self.home.copy()
        leaf = relieved(problem, near, problem.beta_max, seed).leaf()
        found[self.subscriber] = self.scene.broker[leaf]
        return found, yardstick

    def lower_bound(self) -> float:
        """No assignment within the bounds lets less pass, by boxes."""
        return lower_bound(self.problem)

    def limits(self, deliveries: Floats) -> Limits:
        """What moves must keep to: bounds on latency and load, and how many they may be."""
        leaves = len(self.scene.leaf)
        by_deliveries = np.argsort(-deliveries[self.subscriber], kind="stable")
        watched = np.sort(by_deliveries[: max(1, REFINED_MAX // leaves)])
        table = candidate_table(self.problem.reach.candidates[watched], leaves)
        is_counted = np.zeros(len(self.home), dtype=np.bool_)
        is_counted[self.subscriber] = True
        return Limits(
            capacity=self.problem.leaf_capacities(self.problem.beta_max)[self.scene.leaf],
            candidates=Candidates(self.subscriber[watched], table[:, self.scene.leaf]),
            is_counted=is_counted,
            moves_max=self.choice.moves_max,
            rounds=self.choice.rounds,
        )

    def volume(self, home: Ints) -> float:
        """What brokers let pass by boxes: the sum over brokers of the share of all events."""
        leaf = self.scene.leaf[home[self.subscriber]]
        return float(with_grown_filters(self.problem, leaf).filters.volumes().sum())

    def latency_ms(self, home: Ints) -> Floats:
        """Of all subscribers from the root, with them at `home`."""
        tree_ms: Floats = self.scene.network.leaf_ms[self.scene.leaf[home]]
        return tree_ms + self.scene.own_ms(self.home, home)

    def broken(self, home: Ints) -> dict[tuple[str, str], tuple[float, str]]:
        """Bounds on latency and load that do not hold with subscribers at `home`: by kind and
        broker how far, and a sentence."""
        solution = with_grown_filters(self.problem, self.scene.leaf[home[self.subscriber]])
        brokers = self.scene.overlay.brokers
        at = dict(zip(self.scene.network.leaves.tolist(), self.scene.broker.tolist(), strict=True))
        said: dict[tuple[str, str], tuple[float, str]] = {}
        for found in violations(self.problem, solution):
            if found.kind not in ("load", "latency"):
                continue
            name = brokers[at[found.broker]]
            if found.kind == "load":
                said[found.kind, name] = (
                    found.found,
                    f"{name} has {found.found:.3g} times its share of subscribers, "
                    f"{found.accepted:.3g} allowed",
                )
            else:
                said[found.kind, name] = (
                    found.found,
                    f"subscribers of {name} are up to {found.found:.3g} ms away, "
                    f"{found.accepted:.3g} ms allowed",
                )
        return said


def moves_of(
    posed: Posed, listeners: Listeners, target: Ints, after: Ints, gains: Gains
) -> list[ReassignSubscriber]:
    """The moves from where subscribers are to `after`, those that bring most first; ids are left
    to the plan. `gain` is how many messages less brokers take in than if it stayed, `cost` the
    links between the two brokers. `target` is what the algorithm chose."""
    overlay = posed.scene.overlay
    near = overlay.neighbours()
    before_ms, after_ms = posed.latency_ms(posed.home), posed.latency_ms(after)
    found = []
    for number in np.flatnonzero(after != posed.home).tolist():
        source, goal = (overlay.brokers[at[number]] for at in (posed.home, after))
        way = path(near, source, goal)
        assert way is not None, "a tree has a way between any two"
        figures = {
            "deliveries": float(listeners.deliveries[number]),
            "messages_saved": float(gains.joint[number]),
            "messages_saved_alone": float(gains.alone[number]),
            "latency_ms_before": float(before_ms[number]),
            "latency_ms_after": float(after_ms[number]),
        }
        by = posed.choice.algorithm if after[number] == target[number] else BY_EVENTS
        why = Rationale(
            _reason(by, way, figures, overlay.brokers[posed.scene.root]),
            gain=figures["messages_saved"],
            cost=moving_cost(way),
            figures=figures,
        )
        found.append(ReassignSubscriber("", listeners.names[number], source, goal, why, tuple(way)))
    return sorted(found, key=lambda move: (-move.why.gain, move.subscriber))


def _reason(by: str, way: Sequence[str], figures: dict[str, float], root: str) -> str:
    source, target = way[0], way[-1]
    saved = figures["messages_saved"]
    over = f"over {figures['deliveries']:,.0f} deliveries"
    if saved > 0:
        rule = (
            f"at {target} it costs less; {over} brokers take in {saved:,.0f} messages less than "
            f"if it stayed at {source}"
        )
    else:
        price = f"{-saved:,.0f} messages {over}" if saved else "nothing"
        rule = f"{source} would have more than its share of subscribers; that costs {price}"
    before, after = (f"{figures[f'latency_ms_{when}']:.3g} ms" for when in ("before", "after"))
    latency = f"stays {after}" if after == before else f"is {after} instead of {before}"
    return f"{by}: {rule}, and its latency from {root} {latency}"
