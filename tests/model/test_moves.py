"""Moves survive their encoding: both loops and the plan files speak in them."""

from __future__ import annotations

import msgspec
import pytest

from gravitate.model.moves import (
    CloseLink,
    ExchangeLink,
    Move,
    MoveOutcome,
    OpenLink,
    Rationale,
    ReassignSubscriber,
    RelocatePublisher,
    RemapBrokers,
)

WHY = Rationale("closer to its audience", gain=12.5, cost=1.0, figures={"delay_ms_mean": 40.0})
MOVES: list[Move] = [
    RelocatePublisher("m1", "p1", "b1", "b2", WHY),
    ReassignSubscriber("m2", "s1", "b1", "b2", WHY),
    OpenLink("m3", ("b1", "b2"), WHY),
    CloseLink("m4", ("b1", "b2"), WHY),
    ExchangeLink("m5", ("b1", "b2"), ("b1", "b3"), WHY),
    RemapBrokers("m6", {"b1": 2, "b2": 1}, WHY),
]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: type(move).__name__)
def test_a_move_is_decoded_as_what_it_was(move: Move) -> None:
    for codec in (msgspec.msgpack, msgspec.json):
        decoded = codec.decode(codec.encode(move), type=Move)
        assert decoded == move
        assert type(decoded) is type(move)


def test_an_unknown_move_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="teleport"):
        msgspec.json.decode(b'{"type": "teleport", "id": "m"}', type=Move)


def test_a_rationale_without_figures_has_its_own_empty_ones() -> None:
    assert Rationale("a").figures == {}
    assert Rationale("a").figures is not Rationale("b").figures


def test_outcomes_are_spelt_for_people() -> None:
    assert [outcome.value for outcome in MoveOutcome] == ["done", "refused", "rolled back"]
