"""The tables of moves: whatever they say can be done, and nobody is waited for without end."""

from __future__ import annotations

from collections import Counter

import pytest

from gravitate.broker.core import Broker
from gravitate.broker.moves import guest, reassignment, relocation
from gravitate.broker.moves.table import On, Part
from tests.broker.test_states import FOUND

_PARTS = Broker("a", 1, {})._parts
PLAYERS: dict[Part, object] = {
    relocation.SOURCE: _PARTS.relocations,
    reassignment.SOURCE: _PARTS.reassignments,
    guest.TARGET: _PARTS.guests,
    guest.HOME: _PARTS.guests,
    guest.NOTE: _PARTS.guests,
}
"""Who plays each part; that every state can be reached and can end is tested with all machines."""
parts = pytest.mark.parametrize("part", PLAYERS, ids=lambda part: part.name)


def test_these_are_all() -> None:
    assert {value for value in FOUND if isinstance(value, Part)} == PLAYERS.keys()


@parts
def test_what_a_table_names_its_player_can_do(part: Part) -> None:
    for name in part.names():
        assert callable(getattr(PLAYERS[part], name)), name


@parts
def test_of_a_state_and_an_event_there_are_at_most_two_rows_and_the_last_may_be_for_all(
    part: Part,
) -> None:
    pairs = Counter((row.state, row.event) for row in part.rows)
    assert max(pairs.values()) <= 2
    for state, event in pairs:
        assert all(row.when for row in part.upon(state, event)[:-1])


@parts
def test_a_state_has_patience_and_what_becomes_of_who_is_late_or_no_way_back(part: Part) -> None:
    for state, wait in part.waits.items():
        late = part.upon(state, On.LATE)
        assert bool(late) == (wait.patience_s is not None), state
        assert all(row.to not in part.waits for row in late)
        assert not late or not late[-1].when, "somebody may be waited for without end"


@parts
def test_no_row_leaves_an_end(part: Part) -> None:
    assert {row.state for row in part.rows} == part.waits.keys()
