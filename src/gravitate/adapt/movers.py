"""What mechanisms that move publishers have in common: whom they may trace, and what they do with
a target once they have one.

At a publisher's first broker: selections go through damping to a proposed move. When it is done,
a note runs along the path to the target: brokers on it drop what they have traced of the publisher
(its traffic comes from another side now), and the target learns the publisher's past, so that
damping goes on there. The same note is sent for moves that somebody else has asked for.

Owns messages in their bytes, the timer of everything that may take too long, and damping. Knows
neither how targets are found nor what is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from gravitate.adapt.damping import NO_PAST, Damping, DampingParameters, Past
from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.broker.observers import LinkChange
from gravitate.errors import InputError, PeerError
from gravitate.model.decoding import UNREADABLE
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher, moving_cost

SWEEP = "sweep"
FORGET = "forget"
FORGET_EVERY_S = 30.0
"""How often it is looked for publishers that are gone."""


class PublisherMoved(msgspec.Struct, frozen=True, tag="moved"):
    """The publisher is at the end of `path` now. Goes along it."""

    publisher: str
    path: tuple[str, ...]
    past: Past


_encode = msgspec.msgpack.Encoder().encode


class MoverSettings:
    """What the settings of all movers have in common. Each names the two fields itself, since a
    struct has one base with fields."""

    __slots__ = ()
    confirmations: int
    pause_s: float

    def damping(self) -> DampingParameters:
        return DampingParameters(self.confirmations, self.pause_s)

    def check(self, *times: str) -> None:
        """Refuse times that are not above 0, and what damping does not accept."""
        for name in times:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"{name} {value} is not accepted: write more than 0")
        self.damping()


class PublisherMover(Mechanism):
    """Base of mechanisms that move publishers."""

    messages: ClassVar[Any]
    """The union of this mechanism's messages, `PublisherMoved` among them."""

    post: Post

    def __init__(self, damping: DampingParameters) -> None:
        self._damping = damping
        self._damped: dict[str, Damping] = {}
        """Publishers of this broker about which something is remembered."""
        self._moving: set[str] = set()
        """Publishers that a move was proposed for."""
        self._moves = 0
        self._decode = msgspec.msgpack.Decoder(self.messages).decode
        self._sweep_at: float | None = None

    # What a mechanism fills in -------------------------------------------------------------

    def heard(self, peer: str, message: Any, now: float) -> None:
        """A message of `messages`, but for `PublisherMoved`."""

    def forget(self, publisher: str) -> None:
        """Drop everything traced of a publisher."""

    def lost(self, peer: str, now: float) -> None:
        """The link to `peer` has forgotten what was under way on it."""

    def expire(self, now: float) -> None:
        """Drop what has waited long enough."""

    def deadlines(self) -> Iterable[float | None]:
        """When `expire` will have something to do; None and nothing: never."""
        return ()

    def is_idle(self) -> bool:
        """Whether nothing is traced or under way."""
        return not self._moving

    # At the first broker -------------------------------------------------------------------

    def may_trace(self, publisher: str, now: float) -> bool:
        """Whether tracing the publisher could lead to a move."""
        damping = self._damped.get(publisher)
        return (
            publisher not in self._moving
            and (damping is None or not damping.is_resting(now))
            and self.post.may_move(publisher)
        )

    def selected(
        self,
        publisher: str,
        path: tuple[str, ...],
        why: Callable[[str], Rationale | None],
        now: float,
    ) -> None:
        """A selection has found the broker at the end of `path`, which is just this broker when
        the publisher should stay. `why` says what speaks for a broker on it; None: the publisher
        cannot go there. What going there costs is told here, alike for all."""
        damping = self._damped.get(publisher)
        if damping is None:
            if len(path) == 1:
                return
            damping = self._remember(publisher, NO_PAST, now)
        way = damping.selected(path, now)
        if not way:
            return
        here, target = self.post.broker_id, way[-1]
        reasons = why(target)
        if reasons is None:
            return
        self._moves += 1
        move = f"{self.name}-{here}-{now:.3f}-{self._moves}"
        self._moving.add(publisher)
        self.forget(publisher)
        priced = msgspec.structs.replace(reasons, cost=moving_cost(way))
        self.post.propose(RelocatePublisher(move, publisher, here, target, priced, way))

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        if not isinstance(move, RelocatePublisher):
            return
        publisher = move.publisher
        self._moving.discard(publisher)
        damping = self._damped.get(publisher)
        if outcome is not MoveOutcome.DONE:
            if damping is not None and self.post.may_move(publisher):
                damping.failed(now)
            else:
                self._damped.pop(publisher, None)
            return
        damping = damping or Damping(self._damping, NO_PAST, now)
        note = PublisherMoved(publisher, move.path, damping.left(broker, move.target))
        self._gone(publisher)
        self._pass_on(note)

    def on_session(self, broker: str, session: str, state: str, now: float) -> None:
        # A publisher under way has its session closed too, and its past is still needed.
        if state == "closed":
            self.forget(session)
            if session not in self._moving:
                self._gone(session)

    def _remember(self, publisher: str, past: Past, now: float) -> Damping:
        if not self._damped:
            self.post.set_timer(FORGET, now + FORGET_EVERY_S)
        damping = self._damped[publisher] = Damping(self._damping, past, now)
        return damping

    def _forget_those_gone(self, now: float) -> None:
        """Publishers that are not clients of this broker end without a session that is closed."""
        for publisher in [p for p in self._damped if p not in self._moving]:
            if not self.post.may_move(publisher):
                self._gone(publisher)
        if self._damped:
            self.post.set_timer(FORGET, now + FORGET_EVERY_S)

    def _gone(self, publisher: str) -> None:
        self.forget(publisher)
        self._damped.pop(publisher, None)

    # Along the path ------------------------------------------------------------------------

    def _moved(self, peer: str, note: PublisherMoved, now: float) -> None:
        here, path = self.post.broker_id, note.path
        if here not in path[1:] or path[path.index(here) - 1] != peer:
            raise PeerError("wrong-path", f"a note along {path} from {peer}")
        self.forget(note.publisher)
        if here != path[-1]:
            self._pass_on(note)
        elif self.post.may_move(note.publisher):
            self._remember(note.publisher, note.past, now)

    def _pass_on(self, note: PublisherMoved) -> None:
        place = note.path.index(self.post.broker_id)
        if place + 1 < len(note.path) and note.path[place + 1] in self.post.neighbours():
            self.send(note.path[place + 1], note)

    # Messages and time ---------------------------------------------------------------------

    def attach(self, post: Post, now: float) -> None:
        self.post = post

    def send(self, peer: str, message: msgspec.Struct) -> None:
        self.post.send(peer, _encode(message))

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        try:
            message = self._decode(body)
        except UNREADABLE as problem:
            raise PeerError("mechanism-message", f"{self.name} from {peer}: {problem}") from None
        if isinstance(message, PublisherMoved):
            self._moved(peer, message, now)
        else:
            self.heard(peer, message, now)

    def on_link(self, broker: str, peer: str, change: LinkChange, now: float) -> None:
        if change in (LinkChange.RESET, LinkChange.GIVEN_UP):
            self.lost(peer, now)

    def watch_time(self) -> None:
        """Call when something new may take too long: `expire` is then called in time."""
        known = [at for at in self.deadlines() if at is not None]
        if known and (self._sweep_at is None or min(known) < self._sweep_at):
            self._sweep_at = min(known)
            self.post.set_timer(SWEEP, self._sweep_at)

    def on_timer(self, key: str, now: float) -> None:
        if key == SWEEP:
            self._sweep_at = None
            self.expire(now)
            self.watch_time()
        elif key == FORGET:
            self._forget_those_gone(now)
