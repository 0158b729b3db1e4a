"""`bench links`: what a hop costs, on a chain of three broker processes.

The publisher sits at one end and the subscriber at the other, so the broker in the middle does
nothing but forward. `hop-throughput` is events over the processor time of that broker, taken
over a whole run; `hop-p50` is what one more broker adds to the median delay at 1,000
publications a second, taken from the difference between a chain of three and a single broker.
The baseline is a chain of mosquittos with bridges, measured alike in interleaved rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from gravitate.bench.load import Load, check, generate
from gravitate.bench.load_brokers import BrokerProcess, gravitate, mosquitto
from gravitate.bench.node import percentile
from gravitate.bench.records import Progress, Record, chosen, in_turn, measured, silent

Chain = Sequence[BrokerProcess]

BENCH = "links"
CASES = ("hop-throughput", "hop-p50")
BROKERS = 3
STREAM = Load("stream", 0, 0, window=4000)
FLOW = Load("paced", 0, 0, rate_per_s=1000)


def run(
    cases: Sequence[str] | None = None,
    seconds: float = 1.5,
    rounds: int = 3,
    progress: Progress = silent,
) -> list[Record]:
    """Measure the named cases (all by default): `rounds` runs of `seconds` for each chain."""
    wanted = chosen(BENCH, CASES, cases)
    figures = []
    with gravitate(BROKERS) as ours, mosquitto(BROKERS) as theirs:
        chains = [chain for chain in (ours, theirs) if chain]
        if "hop-throughput" in wanted:
            figures += hop_throughput(chains, seconds, rounds, progress)
        if "hop-p50" in wanted:
            figures += hop_delay(chains, seconds, rounds, progress)
    return figures


def hop_throughput(
    chains: Sequence[Chain], seconds: float, rounds: int, progress: Progress
) -> list[Record]:
    """Events a processor second of the broker in the middle."""
    runs = in_turn(CASES[0], rounds, progress, chains, lambda chain: forwarded(chain, seconds))
    rate, their_rate = medians([rate for rate, _ in side] for side in runs)
    share, their_share = medians([share for _, share in side] for side in runs)
    return [
        measured(BENCH, CASES[0], rate, "events/CPU-s", their_rate),
        Record(BENCH, f"{CASES[0]}-load-cpu", share, "of a core", their_share),
    ]


def forwarded(chain: Chain, seconds: float) -> tuple[float, float]:
    """Events a processor second of the middle broker, and the load generator's share of a core."""
    middle = chain[len(chain) // 2]
    before_s = middle.cpu_s()
    loaded = generate(across(STREAM, chain, seconds))
    check(loaded)
    return loaded.delivered / (middle.cpu_s() - before_s), loaded.load_cpu_share


def hop_delay(
    chains: Sequence[Chain], seconds: float, rounds: int, progress: Progress
) -> list[Record]:
    """What one more broker adds to the median delay."""
    runs = in_turn(CASES[1], rounds, progress, chains, lambda chain: added_delay_ms(chain, seconds))
    delay_ms, their_delay_ms = medians(runs)
    return [measured(BENCH, CASES[1], delay_ms, "ms", their_delay_ms, less_is_better=True)]


def added_delay_ms(chain: Chain, seconds: float) -> float:
    """Median delay over the chain less that over its first broker, for each broker more."""
    delays_ms = []
    for part in (chain, chain[:1]):
        loaded = generate(across(FLOW, part, seconds))
        check(loaded)
        delays_ms.append(percentile(loaded.delays_ms, 50))
    return (delays_ms[0] - delays_ms[1]) / (len(chain) - 1)


def across(load: Load, chain: Chain, seconds: float) -> Load:
    """`load` from the first broker of the chain to its last."""
    return msgspec.structs.replace(
        load, port=chain[0].port, subscriber_port=chain[-1].port, seconds=seconds
    )


def medians(sides: Iterable[Sequence[float]]) -> tuple[float, float | None]:
    """Of our runs, and of the baseline's where there were any."""
    ours, *theirs = map(median, sides)
    return ours, theirs[0] if theirs else None
