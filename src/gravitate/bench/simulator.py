"""How fast simulated worlds run: broker steps a second of wall time, on one core.

`tree-63` is a balanced tree of 63 brokers with fan-out 2, 40 publishers of stock quotes and 2,000
subscribers in the *random* mix, every checker on. A step is one broker handling one batch of
inputs. The baseline is the same world without checkers, so `ratio` is the share of the speed that
is left with them. Set-up (connecting, subscribing, settling) is not timed, and what it leaves
behind is kept out of the garbage collector's way.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Final

from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.broker.observers import Observer
from gravitate.config.build import shaped
from gravitate.config.script import Script
from gravitate.config.workload import StockQuotes, stock_quotes
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.loops import LoopChecker
from gravitate.simulate.checkers.tables import check_tables
from gravitate.simulate.checkers.violations import Violations
from gravitate.simulate.run import broker_factory, connect_clients, publish, settle
from gravitate.simulate.world import World

BENCH: Final = "simulator"
SEED: Final = 1
ROUNDS: Final = 3
CASES: Final = ("tree-63",)


def tree_63(duration_s: float, seed: int = SEED) -> Script:
    """The script of `tree-63`, publishing for `duration_s` of simulated time."""
    network = shaped("balanced-tree", 63, fanout=2, link_ms=20.0)
    workload = StockQuotes(publishers=40, subscribers=2000, mix="random")
    brokers = [broker.id for broker in network.brokers]
    clients, publications = stock_quotes(workload, brokers, duration_s, seed)
    return Script("tree-63", seed, duration_s, network, tuple(clients), tuple(publications))


class Timed:
    """A world that is set up once and then timed in portions of its publications."""

    def __init__(self, script: Script, checks: bool) -> None:
        self._script = script
        self.violations = Violations()
        self._deliveries = DeliveryChecker(self.violations)
        loops = LoopChecker(self.violations)
        observers: tuple[Observer, ...] = (self._deliveries, loops) if checks else ()
        self._world = World(
            script.network,
            broker_factory(script.network, started=loops.started),
            observers=observers,
        )
        self._clients = connect_clients(self._world, script)
        self.steps = 0
        self.seconds = 0.0

    def run(self) -> float:
        """Publish the whole script once; steps a second."""
        world = self._world
        gc.collect()
        steps = world.steps
        origin_s = world.now
        began = time.perf_counter()
        publish(world, self._script.publications, self._clients, origin_s)
        world.run(origin_s + self._script.duration_s)
        settle(world)
        self._deliveries.check_quiet(world.now)
        seconds = time.perf_counter() - began
        self.steps += world.steps - steps
        self.seconds += seconds
        return (world.steps - steps) / seconds

    def check(self) -> None:
        """Nothing was out of place; routing tables are compared once, when all is over."""
        for sentence in check_tables(self._world):
            self.violations.add("tables", self._world.now, sentence)
        assert not self.violations, self.violations.summary()


def run(
    cases: Sequence[str] | None = None, *, progress: Progress = silent, duration_s: float = 30.0
) -> list[Record]:
    """The figures of `gravitate bench simulator`; medians of rounds that take turns."""
    chosen(BENCH, CASES, cases)
    progress("tree-63: connecting 2,040 clients, twice")
    script = tree_63(duration_s)
    checked, unchecked = Timed(script, checks=True), Timed(script, checks=False)
    gc.collect()
    gc.freeze()
    with_checks, without_checks = [], []
    for number in range(ROUNDS):
        progress(f"tree-63: round {number + 1} of {ROUNDS}")
        without_checks.append(unchecked.run())
        with_checks.append(checked.run())
    gc.unfreeze()
    checked.check()
    value, baseline = sorted(with_checks)[ROUNDS // 2], sorted(without_checks)[ROUNDS // 2]
    return [measured(BENCH, "tree-63", value, "steps/s", baseline)]
