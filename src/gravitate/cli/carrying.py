"""The moves of a plan, carried out one after the other, and what became of each.

Owns their order, when it is given up, and that whatever ends it leaves the way back (`undo_plan`).
Who carries a move out is the caller's business.

A move that its broker refuses may be possible a moment later: a client that has just come is still
arriving, what it subscribes to is not settled yet. With `keep_going` such a move is asked for once
more, after all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from gravitate.cli.plan import said
from gravitate.errors import EnvironmentLack, FileError
from gravitate.model.moves import Move, MoveOutcome

if TYPE_CHECKING:
    from gravitate.config.plan import Plan

SKIPPED: Final = "skipped"
UNKNOWN: Final = "unknown"
ASK_AGAIN_S: Final = 2.0
"""How long after a refusal a move is asked for again, at the soonest."""

Carry = Callable[[Move], tuple[MoveOutcome | None, str]]
"""Carries a move out; how it ended, None where it was begun and nobody tells how it ended, and what
kept it from being done or known. An `EnvironmentLack`: its broker could not be asked."""


class Carried(msgspec.Struct, frozen=True):
    """What became of one move."""

    move: str
    """As the plan has it."""
    what: str
    outcome: str
    """`done`, `refused`, `rolled back`, `skipped`; or `unknown`: it may have been done."""
    reason: str = ""
    took_s: float = 0.0


class Applied(msgspec.Struct, frozen=True):
    plan: str
    moves: int
    done: int
    carried: tuple[Carried, ...]
    """In the order of the plan; those that were not begun are missing."""
    undo: str = ""
    """The plan that takes back what was done or may have been; empty when nothing was."""
    interrupted: bool = False
    """Somebody has ended it before it was through."""

    @property
    def unknown(self) -> tuple[Carried, ...]:
        """Moves that may have been done."""
        return tuple(it for it in self.carried if it.outcome == UNKNOWN)


def carried_out(
    plan: Plan,
    carry: Carry,
    undo_file: Path,
    keep_going: bool = False,
    skipped: Mapping[str, str] | None = None,
    tell: Callable[[float], None] = lambda done: None,
) -> Applied:
    """Carry the moves out in order; at any time, the plan in `undo_file` takes back all that were
    or may have been done. Ctrl-C ends it, and the move that is under way is not waited for."""
    run = _Run(plan, carry, undo_file, keep_going, skipped or {}, tell)
    interrupted = False
    try:
        run.all()
    except KeyboardInterrupt:
        interrupted = True
    except EnvironmentLack as lack:
        raise EnvironmentLack(run.stopped(lack)) from None
    except FileError as problem:
        raise FileError(run.stopped(problem)) from None
    finally:
        run.undo.close()
    return run.applied(interrupted)


class _Run:
    """One occasion on which a plan is carried out."""

    def __init__(
        self,
        plan: Plan,
        carry: Carry,
        undo_file: Path,
        keep_going: bool,
        skipped: Mapping[str, str],
        tell: Callable[[float], None],
    ) -> None:
        from gravitate.cli.undo_plan import UndoPlan

        self._plan = plan
        self._carry = carry
        self._keep_going = keep_going
        self._tell = tell
        self._carried = {
            move.id: Carried(move.id, said(move), SKIPPED, skipped[move.id])
            for move in plan.moves
            if move.id in skipped
        }
        self._asking = [move for move in plan.moves if move.id not in skipped]
        """Grows by those that are asked for again."""
        self._refused_at_s: dict[str, float] = {}
        self._occasion = time.time_ns() // 1_000_000
        self.undo = UndoPlan(plan, undo_file, self._asking)

    def all(self) -> None:
        """Carry out one after the other, until one stands in the way of the others."""
        for move in self._asking:
            outcome = self._one(move)
            if outcome is not MoveOutcome.DONE and not self._keep_going:
                return

    def _one(self, move: Move) -> MoveOutcome | None:
        again = move.id in self._refused_at_s
        if again:
            due_s = self._refused_at_s[move.id] + ASK_AGAIN_S
            time.sleep(max(0.0, due_s - time.monotonic()))
        self.undo.before_asking(move)
        # What it is until its broker tells, and what it stays when that is not waited for.
        self._carried[move.id] = Carried(move.id, said(move), UNKNOWN, "interrupted")
        began_s = time.monotonic()
        outcome: MoveOutcome | None
        silence: EnvironmentLack | None = None
        try:
            outcome, reason = self._carry(self._with_own_id(move, again))
        except EnvironmentLack as lack:
            outcome, reason, silence = MoveOutcome.REFUSED, str(lack), lack
        ended = UNKNOWN if outcome is None else outcome.value
        took_s = round(time.monotonic() - began_s, 3)
        self._carried[move.id] = Carried(move.id, said(move), ended, reason, took_s)
        if outcome in (MoveOutcome.REFUSED, MoveOutcome.ROLLED_BACK):
            self.undo.came_to_nothing(move)
        if silence is not None and not self._keep_going:
            raise silence
        if outcome is MoveOutcome.REFUSED and silence is None and not again:
            self._refused_at_s[move.id] = time.monotonic()
            self._asking.append(move)
        self._tell(len(self._carried))
        return outcome

    def _with_own_id(self, move: Move, again: bool) -> Move:
        """Brokers carry out an id once. A plan that was taken back may be applied again."""
        return msgspec.structs.replace(move, id=f"{move.id}-{self._occasion + again:x}")

    def stopped(self, problem: Exception) -> str:
        """What keeps it from going on, and how far it has come."""
        begun = len(self.undo.begun)
        if not begun:
            return f"{problem}; nothing was moved"
        done = self._done()
        unknown = f" and {begun - done} may have been" if begun > done else ""
        return f"{problem}; {done} moves were done{unknown}, {self.undo.path} takes them back"

    def applied(self, interrupted: bool) -> Applied:
        return Applied(
            self._plan.id,
            len(self._plan.moves),
            self._done(),
            tuple(self._carried[it.id] for it in self._plan.moves if it.id in self._carried),
            str(self.undo.path) if self.undo.begun else "",
            interrupted,
        )

    def _done(self) -> int:
        return sum(it.outcome == MoveOutcome.DONE.value for it in self._carried.values())
