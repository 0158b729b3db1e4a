"""What the tables of moves are made of: states, what is waited for in them, events, rows.

A *part* is what one broker plays in a move. Its table says: in this state, upon this event, to that
state or end, and what is done then. Tables are data: `engine` runs them, a test walks them, and the
documentation of states is made from them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

LEASE: Final = float("inf")
"""Patience for as long as whoever asked for the part has said, over all states that have it."""


class On(enum.Enum):
    """What may happen to any run. A kind of move adds its own, in an enum like this one."""

    WAY_FOUND = "the path of the move is known"
    GRANTED = "the brokers on the path let it begin"
    REFUSED = "they do not, or there is no path"
    LINK_LOST = "the link to the next broker of the path has forgotten what was under way on it"
    ENDED = "the move that the part is played for is over"
    STOPPING = "this broker is about to stop"
    LATE = "a state has lasted too long"
    PAUSED = "the client does nothing more here"
    CLOSED = "the subject is gone, or cannot be reached"
    CAME_BACK = "it was sent elsewhere, and is here again"


class Row(NamedTuple):
    """`do`, `when`: names of what the player does, and of a question that changes nothing. A row
    that stays in its state is remembered in it (`Run.heard`)."""

    state: enum.Enum
    event: enum.Enum
    to: enum.Enum
    do: str = ""
    when: str = ""
    why: str = ""
    """Why it ends so, if who tells of the event does not say."""


class Wait(NamedTuple):
    patience_s: float | None
    """None: past the point of no return."""
    waits_for: str
    """What has not happened when it is late, as a sentence."""
    again: tuple[float, str] | None = None
    """What is done once more, every so many seconds."""


class Part:
    """Its first state is the first that something is waited for in; those without are ends."""

    def __init__(
        self, name: str, states: type[enum.Enum], waits: dict[Any, Wait], rows: Sequence[Row]
    ) -> None:
        self.name = name
        self.states = states
        self.waits = waits
        self.rows = tuple(rows)
        self.first: enum.Enum = next(iter(waits))
        self.lease_s = sum(waits[one].patience_s or 0.0 for one in waits if one is not self.first)
        """How long those who are asked to take part may have to wait."""
        self._by_event: dict[tuple[enum.Enum, enum.Enum], list[Row]] = {}
        for row in rows:
            self._by_event.setdefault((row.state, row.event), []).append(row)

    def upon(self, state: enum.Enum, event: enum.Enum) -> Sequence[Row]:
        """The rows of which the first counts whose guard holds."""
        return self._by_event.get((state, event), ())


def opening_waits(state: Any) -> dict[Any, Wait]:
    return {
        state.SEEKING: Wait(5.0, "no way to the target was found"),
        state.ASKED: Wait(5.0, "the brokers on the path did not all answer"),
    }


def opening(state: Any, granted: enum.Enum, do: str) -> list[Row]:
    """How every move begins: a way is sought if it brings none, the brokers on it are asked."""
    ends = (On.REFUSED, On.LINK_LOST, On.CLOSED, On.STOPPING, On.LATE)
    return [
        Row(state.SEEKING, On.WAY_FOUND, state.ASKED),
        Row(state.ASKED, On.GRANTED, granted, do),
        *(Row(one, end, state.REFUSED) for one in (state.SEEKING, state.ASKED) for end in ends),
    ]
