"""Mechanisms: what watches the traffic through a broker and proposes moves.

A mechanism is an observer with messages, timers and proposals of its own. It sees everything
that happens at its broker, not samples of it, and acts only through its `Post`. The protocols
that carry moves out belong to the broker; what decides on them lives in `adapt/`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import PingBrokers, Tell
from gravitate.broker.interface.inputs import BrokersPinged
from gravitate.broker.interface.timers import MechanismTimer
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.frames import Control, MechanismMessage
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.relocation import Relocations
from gravitate.broker.observers import Observer
from gravitate.broker.sessions.clients import Clients, Session
from gravitate.model.moves import Move


class Mechanism(Observer):
    """Base of all mechanisms: override what you need."""

    name: ClassVar[str]

    def attach(self, post: Post, now: float) -> None:
        """Called once, when the broker starts."""

    def is_idle(self) -> bool:
        """Whether nothing is under way; true of every mechanism some time after its traffic."""
        return True

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        """A message from the same mechanism at a neighbour."""

    def on_timer(self, key: str, now: float) -> None:
        """A timer of this mechanism."""

    def on_pinged(self, publisher: str, round_trips_s: dict[str, float], now: float) -> None:
        """The answer to `ping`; brokers that the publisher had no answer from are missing."""


@dataclass(eq=False)
class Posts:
    """All mechanisms of a broker by name, and what they stand on."""

    context: Context
    _mechanisms: Mapping[str, Mechanism]
    links: LinkTable
    clients: Clients
    engine: Engine
    relocations: Relocations
    send: Callable[[str, Control], None]
    tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def attach(self) -> None:
        for mechanism in self._mechanisms.values():
            mechanism.attach(Post(self, mechanism), self.context.now)

    def handle(self, peer: str, message: MechanismMessage) -> None:
        receiver = self._mechanisms.get(message.mechanism)
        if receiver is not None:
            receiver.on_message(peer, bytes(message.body), self.context.now)

    def on_timer(self, timer: MechanismTimer) -> None:
        self._mechanisms[timer.mechanism].on_timer(timer.key, self.context.now)

    def pinged(self, session: Session, answer: BrokersPinged) -> None:
        """A client has measured; what it was not asked for, or no time, is left out."""
        for name, asked in session.pings.items():
            if asked.token == answer.token:
                del session.pings[name]
                known = {
                    broker: answer.round_trips_s[broker]
                    for broker in asked.brokers
                    if 0 <= answer.round_trips_s.get(broker, math.nan) < math.inf
                }
                self._mechanisms[name].on_pinged(session.id, known, self.context.now)
                return


class Post:
    """A mechanism's place at its broker."""

    def __init__(self, posts: Posts, mechanism: Mechanism) -> None:
        self._posts = posts
        self._mechanism = mechanism
        self.broker_id = posts.context.broker_id

    def neighbours(self) -> list[str]:
        """Brokers with a primary link to this one, sorted."""
        return self._posts.links.neighbours()

    def rtt_s(self, peer: str) -> float:
        """Round-trip time to a neighbour as heartbeats have it, smoothed; 0 while unknown."""
        return self._posts.links[peer].rtt_s

    def may_move(self, publisher: str) -> bool:
        """Whether a client of this broker could be relocated if it were asked to now."""
        return self._posts.relocations.attached(publisher) is not None

    def ping(self, publisher: str, brokers: Sequence[str]) -> None:
        """Ask a publisher of this broker how far `brokers` are from it; `on_pinged` has the
        answer. One that cannot measure, or would stay connected where it is, answers at once, and
        with nothing. One that leaves or is silent does not answer: what was asked is kept with the
        session and ends with it. A later request of the same mechanism for the same publisher takes
        the place of an earlier one."""
        posts, mechanism = self._posts, self._mechanism
        session = posts.clients.sessions.get(publisher)
        if session is None or session.inbound.place is not None or session.stays():
            mechanism.on_pinged(publisher, {}, posts.context.now)
            return
        asked = PingBrokers(tuple(brokers), next(posts.tokens))
        session.pings[mechanism.name] = asked
        posts.context.emit(Tell(session.connection, asked))

    def send(self, peer: str, body: bytes) -> None:
        """A message to the same mechanism at a neighbour; arrives once and in order, unless the
        link is reset or given up meanwhile, which is observed as `on_link`."""
        context, name = self._posts.context, self._mechanism.name
        self._posts.send(peer, MechanismMessage(name, body))
        for observer in context.observers:
            observer.on_mechanism_sent(context.broker_id, peer, name, len(body), context.now)

    def set_timer(self, key: str, at: float) -> None:
        self._posts.context.set_timer(MechanismTimer(self._mechanism.name, key), at)

    def propose(self, move: Move) -> None:
        """Ask the broker to carry out a move; its end is observed as `on_move`."""
        self._posts.engine.propose(move)
