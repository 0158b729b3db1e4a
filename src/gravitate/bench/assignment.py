"""How fast subscribers are assigned to brokers, from ten thousand to a million.

Subscribers are those of set 1, made by Spark before anything is timed. `gr*` and
`slp1` have 100 brokers in one level, `slp` has 200 in a tree of out-degree 15; the maximum delay is
0.3. What is timed goes from rows of subscribers to a leaf for everybody and filters for all
brokers: packing, and for Gr* bringing the arrays to the driver, count.

Every result goes through the checker, and one that breaks a bound ends the benchmark. The baseline
of `gr*-10k` is the rule as one would write it in Python, sorted once and with the allowed load from
the start; that of `slp1` and `slp` is Gr* on
the same subscribers and brokers, for the seconds and for the bandwidth. `memory` is what the
driver, its Java and the tasks on this machine took at most, together.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.errors import GravitateError
from gravitate.plan.assignment.boxes.volume_kernels import union_volume
from gravitate.plan.assignment.greedy.greedy import arrival, gr_star
from gravitate.plan.assignment.problem.problem import (
    PUBLISHER,
    Network,
    Problem,
    candidate_lists,
    network_of,
)
from gravitate.plan.assignment.problem.solution import Solution, measures, violations
from gravitate.studies.assignment_instances import tree_of

BENCH: Final = "assignment"
SIZES: Final = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000}
ALGORITHMS: Final = ("gr*", "slp1", "slp")
CASES: Final = tuple(f"{name}-{size}" for size in SIZES for name in ALGORITHMS)
BROKERS: Final = {"gr*": 100, "slp1": 100, "slp": 200}
OUT_DEGREE: Final = 15
DELAY_MAX: Final = 0.3
LITERAL: Final = "gr*-10k"
SEED: Final = 1


class Timed(msgspec.Struct, frozen=True, eq=False):
    """One solution, and what it took."""

    solution: Solution
    seconds: float
    memory_gib: float


def run(
    cases: Sequence[str] | None = None,
    *,
    progress: Progress = silent,
    sizes: Mapping[str, int] = SIZES,
    brokers: int = 0,
    warm_up: bool = True,
    spark: Any = None,
) -> list[Record]:
    """The figures of `gravitate bench assignment`; `brokers` instead of those of each case."""
    from gravitate.pipeline.spark.session import session

    wanted = chosen(BENCH, CASES, cases)
    used = session() if spark is None else spark
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="gravitate-bench-") as folder:
        if warm_up:
            progress("compiling kernels")
            for name in ALGORITHMS:
                small = {"subscribers": 2_000, "brokers": 20}
                _records(used, Path(folder) / f"warm-{name}", name, "warm-up", small)
        for case in wanted:
            name, _, size = case.rpartition("-")
            progress(case)
            given = {"subscribers": sizes[size], "brokers": brokers or BROKERS[name]}
            records += _records(used, Path(folder) / case, name, case, given)
    return records


def _records(spark: Any, folder: Path, name: str, case: str, given: dict[str, int]) -> list[Record]:
    from gravitate.pipeline.assignment.solving import (
        Bounds,
        problem_at_driver,
        slp1_on_spark,
        slp_on_spark,
        subscribers_on_spark,
    )
    from gravitate.pipeline.tables.workload_frames import read

    interests, network = _instance(spark, folder, name, given, read)
    bounds = Bounds()
    with subscribers_on_spark(interests, network, DELAY_MAX) as crowd:
        problem = problem_at_driver(crowd, bounds)

    def greedily() -> Solution:
        with subscribers_on_spark(interests, network, DELAY_MAX) as crowd:
            return gr_star(problem_at_driver(crowd, bounds), SEED)

    def by_programs() -> Solution:
        with subscribers_on_spark(interests, network, DELAY_MAX) as crowd:
            solve = slp1_on_spark if name == "slp1" else slp_on_spark
            return solve(crowd, bounds, SEED).solution

    greedy = _timed(greedily)
    check(case, problem, greedy.solution, allowed=() if name == "gr*" else ("load",))
    if name == "gr*":
        literal_s = _literal_s(problem) if case == LITERAL else None
        return [
            measured(BENCH, case, greedy.seconds, "s", literal_s, less_is_better=True),
            measured(BENCH, f"{case}-memory", greedy.memory_gib, "GiB"),
        ]
    ours = _timed(by_programs)
    check(case, problem, ours.solution)
    bandwidth, theirs = (
        measures(problem, one).bandwidth for one in (ours.solution, greedy.solution)
    )
    return [
        measured(BENCH, case, ours.seconds, "s", greedy.seconds, less_is_better=True),
        measured(BENCH, f"{case}-bandwidth", bandwidth, "volume", theirs, less_is_better=True),
        measured(BENCH, f"{case}-memory", ours.memory_gib, "GiB"),
    ]


def _instance(
    spark: Any, folder: Path, name: str, given: dict[str, int], read: Callable[..., Any]
) -> tuple[Any, Network]:
    """Rows of subscribers, and brokers; the publisher is in the middle of the brokers."""
    from gravitate.pipeline.workloads.making import make_workload

    make_workload(spark, "set1", folder, given, seed=SEED)
    rows = read(spark, folder, "brokers").orderBy("broker").collect()
    points = np.array([row["location"] for row in rows], dtype=np.float64)
    publisher = points.mean(axis=0)
    parent = None
    if name == "slp":
        parent = tree_of(publisher, points, OUT_DEGREE, np.arange(len(points)))
    return read(spark, folder, "interests"), network_of(publisher, points, parent)


def _timed(work: Callable[[], Solution]) -> Timed:
    from gravitate.pipeline.spark.memory import PeakMemory

    with PeakMemory() as memory:
        start = time.perf_counter()
        solution = work()
        seconds = time.perf_counter() - start
    return Timed(solution, seconds, memory.peak_gib)


def check(case: str, problem: Problem, solution: Solution, allowed: Sequence[str] = ()) -> None:
    """End the benchmark when a result breaks a bound that it was to hold."""
    broken = [v for v in violations(problem, solution) if v.is_hard and v.kind not in allowed]
    if broken:
        raise GravitateError(f"{case} breaks a bound: {broken[0].message}")


def _literal_s(problem: Problem) -> float:
    """Seconds of the paper's rule in plain Python: for each subscriber, fewest candidates first,
    each candidate with room, and each box of its filter, what the union grows by. Neither sorts
    anew nor raises the bound step by step, so it does less than Gr*."""
    network = problem.network
    assert (network.parent == PUBLISHER).all(), "the literal rule is for one level"
    start = time.perf_counter()
    room = problem.leaf_capacities(problem.beta_max)
    candidates = candidate_lists(problem.reach.candidates, len(network.leaves))
    order = sorted(arrival(problem, SEED).tolist(), key=lambda one: len(candidates[one]))
    filters: list[list[Any]] = [[] for _ in network.leaves]
    load = [0] * len(network.leaves)
    for subscriber in order:
        interest = problem.interests[subscriber]
        open_ = [leaf for leaf in candidates[subscriber] if load[leaf] < room[leaf]]
        choices = [
            (*_growth(filters[leaf], interest, int(network.complexity[leaf])), load[leaf], leaf)
            for leaf in open_ or candidates[subscriber]
        ]
        cost = min((choice[0], choice[2], choice[3]) for choice in choices)
        _, grown, _, leaf = next(c for c in choices if (c[0], c[2], c[3]) == cost)
        filters[leaf] = grown
        load[leaf] += 1
    return time.perf_counter() - start


def _growth(boxes: list[Any], interest: Any, complexity: int) -> tuple[float, list[Any]]:
    """The least by which a filter has to grow, and the filter then."""
    if any((box[0] <= interest[0]).all() and (box[1] >= interest[1]).all() for box in boxes):
        return 0.0, boxes
    if len(boxes) < complexity:
        tries = [[*boxes, interest]]
    else:
        tries = [
            [
                *boxes[:at],
                np.stack([np.minimum(box[0], interest[0]), np.maximum(box[1], interest[1])]),
                *boxes[at + 1 :],
            ]
            for at, box in enumerate(boxes)
        ]
    before = union_volume(np.stack(boxes)) if boxes else 0.0
    grown = [union_volume(np.stack(one)) - before for one in tries]
    best = int(np.argmin(grown))
    return float(grown[best]), tries[best]
