"""Everybody in a run: what faults act on.

Owns what is common to all faults: the clock, noting what was done, and how long that has
consequences. A disturbance lasts from the deed until the spot has had time to recover; from then on
promises hold again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Final

from gravitate.config.network import Network
from gravitate.torture.brokers import Broker, Brokers
from gravitate.torture.clients import Clock, Publisher, Subscriber
from gravitate.torture.ledger import Ledger, Link, Spot, link
from gravitate.torture.proxies import Proxies

RECOVER_S: Final = 2.5
"""A link that can be had again is tried every 2 s at least (`retry_s_max`)."""
EXCUSE_S_MAX: Final = 20.0
"""A broker that was started is ready after that long, or it is no excuse any more."""


class Scene:
    def __init__(
        self,
        network: Network,
        ledger: Ledger,
        brokers: Brokers,
        proxies: Proxies,
        publishers: list[Publisher],
        subscribers: list[Subscriber],
        moved: frozenset[str],
        generator: random.Random,
        clock: Clock,
    ) -> None:
        self.network = network
        self.ledger = ledger
        self.brokers = brokers
        self.proxies = proxies
        self.publishers = publishers
        self.subscribers = subscribers
        self.moved = moved
        """Clients that are moved."""
        self.generator = generator
        self.now = clock
        """Seconds since the run began."""
        self.faults = 0
        self.queued_most = 0
        """Events that waited at one link when bursts were let through."""
        self.problems: list[str] = []
        """What faults could not do as they should."""

    async def sleep_until(self, at: float) -> None:
        # Timers may be a little early, and the end of a run is looked for by the clock.
        while (left_s := at - self.now()) > 0:
            await asyncio.sleep(left_s)

    async def pause_between(
        self,
        shortest_s: float,
        longest_s: float,
        until: float,
        generator: random.Random | None = None,
    ) -> None:
        """A moment without a deed, no longer than until the end."""
        for_s = (generator or self.generator).uniform(shortest_s, longest_s)
        await self.sleep_until(min(self.now() + for_s, until))

    @contextlib.asynccontextmanager
    async def disturbed(
        self, spot: Spot, what: str, recovers_s: float = RECOVER_S
    ) -> AsyncIterator[None]:
        """Note that something is done to a broker or a link, inside of this."""
        self.faults += 1
        disturbance = self.ledger.disturb(spot, what, self.now())
        try:
            yield
        finally:
            disturbance.ended_at = self.now() + recovers_s

    def any_broker(self) -> Broker | None:
        """One of those that run; None, and a problem, when none is left."""
        running = self.brokers.running()
        if not running:
            self.problems.append(f"no broker was left at {self.now():.1f} s")
            return None
        return self.generator.choice(running)

    def any_publisher(self) -> Publisher | None:
        """One whose broker runs; None, and a problem, when none is left."""
        able = [one for one in self.publishers if self.brokers.by_id[one.spec.home].runs]
        if not able:
            self.problems.append(f"no publisher had a broker at {self.now():.1f} s")
            return None
        return self.generator.choice(able)

    def primary_links(self) -> list[Link]:
        return [link(*spec.between) for spec in self.network.links]

    def next_broker(self, start: str, end: str) -> str:
        """The first broker on the way from one to another."""
        way = self.network.topology().path(start, end)
        assert way is not None, f"{start} and {end} are not joined"
        return way[1]
