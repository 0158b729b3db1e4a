"""Migrations in random worlds: publishers and subscribers are sent elsewhere at random times.

Whom, whither and when is drawn; whether a client follows or is moved by a tether too. Asks the
broker where the client is attached, or by which it is served, and leaves it to the checkers what
should come of that. The way is for the brokers to find.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from gravitate.broker.core import Broker
from gravitate.broker.sessions.clients import Session
from gravitate.model.moves import ClientMove, Rationale, ReassignSubscriber, RelocatePublisher
from gravitate.simulate import random_clients as draw
from gravitate.simulate.clients import Client
from gravitate.simulate.world import World

PUBLISHERS_MAX = 12
SUBSCRIBERS_MAX = 16
"""Moves asked for in one phase."""


class RandomMigrations:
    """Of one world; `clients` are those it may move. What it draws about subscribers does not
    change what else is drawn for the world."""

    def __init__(self, seed: int, world: World) -> None:
        self._world = world
        self._brokers = [broker.id for broker in world.network.brokers]
        self._subscribers = random.Random(f"subscribers/{seed}")
        self._publishers = self._subscribers
        self._names = 0
        self.clients: Sequence[Client] = ()

    def make_mobile(self, client: Client) -> None:
        """Let a subscriber follow, perhaps; one that does not count never does."""
        if client.counts:
            client.core.policy = client.core.policy._replace(
                follow=self._subscribers.random() < 0.6,
                move_s_max=self._subscribers.choice((5.0, 0.3)),
            )

    def act(self, generator: random.Random, phase_s: float) -> None:
        """Schedule moves in the coming phase; `generator` draws those of publishers."""
        self._publishers = generator
        scheduler, now = self._world.scheduler, self._world.now
        for _ in range(generator.randint(1, PUBLISHERS_MAX)):
            scheduler.at(now + generator.uniform(0.0, phase_s), self._relocates, None)
        drawn = self._subscribers
        for _ in range(drawn.randint(1, SUBSCRIBERS_MAX)):
            scheduler.at(now + drawn.uniform(0.0, phase_s), self._reassigns, None)

    def _relocates(self, _: None) -> None:
        """A broker is asked to send one of its publishers to another."""
        generator = self._publishers
        connected = [c for c in self.clients if draw.publishes(c.id) and c.connection is not None]
        if connected:
            client = generator.choice(connected)
            session = self._session(client)
            place = session.inbound.place if session is not None else None
            source = client.broker if place is None else place
            self._request(RelocatePublisher, client, source, generator)

    def _reassigns(self, _: None) -> None:
        """A broker is asked to send one of its subscribers to another."""
        generator = self._subscribers
        connected = [c for c in self.clients if c.subscriptions and c.connection is not None]
        if connected:
            client = generator.choice(connected)
            session = self._session(client)
            place = session.outbound.place if session is not None else None
            source = client.broker if place is None else place
            self._request(ReassignSubscriber, client, source, generator)

    def _request(
        self, kind: type[ClientMove], client: Client, source: str, generator: random.Random
    ) -> None:
        target = generator.choice(self._brokers)
        if self._world.is_up(source):
            self._names += 1
            move = kind(f"m{self._names}", client.id, source, target, Rationale("drawn"))
            self._world.request_move(move, source)

    def _session(self, client: Client) -> Session | None:
        """At the broker that a client is connected to."""
        broker = self._world.hosts[client.broker].broker
        return broker.clients.sessions.get(client.id) if isinstance(broker, Broker) else None
