"""One engine for all moves: what a kind of move does is a table, how it is done stands here once.

A *run* is a part being played (`table`): for a move that this broker leads, or for one that
somebody else does. Its *player* has the actions and guards that the rows name. An event without a
row is not for that run. An action is taken after its state was entered, or the end told.

Owns the runs, by move and by *subject*: what the move is about, one life of it, so that what
happens to a later one of the same name is not its concern. Owns their timers, and the end of a
move: everybody on its path lets go, observers and watchers are told. Does not know what is moved.

Invariants: a subject has at most one run here, and a move too; every run ends once; asking whether
a move may begin takes nothing; a state without patience is past the point of no return, and this
broker does not stop before it is left.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec

from gravitate.broker.context import Context
from gravitate.broker.interface.timers import MoveLate
from gravitate.broker.links.seek import Seek
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.table import LEASE, On, Part, Row
from gravitate.model.moves import Move, MoveOutcome

MoveWatcher = Callable[[Move, str, str, float], None]
"""Told of each step of a move, at its end of the outcome and why it was not done; and when."""


class Leader(Protocol):
    """What leads a kind of move along its path; also the player of that part."""

    def objection(self, move: Any) -> str:
        """Why the move cannot begin; empty when it can."""

    def begin(self, move: Any) -> tuple[Hashable, str]:
        """Make ready for a move that nothing objects to: its subject, and the broker that the
        client stays connected to, if it does."""


@dataclass(slots=True, eq=False)
class Run:
    """One part in one move. `move` is None where somebody else leads it; `data` is the player's,
    of a leader where the client stays connected."""

    part: Part
    player: object
    id: str
    subject: Any
    data: Any
    state: enum.Enum
    move: Any = None
    since: float = 0.0
    """When it came to be in this state."""
    until: float = 0.0
    """When its lease ends."""
    heard: set[enum.Enum] = field(default_factory=set)
    """What it has been told in this state without leaving it."""
    why: str = ""
    """Of its end."""

    def due(self) -> float | None:
        """When it will have waited too long."""
        patience_s = self.part.waits[self.state].patience_s
        if patience_s is None:
            return None
        return self.until if patience_s == LEASE else self.since + patience_s


@dataclass(eq=False)
class Engine:
    _context: Context
    _paths: MovePaths
    _seek: Seek
    _leaders: dict[type, tuple[Part, Leader]] = field(default_factory=dict)
    _by_move: dict[str, Run] = field(default_factory=dict)
    _by_subject: dict[Hashable, Run] = field(default_factory=dict)
    watchers: list[MoveWatcher] = field(default_factory=list)
    stopping: bool = False

    def lead(self, kind: type, part: Part, leader: Leader) -> None:
        self._leaders[kind] = (part, leader)

    # Beginning -----------------------------------------------------------------------------

    def propose(self, move: Any) -> None:
        """Carry out a move; its end is told to observers and watchers."""
        objection = self._objection(move)
        if objection:
            self._tell_end(move, MoveOutcome.REFUSED, objection)
            return
        part, leader = self._leaders[type(move)]
        run = Run(part, leader, move.id, *leader.begin(move), part.first, move)
        self._add(run)
        if move.path:
            self._begin(run, move.path)
        else:
            self._enter(run, part.first)
            self._seek(move.target, partial(self._begin, run))

    def _begin(self, run: Run, path: tuple[str, ...] | None) -> None:
        """The way is known, if there is one; the run may be over."""
        if path is None:
            self.take(run, On.REFUSED, f"no way to {run.move.target} is known")
            return
        run.move = msgspec.structs.replace(run.move, path=path)
        objection = self._paths.objection(run.move)
        if objection:
            self.take(run, On.REFUSED, objection)
        elif self.take(run, On.WAY_FOUND):
            self._paths.ask(run.move, run.part.lease_s, run.data)

    def _objection(self, move: Any) -> str:
        if self.stopping:
            return f"{self._context.broker_id} is stopping"
        if type(move) not in self._leaders:
            return "brokers do not carry out this kind of move"
        if move.id in self._by_move:
            return f"a move {move.id!r} is under way already"
        objection = self._leaders[type(move)][1].objection(move)
        return objection or (self._paths.objection(move) if move.path else "")

    def join(
        self, part: Part, player: object, move: str, subject: Hashable, data: Any, lease_s: float
    ) -> Run:
        """Play a part in a move that somebody else leads, or nobody; `subject` None: of nobody."""
        run = Run(part, player, move, subject, data, part.first)
        run.until = self._context.now + lease_s
        self._add(run)
        self._enter(run, part.first)
        return run

    def _add(self, run: Run) -> None:
        assert run.id not in self._by_move, f"{run.id} is under way"
        self._by_move[run.id] = run
        if run.subject is not None:
            assert run.subject not in self._by_subject, f"{run.subject} is on the move"
            self._by_subject[run.subject] = run

    # What happens --------------------------------------------------------------------------

    def tell(self, move: str, event: enum.Enum, why: str = "", about: Any = None) -> bool:
        """Whether it was something to the run of a move; see `take`."""
        run = self._by_move.get(move)
        return run is not None and self.take(run, event, why, about)

    def tell_subject(self, subject: Hashable, event: enum.Enum, why: str = "") -> bool:
        """Whether it was something to the run of a subject; see `take`."""
        run = self._by_subject.get(subject)
        return run is not None and self.take(run, event, why)

    def take(self, run: Run, event: enum.Enum, why: str = "", about: Any = None) -> bool:
        """Whether it was something to a run. `why` is told if it ends, `about` to what is done."""
        for row in run.part.upon(run.state, event):
            if not row.when or getattr(run.player, row.when)(run, about):
                self._go(run, row, why)
                if row.do:
                    getattr(run.player, row.do)(run, about)
                return True
        return False

    def _go(self, run: Run, row: Row, why: str) -> None:
        if row.to is run.state:
            run.heard.add(row.event)
        elif row.to in run.part.waits:
            self._enter(run, row.to)
        else:
            self._end(run, row.to, why or row.why)

    def _enter(self, run: Run, state: enum.Enum) -> None:
        run.state, run.since, run.heard = state, self._context.now, set()
        self._set_timer(run)
        if run.move is not None:
            self._tell_watchers(run.move, state.value)

    def _end(self, run: Run, end: enum.Enum, why: str) -> None:
        is_asked = run.move is not None and run.state is not run.part.first
        run.state, run.why = end, why
        del self._by_move[run.id]
        if run.subject is not None:
            del self._by_subject[run.subject]
        if is_asked:
            self._paths.end(run.move)
        if run.move is not None:
            self._tell_end(run.move, MoveOutcome(end.value), why)

    def _tell_end(self, move: Any, outcome: MoveOutcome, why: str) -> None:
        self._tell_watchers(move, outcome.value, why)
        context = self._context
        for observer in context.observers:
            observer.on_move(context.broker_id, move, outcome, context.now)

    def _tell_watchers(self, move: Any, step: str, why: str = "") -> None:
        for watcher in self.watchers:
            watcher(move, step, why, self._context.now)

    # Time, links, the end ------------------------------------------------------------------

    def _set_timer(self, run: Run) -> None:
        due, again = run.due(), run.part.waits[run.state].again
        times = [] if due is None else [due]
        if again is not None:
            times.append(self._context.now + again[0])
        if times:
            self._context.set_timer(MoveLate(run.id), min(times))

    def on_timer(self, move: str) -> None:
        """A state has lasted long, or too long."""
        run = self._by_move.get(move)
        if run is None:
            return
        wait, due = run.part.waits[run.state], run.due()
        if due is not None and due <= self._context.now:
            self.take(run, On.LATE, f"{wait.waits_for} within {due - run.since:g} s")
            return
        if wait.again is not None:
            getattr(run.player, wait.again[1])(run, None)
        self._set_timer(run)

    def on_link_lost(self, peer: str) -> None:
        for run in list(self._by_move.values()):
            if run.move is not None and run.move.path[1:2] == (peer,):
                self.take(run, On.LINK_LOST, f"the link to {peer} was lost")

    def stop(self) -> None:
        """This broker is about to stop: nobody is waited for any more."""
        self.stopping = True
        for run in list(self._by_move.values()):
            self.take(run, On.STOPPING, f"{self._context.broker_id} is stopping")

    def may_stop(self) -> bool:
        """Whether no run is past its point of no return."""
        return all(run.due() is not None for run in self._by_move.values())

    # Who asks ------------------------------------------------------------------------------

    def run(self, move: str) -> Run | None:
        return self._by_move.get(move)

    def run_of(self, subject: Hashable) -> Run | None:
        """What something is on the move by; a later life of it is not."""
        return self._by_subject.get(subject)

    def under_way(self, *parts: Part) -> Iterator[Run]:
        """All runs, or those of some parts, in the order in which they began."""
        return (run for run in self._by_move.values() if not parts or run.part in parts)
