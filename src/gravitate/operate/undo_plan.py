"""The undo plan of one `gravitate apply`: on the disk before any broker is asked for a move.

Whatever ends `apply`, and whenever, the file is a plan that takes back every move that was or may
have been done. It may name others too. Moves that have not been asked for are named a little
ahead, so that the file of a long plan is written a few times over and not once a move; a move that
came to nothing is taken out when the file is written again. With `--keep-going` these are skipped:
a client that was not moved is not where it would be taken back from.

Invariants: the file names a move from before its broker is asked until the move is known not to
have been done; beyond those it names at most one for every `_AHEAD` of them, and what came to
nothing since; once closed it names these alone, or is gone when there are none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gravitate.config import plan as plans
from gravitate.errors import FileError
from gravitate.model.moves import Move

_AHEAD: Final = 8
"""One move is named ahead for every so many that were begun: all writings of n moves write less
than (_AHEAD + 3) n."""


def next_path(path: Path) -> Path:
    """The path, or one with a number when there are such files already: what takes back an earlier
    occasion is not lost, and the highest number is that of the latest."""
    stem = path.name.removesuffix(".json")
    spelled = re.compile(re.escape(stem) + r"(?:-([0-9]{1,9}))?\.json")
    taken = [
        int(found[1] or 1)
        for other in (path.parent.iterdir() if path.parent.is_dir() else ())
        if (found := spelled.fullmatch(other.name))
    ]
    return path.with_name(f"{stem}-{max(taken) + 1}.json") if taken else path


class UndoPlan:
    """Takes back what is done of those moves of a plan that are asked for, `moves`, in their order;
    others may be put behind them meanwhile."""

    def __init__(self, plan: plans.Plan, path: Path, moves: Sequence[Move]) -> None:
        self.path = path
        self.begun: list[Move] = []
        """Those that were or may have been done."""
        self._plan = plan
        self._moves = moves
        self._asked = 0
        self._named = 0
        """How many of the moves, from the first, have been named by now."""
        self._written = 0
        """How many the file names."""

    def before_asking(self, move: Move) -> None:
        """Have the file name the move; a `FileError`: it does not, and nobody is to be asked."""
        assert move is self._moves[self._asked], f"move '{move.id}' is not the next"
        if self._asked == self._named:
            ahead = self._moves[self._asked : self._asked + 1 + len(self.begun) // _AHEAD]
            self._write([*self.begun, *ahead])
            self._named += len(ahead)
        self.begun.append(move)
        self._asked += 1

    def came_to_nothing(self, move: Move) -> None:
        """A move that was asked for was not done."""
        del self.begun[next(n for n, it in enumerate(self.begun) if it is move)]

    def close(self) -> None:
        """Nobody is asked for another: the file names what was begun and nothing else."""
        # Where that cannot be, the file as it is names what was begun as well.
        with contextlib.suppress(FileError, OSError):
            if len(self.begun) == self._written:
                return
            if self.begun:
                self._write(self.begun)
            else:
                self.path.unlink(missing_ok=True)

    def _write(self, moves: Sequence[Move]) -> None:
        plans.save(plans.undoing(self._plan, moves), self.path, durable=True)
        self._written = len(moves)
