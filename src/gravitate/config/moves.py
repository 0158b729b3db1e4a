"""Moves in a file: a JSON list of them, each with its `type` and the fields of `model.moves`.

[{"type": "relocate-publisher", "id": "m1", "publisher": "p", "source": "b1", "target": "b2",
  "why": {"reason": "closer to its audience", "gain": 2.0, "cost": 1.0}}]
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gravitate.errors import FileError
from gravitate.model.moves import Move

_moves = msgspec.json.Decoder(list[Move])


def load(path: str | Path) -> list[Move]:
    """The moves in a file, in their order."""
    try:
        return _moves.decode(Path(path).read_bytes())
    except OSError as problem:
        raise FileError(f"cannot be read: {problem.strerror}", str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise FileError(f"is no JSON list of moves: {problem}", str(path)) from None
