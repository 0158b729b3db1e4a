"""The moves of a plan, carried out side by side, and what became of each.

Owns their order, how many are under way at once, when it is given up, and that whatever ends it
leaves the way back (`undo_plan`). Who carries a move out is the caller's business: each is asked
for in a thread of its own, and nothing else happens there.

A move that its broker refuses may be possible a moment later. One that was in the way of another
(a lock on its path) is asked for again, so many times, after those that have not been asked for
yet; with `keep_going` one that was refused for other reasons too, once: a client that has just come
is still arriving, what it subscribes to is not settled yet.

Invariants: moves begin in the order of the plan, and no two of one client are under way at once.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gravitate.config.plan import Plan
from gravitate.errors import EnvironmentLack, FileError, GravitateError
from gravitate.model.moves import LOCKED, ClientMove, Move, MoveOutcome, client_of, described
from gravitate.operate.undo_plan import UndoPlan

SKIPPED: Final = "skipped"
UNKNOWN: Final = "unknown"
AT_ONCE: Final = 8
ASK_AGAIN_S: Final = 2.0
"""How long after a refusal a move is asked for again, at the soonest."""
LOCKED_MAX: Final = 10
"""How often a move is asked for that finds a lock on its path each time."""

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


class _Answer(NamedTuple):
    move: Move
    outcome: MoveOutcome | None
    reason: str
    took_s: float
    error: Exception | None = None
    """What was raised; an `EnvironmentLack`: its broker could not be asked."""


def carried_out(
    plan: Plan,
    carry: Carry,
    undo_file: Path,
    keep_going: bool = False,
    skipped: Mapping[str, str] | None = None,
    tell: Callable[[float], None] = lambda done: None,
    at_once: int = AT_ONCE,
) -> Applied:
    """Carry the moves out, so many `at_once`; at any time, the plan in `undo_file` takes back all
    that were or may have been done. Ctrl-C ends it, and moves under way are not waited for."""
    run = _Run(plan, carry, undo_file, keep_going, skipped or {}, tell, at_once)
    interrupted = False
    try:
        run.all()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        run.undo.close()
    if isinstance(run.problem, FileError):
        raise FileError(run.stopped(run.problem)) from None
    if run.problem is not None:
        raise EnvironmentLack(run.stopped(run.problem)) from None
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
        at_once: int,
    ) -> None:
        self._plan = plan
        self._carry = carry
        self._keep_going = keep_going
        self._tell = tell
        self._at_once = at_once
        self._carried = {
            move.id: Carried(move.id, described(move), SKIPPED, skipped[move.id])
            for move in plan.moves
            if move.id in skipped
        }
        self._asking = [move for move in plan.moves if move.id not in skipped]
        """Grows by those that are asked for again."""
        self._next = 0
        self._tries: dict[str, int] = {}
        self._due_s: dict[str, float] = {}
        """When those that are asked for again may be."""
        self._under_way: dict[str, Move] = {}
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._goes_on = True
        self._occasion = time.time_ns() // 1_000_000
        self.problem: GravitateError | None = None
        """What keeps it from going on."""
        self.undo = UndoPlan(plan, undo_file, self._asking)

    def all(self) -> None:
        """Until all have ended, or those that had begun when one stood in the way of the others."""
        while self._under_way or (self._goes_on and self._next < len(self._asking)):
            pause_s = self._pause_s()
            if pause_s == 0.0:
                self._begin(self._asking[self._next])
                continue
            try:
                self._ended(self._answers.get(timeout=pause_s))
            except queue.Empty:
                pass

    def _pause_s(self) -> float | None:
        """How long until the next move may begin; None: not before one has ended."""
        if not self._goes_on or self._next == len(self._asking):
            return None
        move = self._asking[self._next]
        if len(self._under_way) >= self._at_once or self._is_busy(move):
            return None
        return max(0.0, self._due_s.get(move.id, 0.0) - time.monotonic())

    def _is_busy(self, move: Move) -> bool:
        """Whether another move of its client is under way."""
        return isinstance(move, ClientMove) and any(
            isinstance(it, ClientMove) and client_of(it) == client_of(move)
            for it in self._under_way.values()
        )

    def _begin(self, move: Move) -> None:
        try:
            self.undo.before_asking(move)
        except FileError as problem:
            self._give_up(problem)
            return
        self._next += 1
        self._under_way[move.id] = move
        # What it is until its broker tells, and what it stays when that is not waited for.
        self._carried[move.id] = Carried(move.id, described(move), UNKNOWN, "interrupted")
        own = self._with_own_id(move)
        self._tries[move.id] = self._tries.get(move.id, 0) + 1
        threading.Thread(target=self._ask, args=(move, own), daemon=True).start()

    def _ask(self, move: Move, own: Move) -> None:
        """In a thread of its own."""
        began_s = time.monotonic()
        outcome: MoveOutcome | None
        error: Exception | None = None
        try:
            outcome, reason = self._carry(own)
        except Exception as raised:
            outcome, reason, error = MoveOutcome.REFUSED, str(raised), raised
        took_s = round(time.monotonic() - began_s, 3)
        self._answers.put(_Answer(move, outcome, reason, took_s, error))

    def _ended(self, answer: _Answer) -> None:
        move, outcome, reason, took_s, error = answer
        if error is not None and not isinstance(error, EnvironmentLack):
            raise error
        del self._under_way[move.id]
        ended = UNKNOWN if outcome is None else outcome.value
        self._carried[move.id] = Carried(move.id, described(move), ended, reason, took_s)
        if outcome in (MoveOutcome.REFUSED, MoveOutcome.ROLLED_BACK):
            self.undo.came_to_nothing(move)
        if outcome is MoveOutcome.REFUSED and error is None and self._may_try_again(answer):
            self._due_s[move.id] = time.monotonic() + ASK_AGAIN_S
            self._asking.append(move)
        elif outcome is not MoveOutcome.DONE and not self._keep_going:
            self._give_up(error)
        self._tell(len(self._carried) - len(self._under_way))

    def _may_try_again(self, answer: _Answer) -> bool:
        tries = self._tries[answer.move.id]
        return tries < LOCKED_MAX if LOCKED in answer.reason else self._keep_going and tries == 1

    def _give_up(self, problem: GravitateError | None) -> None:
        self._goes_on = False
        self.problem = self.problem or problem

    def _with_own_id(self, move: Move) -> Move:
        """Brokers carry out an id once. A plan that was taken back may be applied again."""
        tries = self._tries.get(move.id, 0)
        return msgspec.structs.replace(move, id=f"{move.id}-{self._occasion + tries:x}")

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
