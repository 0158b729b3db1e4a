"""Which events a sampled trace keeps: a hash of the event id below a threshold.

Every broker, process and machine keeps the same events, so that the rows of one event are all
there or none, and traces of several brokers join. Python's own `hash` is not used: it differs
from process to process. The event's hash is that of its publisher and incarnation (BLAKE2b,
once a publisher) mixed with its counter by the finaliser of splitmix64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gravitate.errors import InputError

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

_SMALL_BATCH = 16
"""Below this, plain integers are faster than an array."""

_PUBLISHERS_MAX = 100_000
"""Publishers remembered before the memory is emptied."""


def publisher_hash(publisher: str, incarnation: int) -> int:
    """64 bits that stand for one incarnation of a publisher."""
    text = f"{incarnation}:{publisher}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def event_hash(base: int, counter: int) -> int:
    """64 bits that stand for one event; `base` is its `publisher_hash`."""
    mixed = (base + counter * _STEP) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _MIX_1) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _MIX_2) & _MASK
    return mixed ^ (mixed >> 31)


def event_hashes(
    base: int | npt.NDArray[np.uint64], counters: Sequence[int] | npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The same for many counters at once, of one publisher or each of its own."""
    numbers = np.asarray(counters, dtype=np.int64).astype(np.uint64)
    mixed: npt.NDArray[np.uint64] = np.asarray(base, dtype=np.uint64) + numbers * np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX_1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_2)
    return mixed ^ (mixed >> np.uint64(31))


class Sampler:
    """Keeps a share `rate` (0 to 1) of all events."""

    def __init__(self, rate: float = 1.0) -> None:
        if not 0.0 <= rate <= 1.0:
            raise InputError(f"sampling rate {rate} is not accepted: write a number from 0 to 1")
        self.rate = rate
        self._threshold = int(rate * 2**64)
        self._bases: dict[tuple[str, int], int] = {}

    def kept(self, publisher: str, incarnation: int, counters: Sequence[int]) -> Sequence[int]:
        """Positions in `counters` of the events that are kept, ascending."""
        if self.rate >= 1.0:
            return range(len(counters))
        if self.rate <= 0.0:
            return ()
        base = self._base(publisher, incarnation)
        threshold = self._threshold
        if len(counters) < _SMALL_BATCH:
            return [
                i for i, counter in enumerate(counters) if event_hash(base, counter) < threshold
            ]
        below: list[int] = np.flatnonzero(
            event_hashes(base, counters) < np.uint64(threshold)
        ).tolist()
        return below

    def _base(self, publisher: str, incarnation: int) -> int:
        key = (publisher, incarnation)
        base = self._bases.get(key)
        if base is None:
            if len(self._bases) >= _PUBLISHERS_MAX:
                self._bases.clear()
            base = self._bases[key] = publisher_hash(publisher, incarnation)
        return base
