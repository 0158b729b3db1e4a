"""Where mechanisms stand at their broker: messages, timers, proposals, measurements.

Publishers measure for mechanisms how far brokers are from them; how, is the client's own and the
driver's business. What was asked is kept with the session and ends with it: nobody waits here, so
whoever asks must be able to go on without an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import PingBrokers, Tell
from gravitate.broker.interface.inputs import BrokersPinged
from gravitate.broker.interface.timers import MechanismTimer
from gravitate.broker.links.table import LinkTable
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.messages.frames import Control, MechanismMessage
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.relocation import Relocations
from gravitate.broker.sessions.clients import Clients
from gravitate.model.moves import Move


class Posts:
    """All mechanisms of a broker, and what they stand on."""

    def __init__(
        self,
        context: Context,
        mechanisms: Sequence[Mechanism],
        links: LinkTable,
        clients: Clients,
        engine: Engine,
        relocations: Relocations,
        send: Callable[[str, Control], None],
    ) -> None:
        self.context, self.links, self.clients = context, links, clients
        self.engine, self.relocations, self.send = engine, relocations, send
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self.tokens = count(1)

    def attach(self) -> None:
        for mechanism in self._mechanisms.values():
            mechanism.attach(MechanismPost(self, mechanism), self.context.now)

    def handle(self, peer: str, message: MechanismMessage) -> None:
        receiver = self._mechanisms.get(message.mechanism)
        if receiver is not None:
            receiver.on_message(peer, bytes(message.body), self.context.now)

    def on_timer(self, timer: MechanismTimer) -> None:
        self._mechanisms[timer.mechanism].on_timer(timer.key, self.context.now)

    def pinged(self, answer: BrokersPinged) -> None:
        """A client has measured; what it was not asked for, or no time, is left out."""
        session = self.clients.by_connection.get(answer.connection)
        if session is None:
            return
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


class MechanismPost:
    """The `Post` of one mechanism."""

    def __init__(self, posts: Posts, mechanism: Mechanism) -> None:
        self._posts = posts
        self._mechanism = mechanism
        self.broker_id = posts.context.broker_id

    def neighbours(self) -> list[str]:
        return self._posts.links.neighbours()

    def rtt_s(self, peer: str) -> float:
        return self._posts.links[peer].rtt_s

    def may_move(self, publisher: str) -> bool:
        return self._posts.relocations.may_move(publisher)

    def ping(self, publisher: str, brokers: Sequence[str]) -> None:
        posts, mechanism = self._posts, self._mechanism
        session = posts.clients.sessions.get(publisher)
        if session is None or session.inbound.place is not None or session.stays():
            mechanism.on_pinged(publisher, {}, posts.context.now)
            return
        asked = PingBrokers(tuple(brokers), next(posts.tokens))
        session.pings[mechanism.name] = asked
        posts.context.emit(Tell(session.connection, asked))

    def send(self, peer: str, body: bytes) -> None:
        context, name = self._posts.context, self._mechanism.name
        self._posts.send(peer, MechanismMessage(name, body))
        for observer in context.observers:
            observer.on_mechanism_sent(context.broker_id, peer, name, len(body), context.now)

    def set_timer(self, key: str, at: float) -> None:
        self._posts.context.set_timer(MechanismTimer(self._mechanism.name, key), at)

    def propose(self, move: Move) -> None:
        self._posts.engine.propose(move)
