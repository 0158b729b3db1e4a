"""Records: the one form in which every benchmark reports, and how people and tools see it.

A record holds what was measured beside the baseline measured in the same run. `ratio` is how far
ahead of the baseline we are, above 1 when ahead, whichever direction is the better one for the
unit. Nothing here measures anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from gravitate.errors import InputError

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


def to_json(records: Sequence[Record]) -> str:
    """The records as a JSON list, one object each."""
    return msgspec.json.format(msgspec.json.encode(list(records)), indent=2).decode()


def to_table(records: Sequence[Record]) -> Table:
    """The records as a table for a terminal."""
    table = Table("bench", "case", title=None)
    for heading in ("value", "unit", "baseline", "ratio"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    for record in records:
        table.add_row(
            record.bench,
            record.case,
            _figure(record.value),
            record.unit,
            _figure(record.baseline),
            _figure(record.ratio),
        )
    return table


def show(records: Sequence[Record], *, json: bool = False, console: Console | None = None) -> None:
    """Print the records: a table for people, a JSON list for tools."""
    console = console or Console()
    if json:
        console.out(to_json(records), highlight=False)
    else:
        console.print(to_table(records))


def _figure(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
