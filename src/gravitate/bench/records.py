"""Records: the one form in which every benchmark reports.

A record holds what was measured beside the baseline measured in the same run. `ratio` is how far
ahead of the baseline we are, above 1 when ahead, whichever direction is the better one for the
unit. Nothing here measures anything, or knows how people see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from gravitate.errors import InputError

S = TypeVar("S")
T = TypeVar("T")

Progress = Callable[[str], None]
"""Told what is being measured."""


def silent(_: str) -> None:
    """Progress that nobody watches."""


class Record(msgspec.Struct, frozen=True):
    """One measured case. `baseline` and `ratio` are absent when no baseline could be run."""

    bench: str
    case: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None


def chosen(bench: str, cases: Iterable[str], wanted: Sequence[str] | None) -> list[str]:
    """The wanted cases of a benchmark in its own order, all by default."""
    known = list(cases)
    for name in wanted or ():
        if name not in known:
            raise InputError(f"no case '{name}' in bench {bench}: write one of {', '.join(known)}")
    return [name for name in known if not wanted or name in wanted]


def measured(
    bench: str,
    case: str,
    value: float,
    unit: str,
    baseline: float | None = None,
    *,
    less_is_better: bool = False,
) -> Record:
    """A record whose `ratio` is derived from `value` and `baseline`."""
    ratio = None
    if baseline is not None:
        ahead, behind = (baseline, value) if less_is_better else (value, baseline)
        ratio = ahead / behind if behind else None
    return Record(bench, case, value, unit, baseline, ratio)


def in_turn(
    case: str,
    rounds: int,
    progress: Progress,
    sides: Iterable[S],
    measure: Callable[[S], T],
) -> list[list[T]]:
    """What is measured of each side, round after round: whatever else happens on the machine
    happens to all of them."""
    found: list[tuple[S, list[T]]] = [(side, []) for side in sides]
    for number in range(rounds):
        progress(f"{case}: round {number + 1} of {rounds}")
        for side, runs in found:
            runs.append(measure(side))
    return [runs for _, runs in found]
