"""Where mechanisms stand at their broker: messages, timers, proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.interface.timers import MechanismTimer
from gravitate.broker.links.table import LinkTable
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import (
    Control,
    MechanismMessage,
)
from gravitate.model.moves import Move


class PostPorts(NamedTuple):
    """What mechanisms ask their broker for."""

    propose: Callable[[Move], None]
    """Carry out a move; the proposer observes its end."""
    may_move: Callable[[str], bool]
    """Whether a client of this broker could be relocated."""
    ping: Callable[[Mechanism, str, Sequence[str]], None]
    """Ask a client of this broker how far others are from it."""


class Posts:
    """All mechanisms of a broker."""

    def __init__(
        self,
        context: Context,
        mechanisms: Sequence[Mechanism],
        links: LinkTable,
        send: Callable[[str, Control], None],
        ports: PostPorts,
    ) -> None:
        self._context = context
        self._ports = ports
        self._links = links
        self._send = send
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self.propose, self.may_move, self.ping = ports.propose, ports.may_move, ports.ping

    def attach(self) -> None:
        for mechanism in self._mechanisms.values():
            mechanism.attach(MechanismPost(self, mechanism), self._context.now)

    def handle(self, peer: str, message: MechanismMessage) -> None:
        receiver = self._mechanisms.get(message.mechanism)
        if receiver is not None:
            receiver.on_message(peer, bytes(message.body), self._context.now)

    def on_timer(self, timer: MechanismTimer) -> None:
        self._mechanisms[timer.mechanism].on_timer(timer.key, self._context.now)

    def send(self, mechanism: Mechanism, peer: str, body: bytes) -> None:
        self._send(peer, MechanismMessage(mechanism.name, body))
        context = self._context
        for observer in context.observers:
            observer.on_mechanism_sent(
                context.broker_id, peer, mechanism.name, len(body), context.now
            )

    def set_timer(self, mechanism: Mechanism, key: str, at: float) -> None:
        self._context.set_timer(MechanismTimer(mechanism.name, key), at)

    def neighbours(self) -> list[str]:
        return self._links.neighbours()

    def rtt_s(self, peer: str) -> float:
        return self._links[peer].rtt_s

    @property
    def broker_id(self) -> str:
        return self._context.broker_id


class MechanismPost:
    """The `Post` of one mechanism."""

    def __init__(self, posts: Posts, mechanism: Mechanism) -> None:
        self._posts = posts
        self._mechanism = mechanism
        self.broker_id = posts.broker_id

    def neighbours(self) -> list[str]:
        return self._posts.neighbours()

    def rtt_s(self, peer: str) -> float:
        return self._posts.rtt_s(peer)

    def may_move(self, publisher: str) -> bool:
        return self._posts.may_move(publisher)

    def ping(self, publisher: str, brokers: Sequence[str]) -> None:
        self._posts.ping(self._mechanism, publisher, brokers)

    def send(self, peer: str, body: bytes) -> None:
        self._posts.send(self._mechanism, peer, body)

    def set_timer(self, key: str, at: float) -> None:
        self._posts.set_timer(self._mechanism, key, at)

    def propose(self, move: Move) -> None:
        self._posts.propose(move)
