"""The publisher-placement study: POP and GRAPE against publishers that stay (paper 1).

    seen = run(spark, settings(quick=True))
    for finding in findings(seen): ...

Owns which runs there are. `placement_runs` plays one, `placement_statements` holds them against
what the paper says.

Settled here: the paper's table of clients and rates cannot be read, so there are 40 publishers at
70 publications a minute with 25 subscribers each (50 on 127 brokers). Runs last 8 simulated
minutes in the quick study, 18 as in the paper otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from gravitate.pipeline.spark.sweeps import sweep
from gravitate.studies.placement_runs import X_QUICK, X_THRESHOLDS, Seen, Setting, simulate
from gravitate.studies.placement_statements import figure, findings

__all__ = ["figure", "findings", "run", "settings"]

QUICK_S: Final = 480.0
WHOLE_S: Final = 1080.0
WEIGHTS: Final = (100.0, 75.0, 50.0, 25.0, 1.0)
THRESHOLDS_QUICK: Final = {"grape": (10,), "pop": (50, 200)}
THRESHOLDS_WHOLE: Final = {"grape": (10, 50, 200, 400), "pop": (25, 50, 200, 400)}
X_WHOLE: Final = (1, 2, 4, 8, 16, 32, 0)

Progress = Callable[[int, int], None]


def settings(quick: bool = True, seeds: int = 0) -> list[Setting]:
    """The runs of the study, once for each of the seeds 1, 2, ... (0: one if quick, else three)."""
    numbers = range(1, (seeds or (1 if quick else 3)) + 1)
    drawn = _quick if quick else _whole
    return [run for seed in numbers for run in drawn(seed)]


def _movers(weights: Sequence[float] = (100.0,), **common: Any) -> Iterator[Setting]:
    """The same run with publishers that stay, and with everything that moves them."""
    yield Setting(**common)
    yield Setting(mechanism="pop", **common)
    for prioritised in ("load", "delay"):
        for weight in weights:
            yield Setting(
                mechanism="grape", prioritised=prioritised, weight_percent=weight, **common
            )


def _quick(seed: int) -> Iterator[Setting]:
    common: dict[str, Any] = {"duration_s": QUICK_S, "seed": seed}
    for x in X_QUICK:
        yield from _movers((100.0, 1.0), subscriber_brokers=x, **common)
    yield from _movers(subscriber_brokers=16, mix="random", **common)
    yield from _movers(subscriber_brokers=4, fanout=4, **common)
    yield from _thresholds(THRESHOLDS_QUICK, **common)


def _whole(seed: int) -> Iterator[Setting]:
    common: dict[str, Any] = {"duration_s": WHOLE_S, "seed": seed}
    for mix, fanout, x in product(("enterprise", "random"), (2, 4), X_WHOLE):
        weights = WEIGHTS if x in X_QUICK else (100.0,)
        yield from _movers(weights, mix=mix, fanout=fanout, subscriber_brokers=x, **common)
    for x in X_QUICK:
        yield from _movers(subscriber_brokers=x, brokers=127, subscribers_each=50, **common)
    yield from _thresholds(THRESHOLDS_WHOLE, **common)


def _thresholds(thresholds: Mapping[str, Sequence[int]], **common: Any) -> Iterator[Setting]:
    """With more or fewer publications before a selection than by default."""
    for mechanism, values in thresholds.items():
        for threshold in values:
            yield Setting(
                mechanism=mechanism,  # type: ignore[arg-type]
                prioritised="load",
                threshold=threshold,
                subscriber_brokers=X_THRESHOLDS,
                **common,
            )


def run(
    spark: Any, runs: Sequence[Setting], progress: Progress = lambda done, total: None
) -> list[Seen]:
    """Play the runs as Spark tasks, in their order."""
    return sweep(spark, runs, simulate, Seen, done=lambda count: progress(count, len(runs)))
