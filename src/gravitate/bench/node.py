"""`bench node`: one broker against mosquitto, under the same load generator.

Payloads are 100 bytes. Each case runs in interleaved rounds (ours, mosquitto, ours, ...) and
reports medians. Beside each figure stands what the load generator used of a processor during
it (`...-load-cpu`): far from one, it was not the bottleneck (in rounds it takes turns with the
broker, and uses more the more often the broker wakes it). Streams are bounded by what the
subscribers received, so nobody drops anything, and a run in which deliveries are missing or
doubled ends in an error instead of a figure; the order of streams is checked at the end of each
read.

The cases: `q0-1to1`, `q1-1to1`, `q0-1to50`, `q1-1to50` stream from one publisher (deliveries a
second); `q0-50to1`, `q1-50to1` are 50 publishers that send one message each a round, where
batching finds nothing to batch; `filters-50` are 50 subscribers with distinct conditions on five
user properties (publications a second; mosquitto, which cannot filter, sends everything to
everyone); `p50-...` and `p99-...` are delays at 1,000 publications a second to one subscriber
and at 200 a second to 50.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from gravitate.bench import records
from gravitate.bench.load import Load, Publication, check, generate
from gravitate.bench.load_brokers import BrokerProcess, gravitate, mosquitto
from gravitate.bench.load_patterns import Measured
from gravitate.bench.records import Progress, Record, chosen, in_turn, silent

BENCH = "node"
FAN = 50
WINDOW = 2000
FAN_OUT_WINDOW = 500


@dataclass(frozen=True)
class Case:
    """A load, and the load for a baseline that cannot do it if it must be another."""

    name: str
    load: Load
    baseline_load: Load | None = None


def filter_load() -> tuple[Load, Load]:
    """50 conditions and a ring of publications; for the baseline, everything goes to everyone.

    Half of the conditions ask for one of 25 symbols and a least volume, half for a band of
    prices and one of volumes; a publication is due to about four subscribers."""
    chance = random.Random(50)
    conditions = []
    tests: list[Callable[[dict[str, str]], bool]] = []
    for number in range(FAN // 2):
        symbol, volume = f"S{number:02}", 100_000 + 10_000 * number
        conditions.append(f"symbol = '{symbol}' AND volume > {volume}")
        tests.append(
            lambda p, s=symbol, v=volume: p["symbol"] == s and int(p["volume"]) > v  # type: ignore[misc]
        )
        low, most = 10 + 3 * number, 400_000 + 20_000 * number
        conditions.append(f"price >= {low} AND price < {low + 10} AND volume <= {most}")
        tests.append(
            lambda p, a=low, v=most: a <= float(p["price"]) < a + 10 and int(p["volume"]) <= v  # type: ignore[misc]
        )
    publications = []
    everyone = []
    for _ in range(1000):
        properties = {
            "symbol": f"S{chance.randrange(FAN // 2):02}",
            "price": f"{chance.uniform(10, 99.9):.2f}",
            "volume": str(chance.randrange(100_000, 1_000_000)),
            "change": f"{chance.uniform(0, 9.9):.2f}",
            "market": f"X{chance.randrange(5)}",
        }
        due_to = [number for number, test in enumerate(tests) if test(properties)]
        publications.append(Publication(properties, due_to))
        everyone.append(Publication(properties, list(range(FAN))))
    ours = Load(
        "stream",
        0,
        0,
        subscribers=FAN,
        window=WINDOW,
        conditions=conditions,
        publications=publications,
    )
    theirs = Load("stream", 0, 0, subscribers=FAN, window=FAN_OUT_WINDOW, publications=everyone)
    return ours, theirs


def all_cases() -> list[Case]:
    cases = []
    for qos in (0, 1):
        one = Load("stream", 0, 0, qos=qos, window=WINDOW)
        fan_out = Load("stream", 0, 0, qos=qos, subscribers=FAN, window=FAN_OUT_WINDOW)
        fan_in = Load("rounds", 0, 0, qos=qos, publishers=FAN)
        cases.append(Case(f"q{qos}-1to1", one))
        cases.append(Case(f"q{qos}-1to{FAN}", fan_out))
        cases.append(Case(f"q{qos}-{FAN}to1", fan_in))
    cases.append(Case(f"filters-{FAN}", *filter_load()))
    cases.append(Case("p50-1to1", Load("paced", 0, 0, rate_per_s=1000)))
    cases.append(Case(f"p50-1to{FAN}", Load("paced", 0, 0, subscribers=FAN, rate_per_s=200)))
    return cases


def run(
    cases: Sequence[str] | None = None,
    seconds: float = 1.5,
    rounds: int = 3,
    progress: Progress = silent,
) -> list[Record]:
    """Measure the named cases (all by default): `rounds` runs of `seconds` for each broker."""
    known = {case.name: case for case in all_cases()}
    figures = []
    for name in chosen(BENCH, known, cases):
        figures += run_case(known[name], seconds, rounds, progress)
    return figures


def run_case(case: Case, seconds: float, rounds: int, progress: Progress) -> list[Record]:
    with gravitate(brokers=1) as (broker,), mosquitto() as baselines:
        sides = [(case.load, broker)]
        sides += [(case.baseline_load or case.load, baseline) for baseline in baselines]
        runs = in_turn(case.name, rounds, progress, sides, lambda side: loaded(*side, seconds))
    return records_of(case, runs[0], runs[1] if baselines else [])


def loaded(load: Load, broker: BrokerProcess, seconds: float) -> Measured:
    """One run against one broker; an error when a delivery is missing, doubled or misplaced."""
    measured = generate(
        msgspec.structs.replace(
            load, port=broker.port, subscriber_port=broker.port, seconds=seconds
        )
    )
    check(measured)
    return measured


def records_of(case: Case, ours: Sequence[Measured], theirs: Sequence[Measured]) -> list[Record]:
    """The figures of a case: medians over its runs; no baseline where none ran."""

    def record(
        name: str, unit: str, figure: Callable[[Measured], float], less_is_better: bool = False
    ) -> Record:
        value = statistics.median(map(figure, ours))
        baseline = statistics.median(map(figure, theirs)) if theirs else None
        return records.measured(BENCH, name, value, unit, baseline, less_is_better=less_is_better)

    figures = []
    if case.load.pattern == "paced":
        flow = case.name.removeprefix("p50-")
        figures.append(record(case.name, "ms", lambda m: percentile(m.delays_ms, 50), True))
        figures.append(record(f"p99-{flow}", "ms", lambda m: percentile(m.delays_ms, 99), True))
    elif case.load.publications:
        figures.append(record(case.name, "publications/s", lambda m: m.published_per_s))
    else:
        figures.append(record(case.name, "deliveries/s", lambda m: m.delivered_per_s))
    share = record(f"{case.name}-load-cpu", "of a core", lambda m: m.load_cpu_share, True)
    figures.append(msgspec.structs.replace(share, ratio=None))
    return figures


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
