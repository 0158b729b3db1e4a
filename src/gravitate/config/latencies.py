"""Latencies for the links of a network that is made to order.

Drawn from a range, or taken from measured round-trip times; coordinates are given when the
network is made (`build`). Whatever the source, links end up with their one-way latency, so that
simulated worlds and nodes that emulate latencies agree.
"""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from gravitate.config.network import Network
from gravitate.errors import FileError, InputError


def drawn(network: Network, low_ms: float, high_ms: float, seed: int) -> Network:
    """Every link's latency drawn uniformly between the two; a constant when they are equal."""
    generator = random.Random(f"latencies/{seed}")
    return _with(network, lambda a, b: generator.uniform(low_ms, high_ms))


def measured(network: Network, rtt_ms: list[list[float]], seed: int) -> Network:
    """Brokers take the places of hosts drawn from a matrix of round-trip times.

    One way is half a round trip, the mean of both directions; where neither was measured (not a
    number), the median of the matrix serves."""
    if len(rtt_ms) < len(network.brokers):
        raise InputError(
            f"{len(network.brokers)} brokers need as many measured hosts: there are {len(rtt_ms)}"
        )
    chosen = random.Random(f"hosts/{seed}").sample(range(len(rtt_ms)), len(network.brokers))
    host = {broker.id: place for broker, place in zip(network.brokers, chosen, strict=True)}
    known = [t for row in rtt_ms for t in row if math.isfinite(t) and t > 0]
    usual_ms = median(known) if known else 0.0

    def one_way_ms(a: str, b: str) -> float:
        both = [rtt_ms[host[a]][host[b]], rtt_ms[host[b]][host[a]]]
        known = [t for t in both if math.isfinite(t)] or [usual_ms]
        return sum(known) / len(known) / 2

    return _with(network, one_way_ms)


def read_matrix(path: Path) -> list[list[float]]:
    """A square matrix of round-trip times in milliseconds: a row a line, numbers between blanks
    or tabs, `nan` where nothing was measured; compressed when it is named `.gz`."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            rows = [_row(path, number, line) for number, line in enumerate(lines, 1)]
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise FileError(f"cannot be read: {problem}", str(path)) from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise FileError(
                f"{len(row)} numbers in a matrix of {len(rows)} lines: write {len(rows)}",
                str(path),
                number,
            )
    return rows


def _row(path: Path, number: int, line: str) -> list[float]:
    row = []
    for text in line.split():
        try:
            row.append(float(text))
        except ValueError:
            raise FileError(
                f"'{text}' is no time: write milliseconds, or nan", str(path), number
            ) from None
        if row[-1] < 0:
            raise FileError(f"'{text}' is no time: write a number from 0", str(path), number)
    return row


def _with(network: Network, latency_ms: Callable[[str, str], float]) -> Network:
    return msgspec.structs.replace(
        network,
        links=tuple(
            msgspec.structs.replace(link, latency_ms=round(latency_ms(*link.between), 3))
            for link in network.links
        ),
    )
