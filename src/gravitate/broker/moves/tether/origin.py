"""Tethers at their origin: a client stays connected here and is attached, or served, elsewhere.

A client that cannot be told to reconnect, or that both publishes and subscribes, is moved by its
broker (the *origin*) in its stead: as a publisher (`publisher`), as a subscriber (`subscriber`), or
as both, each by a tether of its own. The origin follows a move as a client would:

    ATTACHED --redirected, link up--> PAUSED --sent away--> ATTACHING --attached--> ATTACHED
       |                                |                       |
       '-- lost: home                   '-- stay: ATTACHED      '-- late, refused: back, or home

It can always take the client home; how, is where the two kinds differ.

Owns where each of this broker's clients is, and which links that needs. Does not know what is
handed over, nor what the other end does (`remote`).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from gravitate.broker.interface.effects import MOVED, TAKEN_OVER
from gravitate.broker.interface.timers import TetherLate
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.messages import tether as t
from gravitate.broker.moves.tether.remote import Remote
from gravitate.errors import PeerError
from gravitate.model.machines import Machine, Row, rows

ARRIVE_S_MAX: Final = 10.0
"""How long attaching a client elsewhere may take; less than its former broker waits. And how long
an advertisement is waited for that is to end."""


class State(enum.Enum):
    ATTACHED = "attached"
    PAUSED = "paused"
    ATTACHING = "attaching"
    WITHDRAWN = "withdrawn"
    """What a publisher advertised where it was is to end, before it goes on at home."""
    UNHEARD = "unheard"
    """The same, and not all of it has been heard of yet."""
    RECALLING = "recalling"
    """What a subscriber has had where it was is to be known, before it goes on at home."""
    ENDED = "ended"


THERE: Final = (State.ATTACHED, State.PAUSED)
TETHER: Final = Machine(
    "tether",
    State,
    [
        Row(None, "its client is to be moved", State.ATTACHED),
        Row(State.ATTACHED, "redirected, and the link is up", State.PAUSED, "say paused"),
        Row(State.PAUSED, "stay", State.ATTACHED, "go on"),
        Row(State.PAUSED, "closed: moved", State.ATTACHING, "attach there"),
        Row(State.ATTACHING, "attached", State.ATTACHED, "go on"),
        Row(State.ATTACHING, "refused, late, lost", State.ATTACHING, "go back, or home"),
        *rows(THERE, "publisher: lost", State.ATTACHING, "go home"),
        *rows(THERE, "publisher: the other broker stops", State.WITHDRAWN),
        *rows(THERE, "publisher: it stops unsettled", State.UNHEARD),
        Row(State.WITHDRAWN, "all that it advertised has ended", State.ATTACHING, "go home"),
        Row(State.UNHEARD, "heard and ended, or late", State.ATTACHING, "go home"),
        *rows(THERE, "subscriber: lost, closed", State.RECALLING, "recall"),
        Row(State.ATTACHING, "subscriber: there is no way back", State.RECALLING, "recall"),
        Row(State.RECALLING, "it is known what it has had", State.ATTACHING, "attach here"),
        *rows(list(State)[:-1], "its client is gone, and all is taken", State.ENDED, "let go"),
    ],
    ends=[State.ENDED],
)

HOMEWARD: Final = (State.WITHDRAWN, State.UNHEARD, State.RECALLING)
"""Where it was has nothing more to say."""


@dataclass(eq=False)
class Tether(ABC):
    """One client of this broker, as a publisher or as a subscriber."""

    kind: Kind
    client: str
    incarnation: int
    attachment: int
    former: str | None = None
    """Where it goes back to when that does not succeed."""
    destination: str | None = None
    """Where it has been told to go."""

    def __post_init__(self) -> None:
        self.number = next(self.kind.tethers.numbers)
        self.state = TETHER.enter(None, State.ATTACHED)
        self.place = self.source = self.here = self.kind.tethers.remote.context.broker_id
        """Where it is attached, or is being attached, and where it last was: here for now."""

    def enter(self, state: State) -> None:
        self.state = TETHER.enter(self.state, state)

    def places(self) -> set[str]:
        """Brokers that it is at, goes to, or may go back to."""
        return {peer for peer in (self.place, self.former, self.destination) if peer is not None}

    @abstractmethod
    def role(self, was: tuple[str, ...], lost: str | None) -> t.Publishing | t.Serving:
        """What it is to be attached as; see `Publishing`."""

    def arrive(self) -> None:
        """It is attached to its place."""
        self.source = self.place

    def may_move(self) -> bool:
        return True

    def is_lost_by(self, peer: str, message: t.TetherClosed) -> bool:
        """Whether something is lost that the client should have had, wherever it goes on."""
        return False


class Kind(Protocol):
    """What a tether does as a publisher's, or as a subscriber's."""

    tethers: Tethers

    def on_attaching(self, tether: Any, move: str | None) -> None:
        """It was sent elsewhere by a move, or (None) cannot stay where it is."""

    def go_on(self, tether: Any) -> None:
        """Nothing need wait any more."""

    def go_home(self, tether: Any, lost: str | None) -> None:
        """It cannot stay where it is, nor go back; `lost`: where it was, if out of reach."""

    def on_said(self, tether: Any, message: t.TetherSettled | t.TetherHold) -> None: ...

    def on_closed(self, tether: Any, reason: str) -> None:
        """It is not attached any more, and was not sent elsewhere."""


@dataclass(eq=False)
class Tethers:
    """The tethers of this broker's clients."""

    remote: Remote
    links: TetherLinks
    close_session: Callable[[str, str], None]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _by_number: dict[int, Tether] = field(default_factory=dict)
    _at: dict[str, dict[int, Tether]] = field(default_factory=dict)
    """By the brokers that they are at, go to, or may go back to."""

    def get(self, number: int) -> Tether | None:
        return self._by_number.get(number)

    def needs(self, peer: str) -> bool:
        return peer in self._at

    # Where they are ------------------------------------------------------------------------

    def add(self, tether: Tether) -> None:
        self._by_number[tether.number] = tether
        self._index(tether, set(), tether.places())

    def end(self, tether: Tether) -> None:
        tether.enter(State.ENDED)
        del self._by_number[tether.number]
        self._index(tether, tether.places(), set())

    def put(
        self, tether: Tether, place: str, former: str | None = None, destination: str | None = None
    ) -> None:
        """A tether is at a place; links that it needs no more are let go."""
        former_places = tether.places()
        tether.place, tether.former, tether.destination = place, former, destination
        self._index(tether, former_places, tether.places())

    def _index(self, tether: Tether, before: set[str], after: set[str]) -> None:
        for peer in after - before:
            self._at.setdefault(peer, {})[tether.number] = tether
        for peer in sorted(before - after):
            del self._at[peer][tether.number]
            if not self._at[peer]:
                del self._at[peer]
            self.links.review(peer)

    def _named(self, peer: str) -> list[Tether]:
        return list(self._at.get(peer, {}).values())

    # What is said --------------------------------------------------------------------------

    def say(self, broker: str, message: t.FromOrigin | t.HandedOver) -> None:
        if broker != self.remote.context.broker_id:
            self.links.want(broker)
        self.remote.tell(broker, message)

    def attach(
        self,
        tether: Tether,
        place: str,
        former: str | None = None,
        lost: str | None = None,
        move: str | None = None,
    ) -> None:
        was = tuple(dict.fromkeys((tether.source, tether.place)))
        tether.enter(State.ATTACHING)
        tether.attachment += 1
        tether.kind.on_attaching(tether, move)
        self.put(tether, place, former)
        if place != tether.here:
            self.wait(tether)
        self.say_attach(tether, was, lost)

    def wait(self, tether: Tether) -> None:
        context = self.remote.context
        context.set_timer(TetherLate(tether.number), context.now + ARRIVE_S_MAX)

    def say_attach(
        self, tether: Tether, was: tuple[str, ...] = (), lost: str | None = None
    ) -> None:
        about = (tether.number, tether.attachment, tether.client, tether.incarnation)
        self.say(tether.place, t.TetherAttach(*about, tether.role(was, lost)))

    def _pause(self, tether: Tether) -> None:
        tether.enter(State.PAUSED)
        self.say(tether.place, t.TetherPaused(tether.number, tether.attachment))

    def _go_on(self, tether: Tether) -> None:
        tether.enter(State.ATTACHED)
        tether.kind.go_on(tether)

    def _go_back(self, tether: Tether) -> None:
        """It could not be attached where it was to go."""
        former, target = tether.former, tether.place
        if self.links.is_up(target):
            self.say(target, t.TetherDetach(tether.number, tether.attachment))
        if former is not None and self.links.is_up(former):
            self.attach(tether, former)
        else:
            tether.kind.go_home(tether, former)

    # What the broker it is attached to says ------------------------------------------------

    def handle(self, peer: str, message: t.ToOrigin) -> None:
        tether = self._by_number.get(message.number)
        if tether is None:
            return
        if isinstance(message, t.TetherClosed) and tether.is_lost_by(peer, message):
            self.close_session(tether.client, message.reason)
            return
        is_current = (tether.place, tether.attachment) == (peer, message.attachment)
        if not is_current or tether.state in HOMEWARD:
            return  # of where it was before
        match message:
            case t.TetherAttached():
                if tether.state is State.ATTACHING:
                    tether.arrive()
                    self.put(tether, tether.place)
                    self._go_on(tether)
            case t.TetherSettled() | t.TetherHold():
                tether.kind.on_said(tether, message)
            case t.TetherRedirect(target=None):
                self.put(tether, tether.place, tether.former)
                if tether.state is State.PAUSED:
                    self._go_on(tether)
            case t.TetherRedirect(target=str() as target):
                self._redirected(tether, target)
            case t.TetherClosed():
                self._closed(tether, message)

    def _redirected(self, tether: Tether, target: str) -> None:
        if tether.state is State.ATTACHED and tether.may_move() and target != tether.place:
            self.put(tether, tether.place, destination=target)
            if target != tether.here:
                self.links.want(target)
            if self.links.is_up(target):
                self._pause(tether)

    def _closed(self, tether: Tether, message: t.TetherClosed) -> None:
        if message.reason == MOVED and tether.state is State.PAUSED:
            if message.target is None:
                raise PeerError("wrong-target", f"{tether.client!r} is sent nowhere")
            self.attach(tether, message.target, tether.place, move=message.move)
        elif tether.state is State.ATTACHING and message.reason != TAKEN_OVER:
            self._go_back(tether)
        else:
            tether.kind.on_closed(tether, message.reason)

    # What becomes of links -----------------------------------------------------------------

    def link_up(self, peer: str) -> None:
        """A link can be used: who waits for it to go there pauses."""
        for tether in self._named(peer):
            if tether.destination == peer and tether.state is State.ATTACHED:
                self._pause(tether)

    def link_reset(self, peer: str) -> None:
        """A link starts anew: the broker there has forgotten what was attached to it."""
        for tether in self._named(peer):
            if tether.place != peer or tether.state in HOMEWARD:
                continue
            if tether.state is State.ATTACHING:
                self.say_attach(tether)  # to one that has forgotten, so it is not waited for
            else:
                tether.kind.go_home(tether, None)

    def link_lost(self, peer: str) -> None:
        for tether in self._named(peer):
            if tether.destination == peer:
                self.put(tether, tether.place, tether.former)
            if tether.place != peer or tether.state in HOMEWARD:
                continue
            if tether.state is State.ATTACHING:
                self._go_back(tether)
            else:
                tether.kind.go_home(tether, peer)

    def late(self, number: int) -> None:
        """A client should have been attached by now, or what it waits for have happened."""
        tether = self._by_number.get(number)
        if tether is None:
            return
        if tether.state is State.ATTACHING and tether.place != tether.here:
            self._go_back(tether)
        elif tether.state is State.UNHEARD:
            tether.kind.go_home(tether, None)
