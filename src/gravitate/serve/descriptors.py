"""Who may take the last descriptors of this process, and who is turned away.

The system gives a new connection the lowest number that is free, so one whose number is at a line
or above it tells that everything below is taken. Each kind of connection has a line of its own;
MQTT clients the lowest, then readers over HTTP, then peers that dial in. What is above all lines
is for links that are dialled and for files. So nothing is counted, and the lines hold for all
brokers of a process together.

Owns the lines, and the count and the log of those turned away; closing is the doors' business.

Invariants: nobody keeps a number at or above the line of its kind; whatever clients do, readers
and peers are let in; each kind that is turned away is logged once a minute at most.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import resource
import time
from collections.abc import Callable
from typing import Final, cast

logger = logging.getLogger("gravitate.descriptors")

RESERVED: Final = 256
"""Descriptors kept from clients, besides one for each broker; a quarter of all where that is
less."""
LOG_EVERY_S: Final = 60.0


class Kind(enum.Enum):
    """Who connects. The value is how a log calls them."""

    CLIENT = "MQTT clients"
    READER = "HTTP connections"
    PEER = "peers"


class Doorkeeper:
    """Looks at the connections of one broker, in a network of so many."""

    def __init__(self, broker_id: str, brokers: int = 1, limit: int | None = None) -> None:
        limit = _limit() if limit is None else limit
        reserve = min(limit // 4, RESERVED + brokers)
        self.refused = 0
        self.readers_max = max(1, min(reserve, RESERVED) // 4)
        self.strangers_max = max(1, reserve // 8)
        """Peers that have not said who they are. As many of them as may be and as many readers have
        room below the readers' line whatever clients do, and so have some that are being closed."""
        self._lines = {
            Kind.CLIENT: limit - reserve,
            Kind.READER: limit - reserve // 2,
            Kind.PEER: limit - reserve // 4,
        }
        self._broker_id = broker_id
        self._limit = limit
        self._logged_at_s: dict[Kind, float] = {}

    def admits(self, kind: Kind, transport: asyncio.BaseTransport) -> bool:
        """Whether a new connection may stay."""
        connected = transport.get_extra_info("socket")
        number = -1 if connected is None else connected.fileno()
        if number < self._lines[kind]:
            return True
        self.refuse(
            kind,
            f"{number} of {self._limit} descriptors are taken and the rest is reserved; "
            "`ulimit -n` allows more",
        )
        return False

    def refuse(self, kind: Kind, why: str) -> None:
        """Count a connection that is turned away; say so if that has not been said lately."""
        self.refused += 1
        now = time.monotonic()
        logged_at_s = self._logged_at_s.get(kind)
        if logged_at_s is None or now - logged_at_s >= LOG_EVERY_S:
            self._logged_at_s[kind] = now
            logger.warning(
                "%s turns %s away: %s (connections refused so far: %d)",
                self._broker_id,
                kind.value,
                why,
                self.refused,
            )

    def guard(
        self, kind: Kind, make: Callable[[], asyncio.Protocol]
    ) -> Callable[[], asyncio.Protocol]:
        """A factory for listeners: of connections that may stay the protocol is made, others are
        closed at once."""
        return lambda: _Newcomer(self, kind, make)


class _Newcomer(asyncio.Protocol):
    """Stands in for a protocol until the descriptor of its connection is known."""

    def __init__(
        self, keeper: Doorkeeper, kind: Kind, make: Callable[[], asyncio.Protocol]
    ) -> None:
        self._keeper = keeper
        self._kind = kind
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._keeper.admits(self._kind, transport):
            protocol = self._make()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
        else:
            cast(asyncio.Transport, transport).abort()


def _limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft
