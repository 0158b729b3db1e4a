"""Moves in a file are read, or refused by name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gravitate.config.moves import load
from gravitate.errors import FileError
from gravitate.model.moves import ExchangeLink, Move, Rationale, RelocatePublisher

MOVES: list[Move] = [
    RelocatePublisher("m1", "p", "b1", "b2", Rationale("closer", 2.0, 1.0)),
    ExchangeLink("m2", ("b1", "b2"), ("b1", "b3"), Rationale("fewer relays")),
]


def test_moves_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "moves.json"
    path.write_bytes(msgspec.json.encode(MOVES))
    assert load(path) == MOVES


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a JSON list of moves"),
        ("{}", "Expected `array`"),
        ('[{"type": "teleport"}]', "teleport"),
        ('[{"type": "open-link", "id": "m"}]', r"missing required field `between`.*\[0\]"),
        ("\udcff", "is not a JSON list of moves"),
    ],
)
def test_what_is_no_list_of_moves_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "moves.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FileError, match=sentence):
        load(path)
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "missing.json")
