"""Moves in a file: a JSON list of them, each with its `type` and the fields of `model.moves`.

[{"type": "relocate-publisher", "id": "m1", "publisher": "p", "source": "b1", "target": "b2",
  "why": {"reason": "closer to its audience", "gain": 2.0, "cost": 1.0}}]
"""

from __future__ import annotations

from pathlib import Path

from gravitate.files import read_json
from gravitate.model.moves import Move


def load(path: str | Path) -> list[Move]:
    """The moves in a file, in their order."""
    return read_json(Path(path), list[Move], "a JSON list of moves")
