"""One run of the subscriber-assignment study: an instance in, what algorithms make of it out.

Every result goes through the checker (`problem.solution`), which trusts no algorithm. Two
values stand beside the bandwidths and must not be mixed up: the *yardstick* is the value of the
linear program that SLP1's (or SLP's) filters are from, as in the paper, and no bound; the *bound*
is proven: no valid solution has less bandwidth.

`ours` is the local search from the better of Gr* and SLP1 (SLP in several levels); it keeps loads
within beta where latencies allow that, as SLP1 and SLP do. `ours to beta_max` goes on from there
for longer, and uses all the load that is allowed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from gravitate.model.seeds import generator
from gravitate.plan.assignment.algorithms import solve
from gravitate.plan.assignment.bounds.bounds import lower_bound
from gravitate.plan.assignment.bounds.exact import optimum
from gravitate.plan.assignment.boxes.rectangles import candidate_rectangles
from gravitate.plan.assignment.greedy.balance import best_load_factor
from gravitate.plan.assignment.problem.problem import Problem
from gravitate.plan.assignment.problem.solution import Solution, measures, rank, violations
from gravitate.plan.assignment.search.searching import SearchParameters, improved
from gravitate.plan.assignment.slp.filter_assign import FilterAssignParameters
from gravitate.plan.assignment.slp.slp import Planned, SlpParameters, slp, slp1
from gravitate.studies.assignment_instances import Instance, problem_of_instance

Part = Literal[
    "one level",
    "multi-level",
    "filter complexity",
    "maximum delay",
    "broker distribution",
    "load sample",
    "super-interests",
    "exact",
]

GREEDY: Final = ("Gr", "Gr*")
ONE_LEVEL: Final = (
    *GREEDY,
    "Gr-l",
    "Closest-b",
    "Closest",
    "Balance",
    "SLP1",
    "ours",
    "ours to beta_max",
)
MULTI_LEVEL: Final = (*GREEDY, "SLP", "ours")
SEARCHED: Final = "ours"
SEARCHED_ON: Final = "ours to beta_max"
SEARCH_ON: Final = SearchParameters(rounds=300, work_max=60_000_000)
"""Five times the usual attempts."""
OPTIMUM: Final = "optimum"
THREADS: Final = 1
"""Of a linear program: runs are dealt out to cores already."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    part: Part
    instance: Instance
    algorithms: tuple[str, ...]
    """In the order in which they are reported; `ours` after what it starts from."""
    label: str = ""
    """Tight, loose, ...: what tells apart runs of a part, in words."""
    load_sample_per_child: int = 0
    """|Sb| of SLP1, in brokers; 0: the paper's."""
    super_interests_per_broker: int = 0
    """0: the paper's."""
    has_bound: bool = False
    """Whether the proven bound is computed."""


class Outcome(msgspec.Struct, frozen=True):
    """What one algorithm made of the instance."""

    algorithm: str
    bandwidth: float
    delay_rms: float
    load_deviation: float
    load_balance_factor: float
    broken: dict[str, int]
    """By kind, how many brokers break a bound that must hold."""

    @property
    def is_valid(self) -> bool:
        return not self.broken


class Seen(msgspec.Struct, frozen=True):
    """What one run amounted to."""

    setting: Setting
    outcomes: tuple[Outcome, ...]
    beta: float
    beta_max: float
    leaves: int
    least_load_factor: float
    """That latencies allow."""
    candidate_share: float
    """How many of the leaves are near enough, the mean over subscribers."""
    rectangles: int
    """How many candidate rectangles a sample of SLP1's first size has."""
    yardstick: float | None = None
    """The paper's LP value; none when SLP1 did not run."""
    bound: float | None = None
    """Proven; none when it was not asked for."""

    def of(self, algorithm: str) -> Outcome | None:
        return next((one for one in self.outcomes if one.algorithm == algorithm), None)


def assign(setting: Setting) -> Seen:
    """Run the algorithms; the same setting, the same figures."""
    problem = problem_of_instance(setting.instance)
    parameters = parameters_of(setting)
    found: dict[str, Solution] = {}
    planned: Planned | None = None
    seed = setting.instance.seed
    for algorithm in setting.algorithms:
        match algorithm:
            case "SLP1" | "SLP":
                planned = (slp1 if algorithm == "SLP1" else slp)(problem, seed, parameters)
                found[algorithm] = planned.solution
            case "ours":
                found[algorithm] = searched(problem, found, seed)
            case "ours to beta_max":
                allowed = msgspec.structs.replace(problem, beta=problem.beta_max)
                found[algorithm] = improved(allowed, found[SEARCHED], seed, SEARCH_ON)
            case "optimum":
                found[algorithm] = optimum(problem)
            case _:
                found[algorithm] = solve(algorithm, problem, seed)
    masks = problem.reach.candidates
    leaves = len(problem.network.leaves)
    return Seen(
        setting=setting,
        outcomes=tuple(outcome(name, problem, solution) for name, solution in found.items()),
        beta=problem.beta,
        beta_max=problem.beta_max,
        leaves=leaves,
        least_load_factor=best_load_factor(problem),
        candidate_share=float(np.bitwise_count(masks).sum(axis=1).mean()) / leaves,
        rectangles=_rectangles(problem, parameters.filters, seed),
        yardstick=planned.yardstick if planned is not None else None,
        bound=lower_bound(problem) if setting.has_bound else None,
    )


def searched(problem: Problem, found: Mapping[str, Solution], seed: int) -> Solution:
    """The local search from the better of Gr* and SLP1 or SLP, where they ran."""
    starts = [found[name] for name in ("SLP1", "SLP", "Gr*") if name in found]
    return improved(problem, min(starts, key=lambda one: rank(problem, one)), seed)


def outcome(algorithm: str, problem: Problem, solution: Solution) -> Outcome:
    """A solution measured and checked."""
    measured = measures(problem, solution)
    hard = Counter(v.kind for v in violations(problem, solution) if v.is_hard)
    return Outcome(
        algorithm=algorithm,
        bandwidth=measured.bandwidth,
        delay_rms=measured.delay_rms,
        load_deviation=measured.load_deviation,
        load_balance_factor=measured.load_balance_factor,
        broken=dict(sorted(hard.items())),
    )


def parameters_of(setting: Setting) -> SlpParameters:
    """SLP1's and SLP's, where the setting changes them."""

    def changed(usual: FilterAssignParameters) -> FilterAssignParameters:
        return msgspec.structs.replace(
            usual,
            lp=msgspec.structs.replace(usual.lp, threads=THREADS),
            load_sample_per_child=setting.load_sample_per_child or usual.load_sample_per_child,
            rectangles=msgspec.structs.replace(
                usual.rectangles,
                super_interests_per_broker=setting.super_interests_per_broker
                or usual.rectangles.super_interests_per_broker,
            ),
        )

    usual = SlpParameters()
    return msgspec.structs.replace(
        usual, filters=changed(usual.filters), inner_filters=changed(usual.inner_filters)
    )


def _rectangles(problem: Problem, parameters: FilterAssignParameters, seed: int) -> int:
    """How many candidate rectangles there are for a uniform sample as large as SLP1's first."""
    certificate = parameters.certificate_size
    leaves = len(problem.network.leaves)
    wanted = math.ceil(certificate * math.log(certificate))
    wanted += parameters.load_sample_per_child * leaves
    rng = generator(seed, "assignment", "rectangles counted")
    drawn = rng.choice(len(problem), min(wanted, len(problem)), replace=False)
    return len(
        candidate_rectangles(
            problem.locations[drawn], problem.interests[drawn], leaves, rng, parameters.rectangles
        )
    )
