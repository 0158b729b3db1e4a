"""`bench links`: what a hop costs, on a chain of three broker processes.

The publisher sits at one end and the subscriber at the other, so the broker in the middle does
nothing but forward. `hop-throughput` is events over the processor time of that broker, taken
over a whole run; `hop-p50` is what one more broker adds to the median delay at 1,000
publications a second, taken from the difference between a chain of three and a single broker.
The baseline is a chain of mosquittos with bridges, measured alike in interleaved rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

import msgspec

from gravitate.bench import records
from gravitate.bench.load import Load, check, generate
from gravitate.bench.load_brokers import BrokerProcess, gravitate, mosquitto
from gravitate.bench.node import percentile
from gravitate.bench.records import Progress, Record, chosen, silent

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
    with ExitStack() as stack:
        ours = stack.enter_context(gravitate(BROKERS))
        theirs = stack.enter_context(mosquitto(BROKERS))
        if "hop-throughput" in wanted:
            figures += hop_throughput(ours, theirs, seconds, rounds, progress)
        if "hop-p50" in wanted:
            figures += hop_delay(ours, theirs, seconds, rounds, progress)
    return figures


def hop_throughput(
    ours: Sequence[BrokerProcess],
    theirs: Sequence[BrokerProcess],
    seconds: float,
    rounds: int,
    progress: Progress,
) -> list[Record]:
    """Events a processor second of the broker in the middle."""
    ours_runs, their_runs = [], []
    for number in range(rounds):
        progress(f"hop-throughput: round {number + 1} of {rounds}")
        ours_runs.append(forwarded(ours, seconds))
        if theirs:
            their_runs.append(forwarded(theirs, seconds))
    rates, shares = zip(*ours_runs, strict=True)
    their_rates, their_shares = zip(*their_runs, strict=True) if their_runs else ((), ())
    return [
        records.measured(
            BENCH, "hop-throughput", median(rates), "events/CPU-s", median_or_none(their_rates)
        ),
        Record(
            BENCH,
            "hop-throughput-load-cpu",
            median(shares),
            "of a core",
            median_or_none(their_shares),
        ),
    ]


def forwarded(chain: Sequence[BrokerProcess], seconds: float) -> tuple[float, float]:
    """Events a processor second of the middle broker, and the load generator's share of a core."""
    middle = chain[len(chain) // 2]
    before_s = middle.cpu_s()
    measured = generate(across(STREAM, chain, seconds))
    check(measured)
    return measured.delivered / (middle.cpu_s() - before_s), measured.load_cpu_share


def hop_delay(
    ours: Sequence[BrokerProcess],
    theirs: Sequence[BrokerProcess],
    seconds: float,
    rounds: int,
    progress: Progress,
) -> list[Record]:
    """What one more broker adds to the median delay."""
    our_delays_ms, their_delays_ms = [], []
    for number in range(rounds):
        progress(f"hop-p50: round {number + 1} of {rounds}")
        our_delays_ms.append(added_delay_ms(ours, seconds))
        if theirs:
            their_delays_ms.append(added_delay_ms(theirs, seconds))
    return [
        records.measured(
            BENCH,
            "hop-p50",
            median(our_delays_ms),
            "ms",
            median_or_none(their_delays_ms),
            less_is_better=True,
        )
    ]


def added_delay_ms(chain: Sequence[BrokerProcess], seconds: float) -> float:
    """Median delay over the chain less that over its first broker, for each broker more."""
    delays_ms = []
    for part in (chain, chain[:1]):
        measured = generate(across(FLOW, part, seconds))
        check(measured)
        delays_ms.append(percentile(measured.delays_ms, 50))
    return (delays_ms[0] - delays_ms[1]) / (len(chain) - 1)


def across(load: Load, chain: Sequence[BrokerProcess], seconds: float) -> Load:
    """`load` from the first broker of the chain to its last."""
    return msgspec.structs.replace(
        load, port=chain[0].port, subscriber_port=chain[-1].port, seconds=seconds
    )


def median_or_none(values: Sequence[float]) -> float | None:
    return median(values) if values else None
