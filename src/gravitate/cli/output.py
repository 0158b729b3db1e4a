"""What commands show: tables for people, JSON for tools, progress on standard error.

Answers go to standard output and everything else to standard error, so that a pipe carries
answers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")]


def check_new(out: Path | None) -> None:
    """Refuse a folder to write to that is a file, or has something in it."""
    from gravitate.errors import FileError

    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileError("is not empty: give a new folder", str(out))


def show(what: RenderableType) -> None:
    """Print something rich can draw."""
    from rich.console import Console

    Console().print(what)


def say(sentence: str) -> None:
    """Tell a person how it is going."""
    typer.echo(sentence, err=True)


def show_json(answer: Any) -> None:
    """Print plain data or structs as indented JSON."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())


def answer(told: T, json: bool, show: Callable[[T], object]) -> None:
    """Print an answer for tools, or as `show` has it for people."""
    if json:
        show_json(told)
    else:
        show(told)


def show_json_line(answer: Any) -> None:
    """Print one object on one line, for streams of them."""
    import msgspec

    typer.echo(msgspec.json.encode(answer).decode())


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None
) -> None:
    """A table; numbers stand on the right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    cells = [list(row) for row in rows]
    for position, heading in enumerate(columns):
        numeric = all(isinstance(row[position], int | float | None) for row in cells)
        table.add_column(heading, justify="right" if numeric and cells else "left")
    for row in cells:
        table.add_row(*map(_cell, row))
    show(table)


def show_facts(facts: Iterable[tuple[str, object]], title: str | None = None) -> None:
    """A table of names and values."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in facts:
        table.add_row(name.replace("_", " "), _cell(value))
    show(table)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        case _:
            return str(value)


@contextmanager
def progress(
    description: str, total: float | None = None, hidden: bool = False
) -> Iterator[Callable[[float], None]]:
    """A bar on standard error; yields a function that is told how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %" if total else ""),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=hidden,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def activity(description: str, hidden: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error; yields a function that changes what it says."""
    from rich.console import Console

    console = Console(stderr=True, quiet=hidden)
    with console.status(description) as status:
        yield status.update
