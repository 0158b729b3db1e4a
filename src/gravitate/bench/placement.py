"""`bench placement`: GRAPE's selection beside the algorithms of the paper as they are written.

`grape-63`, `grape-1000` and `grape-10000` are balanced trees of so many brokers with fan-out 2, all
of which answer with a vector of 100 bits. What is timed goes from the answers, as decoding has
left them, to the target: each round gets answers that nobody has looked at before. The baseline
walks the tree once for each candidate, in the same language, from answers already unpacked; above
1,000 brokers it would take minutes and is left out. Before anything is timed, both have to agree
on every metric and on the target. Seconds are seconds of the processor.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from gravitate.bench.records import Progress, Record, chosen, measured, silent
from gravitate.overlay.shapes import balanced_tree
from gravitate.overlay.tree import neighbours
from gravitate.plan.placement.grape import Answer, GrapeParameters, Measured, select, warm

BENCH: Final = "placement"
CASES: Final = {"grape-63": 63, "grape-1000": 1_000, "grape-10000": 10_000}
BITS: Final = 100
SETTING: Final = GrapeParameters("load", 75)
CURRENT: Final = "b5"
LITERAL_MAX: Final = 1_000


def answers(count: int, seed: int = 1) -> list[Answer]:
    """Answers of `count` brokers: most deliver a tenth of the publications, some deliver all."""
    generator = random.Random(seed)
    names = [f"b{number}" for number in range(count)]
    near = neighbours(names, [(names[one], names[other]) for one, other in balanced_tree(count)])
    found = []
    for name in names:
        wanted = range(BITS) if generator.random() < 0.05 else generator.sample(range(BITS), 10)
        bits = sum(1 << event for event in wanted)
        figures = Measured(
            deliveries=generator.randrange(1, 20) * len(wanted),
            queue_s={other: generator.uniform(0, 0.01) for other in near[name]},
            input_queue_s=generator.uniform(0, 0.01),
            matching_s=generator.uniform(0, 0.001),
            client_queue_s=generator.uniform(0, 0.01),
            link_s={other: generator.uniform(0.001, 0.1) for other in near[name]},
        )
        found.append(Answer.of(name, bits.to_bytes(16, "little"), figures))
    return found


def run(
    cases: Sequence[str] | None = None, *, progress: Progress = silent, rounds: int = 101
) -> list[Record]:
    """The figures of `gravitate bench placement`; medians of rounds."""
    progress("compiling kernels")
    warm()
    records = []
    for case in chosen(BENCH, CASES, cases):
        progress(case)
        count = CASES[case]
        given = answers(count)
        literal_s = _literal_s(given) if count <= LITERAL_MAX else None
        baseline_ms = None if literal_s is None else 1e3 * literal_s
        value_ms = 1e3 * _select_s(given, rounds)
        records.append(measured(BENCH, case, value_ms, "ms", baseline_ms, less_is_better=True))
    return records


def _select_s(given: list[Answer], rounds: int) -> float:
    encoded = msgspec.msgpack.encode(given)
    seconds = []
    for _ in range(rounds):
        fresh = msgspec.msgpack.decode(encoded, type=list[Answer])
        start = time.process_time()
        select(fresh, CURRENT, SETTING)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def _literal_s(given: list[Answer]) -> float:
    """What the literal selection takes, once it has been found to be ours."""
    brokers = {answer.broker: _Broker(answer) for answer in given}
    start = time.process_time()
    metrics = {broker: _metrics(brokers, broker) for broker in brokers}
    target = _literal_choice(metrics)
    seconds = time.process_time() - start
    choice = select(given, CURRENT, SETTING)
    assert choice.best == target, f"{choice.best} instead of {target}"
    for broker, figures in choice.candidates().items():
        delay_s, messages = metrics[broker]
        assert figures.messages == messages, broker
        assert abs(figures.delay_s - delay_s) < 1e-9, broker
    return seconds


class _Broker:
    """One broker of the delivery tree, with the sums it gives for each neighbour."""

    def __init__(self, answer: Answer) -> None:
        given = answer.measured()
        inside_s = given.input_queue_s + given.matching_s
        self.hop_s = {
            near: inside_s + queue_s + given.link_s[near] for near, queue_s in given.queue_s.items()
        }
        self.clients_s = inside_s + given.client_queue_s
        self.deliveries = given.deliveries
        self.bits = int.from_bytes(answer.delivered, sys.byteorder)
        self.downstream_bits: dict[str, int] = {}


def _metrics(brokers: dict[str, _Broker], candidate: str) -> tuple[float, int]:
    """Average delay and message rate with the publisher at `candidate`: Algorithms 1 to 3."""
    total_s, deliveries = _total_delay(brokers, 0.0, candidate, "")
    return total_s / deliveries, _message_rate(brokers, candidate, "")


def _total_delay(
    brokers: dict[str, _Broker], so_far_s: float, at: str, came_from: str
) -> tuple[float, int]:
    broker = brokers[at]
    deliveries = broker.deliveries
    total_s = deliveries * (so_far_s + broker.clients_s)
    for near, hop_s in broker.hop_s.items():
        if near != came_from:
            more_s, more = _total_delay(brokers, so_far_s + hop_s, near, at)
            total_s += more_s
            deliveries += more
    return total_s, deliveries


def _message_rate(brokers: dict[str, _Broker], at: str, came_from: str) -> int:
    rate = _downstream_bits(brokers, at, came_from).bit_count()
    for near in brokers[at].hop_s:
        if near != came_from:
            rate += _message_rate(brokers, near, at)
    return rate


def _downstream_bits(brokers: dict[str, _Broker], at: str, came_from: str) -> int:
    broker = brokers[at]
    bits = broker.bits
    for near in broker.hop_s:
        if near != came_from:
            found = broker.downstream_bits.get(near)
            if found is None:
                found = broker.downstream_bits[near] = _downstream_bits(brokers, near, at)
            bits |= found
    return bits


def _literal_choice(metrics: dict[str, tuple[float, int]]) -> str:
    """Load first, to `SETTING.weight_percent`, then delay."""
    loads = {broker: messages for broker, (_, messages) in metrics.items()}
    low, high = min(loads.values()), max(loads.values())
    scale = 100 / (high - low) if high > low else 0.0
    limit = 100 - SETTING.weight_percent
    kept = [broker for broker, load in loads.items() if scale * (load - low) <= limit]
    return min(kept, key=lambda b: (metrics[b][0], loads[b], b != CURRENT, b))
