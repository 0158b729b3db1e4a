"""One client's session: who it is, what it is owed, and what it publishes.

A session is as old as its connection. What its client is owed may be older, and may outlive it: it
is handed over from another broker where the client moves as a subscriber, or kept for one that was
sent elsewhere.
"""

from __future__ import annotations

from gravitate.broker.interface.effects import PingBrokers
from gravitate.broker.interface.inputs import ClientConnected
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.local import LocalOutbound


class Session:
    """`client` is what the client said of itself when it connected."""

    __slots__ = ("client", "connection", "id", "inbound", "incarnation", "outbound", "pings")

    def __init__(self, client: ClientConnected, outbound: LocalOutbound, inbound: Inbound) -> None:
        self.id = client.session
        self.connection = client.connection
        self.incarnation = client.incarnation
        self.client = client
        self.outbound = outbound
        self.inbound = inbound
        self.pings: dict[str, PingBrokers] = {}
        """What the client was asked to measure and has not answered, by who wants to know."""

    def subscribes(self) -> bool:
        """Whether the client is served, wherever its subscriptions are."""
        return bool(self.outbound.subscriptions) or self.outbound.place is not None

    def stays(self) -> bool:
        """Whether the client cannot be sent elsewhere as a publisher."""
        return not self.client.follows or self.subscribes()

    def stays_as_subscriber(self) -> bool:
        """Whether the client cannot be sent elsewhere as a subscriber."""
        inbound = self.inbound
        return not self.client.follows or bool(inbound.advertisements) or inbound.place is not None
