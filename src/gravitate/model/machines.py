"""State machines as tables: what may follow what, for the code that runs and for its readers.

A machine is an enum of states and rows: in this state, upon this event, to that state, and what is
done then. Its owner enters states through `enter`, which knows no way that is not in the table; a
test walks all tables, and the documentation of states is made from them (`docs/states.md`).

Does not know what drives a machine, nor when.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=enum.Enum)


class Row(NamedTuple, Generic[S]):
    state: S | None
    """None: it comes to be."""
    event: str
    to: S
    do: str = ""
    """What is done then, in a few words or by the name of a method."""


def rows(states: Iterable[S], event: str, to: S, do: str = "") -> list[Row[S]]:
    """The same event in several states."""
    return [Row(state, event, to, do) for state in states]


class Machine(Generic[S]):
    """`ends` are the states after which nothing comes."""

    def __init__(
        self, name: str, states: type[S], rows: Sequence[Row[S]], ends: Collection[S] = ()
    ) -> None:
        self.name = name
        self.states = states
        self.rows = tuple(rows)
        self.ends = frozenset(ends)
        self._ways = frozenset((row.state, row.to) for row in rows)

    def enter(self, state: S | None, to: S) -> S:
        """`to`, if the table knows a way there."""
        assert (state, to) in self._ways, f"{self.name}: no way from {state} to {to}"
        return to
