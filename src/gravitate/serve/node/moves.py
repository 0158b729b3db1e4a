"""Moves at one broker as a node tells them: which are under way, how those that ended went.

Owns the record of each move that began at this broker, asked for from outside or proposed by a
mechanism, and who waits for its end. Carries nothing out: the broker does, and reports each step.

Moves that ended are kept in the bytes they are told in: their size is known, where what they are
read into may take ten times as much, and to tell them is to copy them.

Invariants: a move that is under way is never forgotten; of those that ended the latest are known,
at most `MOVES_REMEMBERED` and `ENDED_BYTES_MAX`; a move's id stands for one move; a position is
given once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

import msgspec

from gravitate.model.moves import Move, MoveOutcome

MOVES_REMEMBERED: Final = 1000
ENDED_BYTES_MAX: Final = 4 * 1024 * 1024
UNDER_WAY_BYTES_MAX: Final = 1024 * 1024
"""With this much under way no more moves are taken from outside; mechanisms go on."""
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
    """A page of what a broker knows of its moves, the latest last."""

    broker: str
    under_way: list[MoveRecord]
    ended: list[MoveRecord]
    next: str | None = None
    """The page with those before these; None when there are none."""


class Position(NamedTuple):
    """A place in the list of moves: those that ended, then those under way, each in order."""

    under_way: bool
    number: int


class _UnderWay(NamedTuple):
    number: int
    record: MoveRecord
    size: int


class _Ended(NamedTuple):
    number: int
    encoded: bytes


class MoveRegister:
    """The moves of one broker."""

    def __init__(self, broker_id: str) -> None:
        self.broker_id = broker_id
        self.bytes_under_way = 0
        self.bytes_ended = 0
        self._under_way: dict[str, _UnderWay] = {}
        self._ended: dict[str, _Ended] = {}
        self._waiting: dict[str, asyncio.Future[MoveRecord]] = {}
        self._numbers = count(1)

    def get(self, move: str) -> MoveRecord | None:
        if move in self._under_way:
            return self._under_way[move].record
        if move in self._ended:
            return msgspec.json.decode(self._ended[move].encoded, type=MoveRecord)
        return None

    def backwards(self, before: Position | None = None) -> Iterator[tuple[Position, msgspec.Raw]]:
        """All moves, or those before a position, as they are told, the latest first.

        A move that ends while somebody reads on comes among those that ended, so it may be read
        twice and is missed never."""
        for entry in reversed(self._under_way.values()):
            position = Position(True, entry.number)
            if before is None or position < before:
                yield position, msgspec.Raw(msgspec.json.encode(entry.record))
        for ended in reversed(self._ended.values()):
            position = Position(False, ended.number)
            if before is None or position < before:
                yield position, msgspec.Raw(ended.encoded)

    def requested(self, move: Move, now: float) -> bool:
        """Somebody outside has asked for the move; False when it is too much for now."""
        assert self.get(move.id) is None, f"move {move.id!r} is known already"
        size = encoded_size(move)
        if self.bytes_under_way + size > UNDER_WAY_BYTES_MAX:
            return False
        self._begin(MoveRecord(move, self.broker_id, REQUESTED, now), size)
        return True

    def stepped(self, move: Move, step: str, reason: str, now: float) -> None:
        """The broker tells how a move goes on."""
        entry = self._under_way.get(move.id)
        began_at_s = now if entry is None else entry.record.began_at_s
        outcome = _OUTCOMES.get(step)
        record = MoveRecord(move, self.broker_id, step, began_at_s)
        if outcome is not None:
            self._end(
                msgspec.structs.replace(record, outcome=outcome, reason=reason, ended_at_s=now)
            )
        elif entry is None:
            self._begin(record, encoded_size(move))
        else:
            self._under_way[move.id] = entry._replace(record=record)

    def _begin(self, record: MoveRecord, size: int) -> None:
        self._under_way[record.move.id] = _UnderWay(next(self._numbers), record, size)
        self.bytes_under_way += size

    def _end(self, record: MoveRecord) -> None:
        id = record.move.id
        entry = self._under_way.pop(id, None)
        if entry is not None:
            self.bytes_under_way -= entry.size
        # The latest last, also when an id is used again.
        self._forget(id)
        self._ended[id] = _Ended(next(self._numbers), msgspec.json.encode(record))
        self.bytes_ended += len(self._ended[id].encoded)
        while len(self._ended) > MOVES_REMEMBERED or self.bytes_ended > ENDED_BYTES_MAX:
            self._forget(next(iter(self._ended)))
        # Who waits is given the record: it may be forgotten before they are awake.
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            waiting.set_result(record)

    def _forget(self, id: str) -> None:
        entry = self._ended.pop(id, None)
        if entry is not None:
            self.bytes_ended -= len(entry.encoded)

    async def ended(self, move: str, wait_s: float) -> MoveRecord | None:
        """The record of a move, once it has ended or `wait_s` have passed; None: not known."""
        if move in self._under_way and wait_s > 0:
            if move not in self._waiting:
                self._waiting[move] = asyncio.get_running_loop().create_future()
            waiting = self._waiting[move]
            await asyncio.wait([waiting], timeout=wait_s)
            if waiting.done():
                return waiting.result()
        return self.get(move)


def encoded_size(move: Move) -> int:
    """Bytes of a move as it is told."""
    return len(msgspec.json.encode(move))
