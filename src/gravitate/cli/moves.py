"""`gravitate moves`: moves under way and done. `gravitate explain`: why a move was made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from gravitate.cli import output
from gravitate.cli.networks import load
from gravitate.errors import FileError, InputError
from gravitate.model.moves import ClientMove, Move, client_of, described

UNIX_S_MIN: Final = 1e9
"""Clocks of worlds start at 0; whatever is later than this is Unix time."""


class Known(msgspec.Struct, frozen=True):
    """A move as a plan, a run or a broker knows it."""

    move: Move
    broker: str
    """Where it began; empty while it is only planned."""
    state: str
    """`planned`, a step of its protocol, or its outcome."""
    at_s: float | None = None
    """When it ended, on the clock of the run; of a network, seconds since 1970."""
    reason: str = ""
    """What kept it from being done."""


def moves(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NETWORK]", help="The file of a running network.", show_default=False
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="A run instead: the moves in its traces.", metavar="RUN")
    ] = None,
    json: output.AsJson = False,
) -> None:
    """List moves under way and ended, of a running network or of a run.

    Exit status 1 when a broker does not answer."""
    if (path is None) == (run is None):
        raise InputError("write either a network file, or --run RUN")
    silent: list[str] = []
    if run is not None:
        known = list(in_run(run))
    else:
        assert path is not None
        known, silent = in_network(path)
    if json:
        output.show_json({"moves": known, "silent": silent})
    else:
        output.show_table(
            ("move", "what", "state", "reason"),
            [(it.move.id, described(it.move), it.state, it.reason) for it in known],
            title=f"{len(known)} moves" + (" of the brokers that answer" if silent else ""),
        )
        for broker in silent:
            output.say(f"broker '{broker}' does not answer: is it up?")
    raise typer.Exit(1 if silent else 0)


def explain(
    move: Annotated[
        str, typer.Argument(metavar="MOVE", help="Id of a move, or of a client that moved.")
    ],
    where: Annotated[
        Path,
        typer.Argument(
            metavar="WHERE", help="A plan, the folder of a run, or the file of a running network."
        ),
    ],
    json: output.AsJson = False,
) -> None:
    """Say why a move was made or planned, with the figures it was decided on."""
    everything = list(anywhere(where))
    known = [it for it in everything if _is_meant(it.move, move)]
    if not known:
        some = ", ".join(map(_subject, everything[:5])) or "none"
        more = ", ..." if len(everything) > 5 else ""
        raise InputError(
            f"nothing of that name was moved in {where}: '{move}'; moves are {some}{more}"
        )
    if json:
        output.show_json(known)
        return
    for it in known:
        why = it.move.why
        facts: list[tuple[str, object]] = [
            ("what", described(it.move)),
            ("state", f"{it.state}{f': {it.reason}' if it.reason else ''}"),
            ("why", why.reason),
            ("gain", why.gain),
            ("cost", why.cost),
            *why.figures.items(),
        ]
        if it.at_s is not None:
            facts.insert(2, ("ended at", _time(it.at_s)))
        output.show_facts(facts, title=f"move '{it.move.id}'")


def _time(at_s: float) -> str:
    """Seconds of a simulated clock, or a time of day."""
    if at_s < UNIX_S_MIN:
        return f"{at_s:.3f} s"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def _subject(known: Known) -> str:
    """A move by its id and what it is about."""
    move = known.move
    return f"{move.id} ({client_of(move)})" if isinstance(move, ClientMove) else move.id


def anywhere(where: Path) -> Iterator[Known]:
    """The moves that a plan, a run or a running network knows."""
    if where.is_dir():
        yield from in_run(where)
    elif where.suffix == ".json":
        yield from in_plan(where)
    else:
        known, silent = in_network(where)
        for broker in silent:
            output.say(f"broker '{broker}' does not answer")
        yield from known


def in_plan(path: Path) -> Iterator[Known]:
    from gravitate.config import plan as plans

    for move in plans.load(path).moves:
        yield Known(move, "", "planned")


def in_run(run: Path) -> Iterator[Known]:
    """In the order in which they ended."""
    from gravitate.model.decoding import UNREADABLE
    from gravitate.trace import reader

    columns = ("broker", "at_s", "outcome", "details")
    rows = reader.read(run, "moves", columns).sort_by("at_s")
    for row in rows.to_pylist():
        try:
            move = msgspec.json.decode(row["details"], type=Move)
        except UNREADABLE as problem:
            raise FileError(f"has a move that cannot be read: {problem}", str(run)) from None
        yield Known(move, row["broker"], row["outcome"], row["at_s"])


def in_network(path: Path) -> tuple[list[Known], list[str]]:
    """Moves under way, then those that ended, over all brokers; and brokers that are silent."""
    from gravitate.operate import asking

    lists, silent = asking.all_moves(load(path))
    under_way = [Known(it.move, it.broker, it.step) for known in lists for it in known.under_way]
    ended = [
        Known(it.move, it.broker, it.step, it.ended_at_s, it.reason)
        for known in lists
        for it in known.ended
    ]
    return [*under_way, *sorted(ended, key=lambda it: it.at_s or 0.0)], silent


def _is_meant(move: Move, asked: str) -> bool:
    # A planned move is carried out under its id with a mark of the occasion behind it.
    return (
        move.id == asked
        or move.id.rpartition("-")[0] == asked
        or (isinstance(move, ClientMove) and client_of(move) == asked)
    )
