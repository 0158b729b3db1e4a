"""Publishers measure for mechanisms how far brokers are from them.

Owns who is asked and whose answer counts. How a client measures is its own and the driver's
business. What was asked is kept with the session and ends with it: nobody waits here, so whoever
asks must be able to go on without an answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import PingBrokers, Tell
from gravitate.broker.interface.inputs import BrokersPinged
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.sessions.clients import Clients


class Pings:
    """The measurements that clients of this broker are asked for."""

    def __init__(self, context: Context, clients: Clients, mechanisms: Iterable[Mechanism]) -> None:
        self._context = context
        self._clients = clients
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._tokens = count(1)

    def ask(self, mechanism: Mechanism, publisher: str, brokers: Sequence[str]) -> None:
        """Have a publisher measure; one whose connection would stay here is not asked."""
        session = self._clients.sessions.get(publisher)
        if session is None or session.inbound.place is not None or session.stays():
            mechanism.on_pinged(publisher, {}, self._context.now)
            return
        asked = PingBrokers(tuple(brokers), next(self._tokens))
        session.pings[mechanism.name] = asked
        self._context.emit(Tell(session.connection, asked))

    def answered(self, answer: BrokersPinged) -> None:
        """A client has measured; what it was not asked for, or no time, is left out."""
        session = self._clients.by_connection.get(answer.connection)
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
                self._mechanisms[name].on_pinged(session.id, known, self._context.now)
                return
