"""The parts of a report page: a question, how to read the answer, plots, tables.

Every plot has a table with the same numbers behind it. Text here is plain; `page` escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gravitate.pipeline.report.figures import Report, RunFigures
from gravitate.pipeline.report.plots import Plot

NamedRuns = Sequence[tuple[str, RunFigures]]
"""The runs of a report with what they are called; the name is empty where there is only one."""


class Table(msgspec.Struct, frozen=True):
    caption: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    text_columns: int = 1
    """How many of the columns, from the left, hold text; the others hold numbers."""
    open: bool = False
    """Whether it is shown at once and not behind a click."""


class Section(msgspec.Struct, frozen=True):
    id: str
    name: str
    """For the list of contents."""
    question: str
    reading: str
    plots: list[Plot]
    tables: list[Table]
    side_by_side: bool = False
    empty: str = ""
    """Said in place of plots and tables when there is nothing to show."""


def named_runs(report: Report) -> NamedRuns:
    """Where there are two runs, they are called A and B, with the name of the folder."""
    if report.compared is None:
        return [("", report.run)]
    return [
        (f"{letter}: {run.facts.run}", run) for letter, run in zip("AB", report.runs, strict=True)
    ]


def captioned(caption: str, name: str) -> str:
    """What a table of one run is called."""
    return f"{caption}, {name}" if name else caption
