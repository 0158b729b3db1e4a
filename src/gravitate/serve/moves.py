"""Moves at one broker as a node tells them: which are under way, how those that ended went.

Owns the record of each move that began at this broker, asked for from outside or proposed by a
mechanism, and who waits for its end. Carries nothing out: the broker does, and reports each step.

Invariants: a move that is under way is never forgotten; of those that ended the latest
`MOVES_REMEMBERED` are known; a move's id stands for one move.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import msgspec

from gravitate.model.moves import Move, MoveOutcome

MOVES_REMEMBERED: Final = 1000
REQUESTED: Final = "requested"
"""The step of a move that the broker has not looked at yet."""

_OUTCOMES: Final = {outcome.value: outcome for outcome in MoveOutcome}


class MoveRecord(msgspec.Struct, frozen=True):
    """One move. Times are seconds since 1970."""

    move: Move
    broker: str
    """Where it began."""
    step: str
    """Where it stands: a step of its protocol while it is under way, then its outcome."""
    began_at_s: float
    outcome: MoveOutcome | None = None
    """None while it is under way."""
    reason: str = ""
    """What kept it from being done."""
    ended_at_s: float | None = None


class MoveList(msgspec.Struct, frozen=True):
    """All that a broker knows of its moves, the latest last."""

    broker: str
    under_way: list[MoveRecord]
    ended: list[MoveRecord]


class MoveRegister:
    """The moves of one broker."""

    def __init__(self, broker_id: str) -> None:
        self._broker_id = broker_id
        self._under_way: dict[str, MoveRecord] = {}
        self._ended: dict[str, MoveRecord] = {}
        self._waiting: dict[str, asyncio.Event] = {}

    def get(self, move: str) -> MoveRecord | None:
        return self._under_way.get(move) or self._ended.get(move)

    def list(self) -> MoveList:
        return MoveList(self._broker_id, [*self._under_way.values()], [*self._ended.values()])

    def requested(self, move: Move, now: float) -> None:
        """Somebody outside has asked for the move."""
        assert self.get(move.id) is None, f"move {move.id!r} is known already"
        self._under_way[move.id] = MoveRecord(move, self._broker_id, REQUESTED, now)

    def stepped(self, move: Move, step: str, reason: str, now: float) -> None:
        """The broker tells how a move goes on."""
        record = self._under_way.get(move.id)
        began_at_s = now if record is None else record.began_at_s
        outcome = _OUTCOMES.get(step)
        if outcome is None:
            self._under_way[move.id] = MoveRecord(move, self._broker_id, step, began_at_s)
            return
        self._under_way.pop(move.id, None)
        # The latest last, also when an id is used again.
        self._ended.pop(move.id, None)
        self._ended[move.id] = MoveRecord(
            move, self._broker_id, step, began_at_s, outcome, reason, now
        )
        if len(self._ended) > MOVES_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        waiting = self._waiting.pop(move.id, None)
        if waiting is not None:
            waiting.set()

    async def ended(self, move: str, wait_s: float) -> MoveRecord | None:
        """The record of a move, once it has ended or `wait_s` have passed; None: not known."""
        if move in self._under_way and wait_s > 0:
            waiting = self._waiting.setdefault(move, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await waiting.wait()
        return self.get(move)
