"""The subscriber-assignment study: every algorithm on the paper's subscriber sets (paper 4).

    seen = run(spark, settings(quick=True))
    for finding in findings(seen): ...

Owns which runs there are. `assignment_runs` makes one on an instance of `assignment_instances`;
`assignment_statements` and `assignment_effects` hold them against what the paper says.

Settled here: the quick study has 20,000 subscribers where algorithms are compared and smaller
instances where one parameter is varied; the whole one has the paper's 100,000 and five seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from gravitate.pipeline.spark.sweeps import sweep
from gravitate.studies.assignment_effects import effects
from gravitate.studies.assignment_instances import Instance
from gravitate.studies.assignment_results import Results
from gravitate.studies.assignment_runs import (
    GREEDY,
    MULTI_LEVEL,
    ONE_LEVEL,
    OPTIMUM,
    SEARCHED,
    Seen,
    Setting,
    assign,
)
from gravitate.studies.assignment_statements import AS_PAPER, LOOSE, TIGHT, figure, statements
from gravitate.studies.findings import Finding

__all__ = ["figure", "findings", "run", "settings"]

SUBSCRIBERS_QUICK: Final = 20_000
SUBSCRIBERS_WHOLE: Final = 100_000
VARIED_QUICK: Final = {"subscribers": 3_000, "brokers": 30}
"""Where one parameter is varied."""
VARIED_WHOLE: Final = {"subscribers": SUBSCRIBERS_WHOLE, "brokers": 100}
VARIANTS: Final = tuple(product(("low", "high"), repeat=2))
"""IS and BI of set 1."""
MULTI_QUICK: Final = (("low", "high"), ("high", "low"))
TREES_QUICK: Final = 5
TREES_WHOLE: Final = 2
"""Trees of the tight setting, for each variant."""
LEVELS: Final = {"brokers": 200, "out_degree": 15}
BOUNDS: Final[dict[str, dict[str, Any]]] = {
    TIGHT: {"delay_max": 0.2, "beta": 1.02, "beta_max": 1.05, "is_relative": True},
    AS_PAPER: {"delay_max": 0.2, "beta": 7 / 6, "beta_max": 8 / 6, "is_relative": True},
    LOOSE: {"delay_max": 1.0, "beta": 1.3, "beta_max": 1.5},
}
"""Of multi-level networks."""
COMPLEXITIES: Final = (1, 2, 3, 4, 5, 6)
DELAYS: Final = (0.1, 0.2, 0.3, 0.5, 1.0)
REGIONS: Final = ("4:1:4", "1:1:1", "1:4:1", "1:4:4", "4:4:1")
"""Of brokers: Asia, North America, Europe."""
LOAD_SAMPLES: Final = (1, 2, 5, 10, 20)
SUPER_INTERESTS: Final = (1, 2, 3, 5, 8)
EXACT_INSTANCES: Final = 30
SEEDS_WHOLE: Final = 5
AT_ONCE: Final = 8
"""How many runs are dealt out together; they take a minute each."""

Progress = Callable[[int, int], None]


def settings(quick: bool = True, seeds: int = 0, data: Path | None = None) -> list[Setting]:
    """The runs of the study, once for each of the seeds 1, 2, ... (0: one if quick, else five),
    on the measurements of a folder or on stand-ins for them."""
    numbers = range(1, (seeds or (1 if quick else SEEDS_WHOLE)) + 1)
    folder = str(data.absolute()) if data is not None else ""
    found = [run for seed in numbers for run in _drawn(quick, {"seed": seed, "data": folder})]
    return found + list(_exact())


def _drawn(quick: bool, common: dict[str, Any]) -> Iterator[Setting]:
    count = SUBSCRIBERS_QUICK if quick else SUBSCRIBERS_WHOLE
    yield from _one_level({**common, "subscribers": count})
    yield from _multi_level(quick, {**common, "subscribers": count})
    yield from _varied({**common, **(VARIED_QUICK if quick else VARIED_WHOLE)})


def _one_level(common: dict[str, Any]) -> Iterator[Setting]:
    instances = [Instance(skewness=skew, broad=broad, **common) for skew, broad in VARIANTS]  # type: ignore[arg-type]
    instances += [Instance(workload="set2", **common), Instance(workload="set3", **common)]
    for instance in instances:
        yield Setting(part="one level", instance=instance, algorithms=ONE_LEVEL, has_bound=True)


def _multi_level(quick: bool, common: dict[str, Any]) -> Iterator[Setting]:
    """Tight on several trees, because it depends on the tree how tight that is."""
    usual = [
        Instance(skewness=skew, broad=broad, **common, **LEVELS)  # type: ignore[arg-type]
        for skew, broad in (MULTI_QUICK if quick else VARIANTS)
    ]
    for instance in usual[:1] if quick else usual:
        for tree in range(1, (TREES_QUICK if quick else TREES_WHOLE) + 1):
            for label, algorithms in ((TIGHT, MULTI_LEVEL), (AS_PAPER, GREEDY)):
                yield _bounded(msgspec.structs.replace(instance, tree=tree), label, algorithms)
    for instance in usual:
        yield _bounded(instance, LOOSE, MULTI_LEVEL)


def _bounded(instance: Instance, label: str, algorithms: tuple[str, ...]) -> Setting:
    return Setting(
        part="multi-level",
        label=label,
        instance=msgspec.structs.replace(instance, **BOUNDS[label]),
        algorithms=algorithms,
        has_bound=SEARCHED in algorithms,
    )


def _varied(common: dict[str, Any]) -> Iterator[Setting]:
    """One parameter after the other, on set 1 with high IS and BI."""
    usual = Instance(skewness="high", broad="high", **common)
    changed = msgspec.structs.replace
    for complexity in COMPLEXITIES:
        yield Setting(
            part="filter complexity",
            instance=changed(usual, complexity=complexity),
            algorithms=(*GREEDY, "SLP1", SEARCHED),
        )
    for delay_max in DELAYS:
        yield Setting(
            part="maximum delay",
            instance=changed(usual, delay_max=delay_max),
            algorithms=("Gr*", "SLP1", SEARCHED),
        )
    for regions in REGIONS:
        yield Setting(
            part="broker distribution",
            instance=changed(
                usual, broker_regions=regions, beta=1.25, beta_max=1.5, is_relative=True
            ),
            algorithms=("Balance", "Closest-b", "SLP1"),
        )
    for size in LOAD_SAMPLES:
        yield Setting(
            part="load sample", instance=usual, algorithms=("SLP1",), load_sample_per_child=size
        )
    for number in SUPER_INTERESTS:
        yield Setting(
            part="super-interests",
            instance=usual,
            algorithms=("SLP1",),
            super_interests_per_broker=number,
        )


def _exact() -> Iterator[Setting]:
    """Small enough for the optimum; complexities 1 and 2 by turns. No difference between wanted
    and allowed load, because the optimum knows none."""
    for number in range(EXACT_INSTANCES):
        yield Setting(
            part="exact",
            instance=Instance(
                workload="random",
                subscribers=20,
                brokers=5,
                complexity=1 + number % 2,
                delay_max=1.0,
                beta=1.5,
                beta_max=1.5,
                is_relative=True,
                seed=number + 1,
            ),
            algorithms=("Gr*", "SLP1", SEARCHED, OPTIMUM),
            has_bound=True,
        )


def run(
    spark: Any, runs: Sequence[Setting], progress: Progress = lambda done, total: None
) -> list[Seen]:
    """Make the runs as Spark tasks, in their order."""
    return sweep(
        spark,
        runs,
        assign,
        Seen,
        done=lambda count: progress(count, len(runs)),
        at_once=AT_ONCE,
    )


def findings(seen: Sequence[Seen]) -> list[Finding]:
    """What the paper says beside what was found."""
    results = Results(seen)
    return [*statements(results), *effects(results)]
