"""Peer connections of one node: who is dialled, who is let in, and which connection is whose.

Owns the listening socket for peers, dialling, the check of the first frame and the table from
connection number to connection. Frames pass through unread: sequence numbers, resumption,
heartbeats and when to dial again are the broker's.

Invariants: a peer has at most one greeted connection; the broker is told `LinkOpened` before
anything else of a connection, `LinkClosed` once after everything else, and nothing at all of a
stranger's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gravitate.broker.interface.inputs import (
    DialFailed,
    FrameReceived,
    Input,
    LinkClosed,
    LinkHeard,
    LinkOpened,
)
from gravitate.broker.messages.frames import (
    PROTOCOL_VERSION,
    UNKNOWN_BROKER,
    WRONG_BROKER,
    WRONG_NETWORK,
    WRONG_VERSION,
    Frame,
    Hello,
    Refusal,
)
from gravitate.errors import PeerError
from gravitate.serve.descriptors import Doorkeeper, Kind
from gravitate.serve.peers.connections import HELLO_EXPECTED, PeerConnection

logger = logging.getLogger("gravitate.links")

DIAL_TIMEOUT_S: Final = 5.0
HELLO_TIMEOUT_S: Final = 10.0
HEARD_EVERY_S: Final = 0.1
OFFENCES_REMEMBERED: Final = 1024

OWN_ID: Final = "own-id"
WRONG_DIRECTION: Final = "wrong-direction"
ID_IN_USE: Final = "id-in-use"


class Neighbour(msgspec.Struct, frozen=True):
    """What the network file says about a link of this broker."""

    peer: str
    host: str
    port: int
    dials: bool
    """Whether this side dials."""
    latency_s: float = 0.0
    """One way, added to what this side writes."""
    possible: bool = True
    """Whether the side that is dialled has a port for peers."""


class PeerLinks:
    """All peer connections of one broker; `submit` takes what the broker is to be told.

    `others` are the brokers of the network that are no neighbours: they are dialled when the broker
    wants a link, and let in for it to decide."""

    def __init__(
        self,
        network: str,
        broker_id: str,
        neighbours: Mapping[str, Neighbour],
        submit: Callable[[Input], None],
        others: Mapping[str, Neighbour] | None = None,
        doorkeeper: Doorkeeper | None = None,
    ) -> None:
        self._network = network
        self._broker_id = broker_id
        self._neighbours = dict(neighbours)
        self._known = {**(others or {}), **neighbours}
        self._submit = submit
        self._doorkeeper = doorkeeper or Doorkeeper(broker_id)
        self._connections: dict[int, PeerConnection] = {}
        self._greeted: dict[str, PeerConnection] = {}
        self._strangers: dict[PeerConnection, asyncio.TimerHandle] = {}
        self._closing: set[PeerConnection] = set()
        self._dials: set[asyncio.Task[None]] = set()
        self.touched: dict[PeerConnection, None] = {}
        self._offences: dict[tuple[str, str, str], int] = {}
        self._server: asyncio.Server | None = None
        self._drained: asyncio.Future[None] | None = None
        self._cut_until_s: dict[str, float] = {}
        self._extra_latency_s: dict[str, float] = {}
        self._numbers = 0
        self._loop = asyncio.get_running_loop()

    # --- what the node asks ---------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> None:
        self._server = await self._loop.create_server(self._accept, host, port)

    def open(self, peer: str) -> None:
        """Try once to connect; the broker is told how it ended."""
        neighbour = self._known.get(peer)
        if neighbour is None or not neighbour.port or self._is_cut(peer):
            # Who is named in a peer's message may be nobody, or nobody who listens.
            self._submit(DialFailed(peer))
            return
        task = self._loop.create_task(self._dial(neighbour))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    def send(self, connection: int, frame: Frame) -> None:
        """Written at the next `flush`; nothing when the connection has gone meanwhile."""
        link = self._connections.get(connection)
        if link is not None:
            link.send(frame)
            self.touched[link] = None

    def flush(self) -> list[tuple[int, Exception]]:
        """One write per connection that something was sent on; those for which it raised."""
        failed: list[tuple[int, Exception]] = []
        touched, self.touched = self.touched, {}
        for link in touched:
            try:
                link.flush()
            except Exception as error:
                failed.append((link.number, error))
        return failed

    def drop(self, connection: int) -> str:
        """Break a connection on which something went wrong here, and tell the broker; whose it was,
        empty when it has gone already."""
        link = self._forget(connection)
        if link is None:
            return ""
        self.touched.pop(link, None)
        self._closing.add(link)
        link.abort()
        self._submit(LinkClosed(link.peer, connection))
        return link.peer

    def close(self, connection: int, reason: str) -> None:
        """The broker gives the connection up; it is told nothing more of it."""
        link = self._forget(connection)
        if link is not None:
            self._say_once(link, reason.partition(":")[0], "closes the link with", reason)
            self._closing.add(link)
            link.close()

    async def shutdown(self) -> None:
        """Close everything; what was sent is written if the peers still read."""
        if self._server is not None:
            self._server.close()
        for task in list(self._dials):
            task.cancel()
        for link in [*self._connections.values(), *self._strangers]:
            self._closing.add(link)
            link.close()
        self._connections.clear()
        self._greeted.clear()
        if self._closing:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        if self._server is not None:
            await self._server.wait_closed()

    def connection_of(self, peer: str) -> PeerConnection | None:
        return self._greeted.get(peer)

    @property
    def offences(self) -> dict[tuple[str, str, str], int]:
        """How often each (error, host, broker claimed) was refused."""
        return dict(self._offences)

    # --- faults ---------------------------------------------------------------------------------

    def cut(self, peer: str, for_s: float = 0.0) -> bool:
        """Break the connection with `peer` and keep it broken; false when there was none."""
        self._cut_until_s[peer] = self._loop.time() + for_s
        for link in self._connections.values():
            if link.peer == peer:
                link.abort()
                return True
        return False

    def _is_cut(self, peer: str) -> bool:
        return self._loop.time() < self._cut_until_s.get(peer, 0.0)

    def delay(self, peer: str, extra_s: float) -> None:
        """From now on what is written to `peer` takes `extra_s` longer than its link says."""
        self._extra_latency_s[peer] = extra_s
        for link in self._connections.values():
            if link.peer == peer:
                link.latency_s = self._latency_s(peer)

    def _latency_s(self, peer: str) -> float:
        return self._known[peer].latency_s + self._extra_latency_s.get(peer, 0.0)

    # --- dialling and accepting -----------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _dial(self, neighbour: Neighbour) -> None:
        def connection() -> PeerConnection:
            return PeerConnection(self, self._number(), neighbour.peer)

        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await self._loop.create_connection(connection, neighbour.host, neighbour.port)
        except OSError as error:
            logger.debug("%s cannot reach %s: %s", self._broker_id, neighbour.peer, error)
            self._submit(DialFailed(neighbour.peer))

    def _accept(self) -> PeerConnection:
        return PeerConnection(self, self._number())

    # --- what connections report ----------------------------------------------------------------

    def connected(self, connection: PeerConnection) -> None:
        if connection.dialled:
            self._admit(connection)
        elif not self._doorkeeper.admits(Kind.PEER, connection.transport):
            connection.abort()
        else:
            if len(self._strangers) >= self._doorkeeper.strangers_max:
                self._make_room()
            self._strangers[connection] = self._loop.call_later(
                HELLO_TIMEOUT_S, self._silent, connection
            )

    def _make_room(self) -> None:
        """Who has been silent longest goes: brokers say at once who they are."""
        longest = next(iter(self._strangers))
        self._strangers.pop(longest).cancel()
        longest.abort()
        self._doorkeeper.refuse(
            Kind.PEER, f"{self._doorkeeper.strangers_max} are connected and say nothing"
        )

    def _silent(self, connection: PeerConnection) -> None:
        connection.fail(PeerError(HELLO_EXPECTED, f"nothing said for {HELLO_TIMEOUT_S:g} s"))

    def _admit(self, connection: PeerConnection) -> None:
        connection.latency_s = self._latency_s(connection.peer)
        self._connections[connection.number] = connection
        self._submit(LinkOpened(connection.peer, connection.number))

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        self._check(connection, hello)
        if self._is_cut(hello.broker):
            connection.abort()
            return
        former = self._greeted.get(hello.broker)
        if former is not None:
            if former.incarnation != hello.incarnation:
                raise PeerError(
                    ID_IN_USE,
                    f"broker {hello.broker!r} is connected from {former.origin} "
                    f"with incarnation {former.incarnation}, not {hello.incarnation}",
                )
            # The same broker connected anew before the end of its former connection was noticed.
            self._forget(former.number)
            self._closing.add(former)
            former.abort()
            self._submit(LinkClosed(former.peer, former.number))
        self._greeted[hello.broker] = connection
        if not connection.dialled:
            self._strangers.pop(connection).cancel()
            connection.peer = hello.broker
            self._admit(connection)

    def _check(self, connection: PeerConnection, hello: Hello) -> None:
        claimed = hello.broker
        if hello.version != PROTOCOL_VERSION:
            raise PeerError(
                WRONG_VERSION, f"version {hello.version}; {PROTOCOL_VERSION} is spoken here"
            )
        if hello.network != self._network:
            raise PeerError(WRONG_NETWORK, f"network {hello.network!r}; this is {self._network!r}")
        if claimed == self._broker_id:
            raise PeerError(OWN_ID, f"broker id {claimed!r} is this broker's own")
        if connection.dialled:
            if claimed != connection.peer:
                raise PeerError(
                    WRONG_BROKER, f"{connection.peer!r} was dialled, {claimed!r} answered"
                )
        elif claimed not in self._known:
            known = ", ".join(map(repr, self._neighbours)) or "none"
            raise PeerError(
                UNKNOWN_BROKER, f"broker {claimed!r} is no neighbour of this one (known: {known})"
            )
        elif self._known[claimed].dials:
            raise PeerError(WRONG_DIRECTION, f"on the link with {claimed!r} this side dials")
        if hello.incarnation <= 0:
            raise PeerError(HELLO_EXPECTED, f"incarnation {hello.incarnation}; it is positive")

    def heard(self, connection: PeerConnection) -> None:
        """Part of a frame has come; the broker is told so now and then."""
        now = self._loop.time()
        if now >= connection.told_heard_at + HEARD_EVERY_S:
            connection.told_heard_at = now
            self._submit(LinkHeard(connection.peer, connection.number))

    def received(self, connection: PeerConnection, frames: list[Frame]) -> None:
        peer, number, submit = connection.peer, connection.number, self._submit
        for frame in frames:
            submit(FrameReceived(peer, number, frame))

    def refused(self, connection: PeerConnection, refusal: Refusal) -> None:
        self._say_once(connection, refusal.name, "is refused by", refusal.reason)

    def failed(self, connection: PeerConnection, error: PeerError) -> None:
        self._say_once(connection, error.name, "refuses", str(error))

    def _say_once(self, connection: PeerConnection, name: str, verb: str, reason: str) -> None:
        """Once per error, host and broker; a peer that insists is only counted. Links with others
        than neighbours come and go."""
        if connection.peer and connection.peer not in self._neighbours:
            logger.debug("%s %s %s: %s", self._broker_id, verb, connection.peer, reason)
            return
        peer = connection.peer or connection.claimed or "a stranger"
        offence = (name, connection.origin.rpartition(":")[0], peer)
        seen = self._offences.get(offence, 0)
        self._offences[offence] = seen + 1
        if len(self._offences) > OFFENCES_REMEMBERED:
            del self._offences[next(iter(self._offences))]
        if not seen:
            origin = connection.origin
            logger.warning("%s %s %s at %s: %s", self._broker_id, verb, peer, origin, reason)

    def closed(self, connection: PeerConnection) -> None:
        silence = self._strangers.pop(connection, None)
        if silence is not None:
            silence.cancel()
        self.touched.pop(connection, None)
        self._closing.discard(connection)
        if not self._closing and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._forget(connection.number) is not None:
            self._submit(LinkClosed(connection.peer, connection.number))

    def _forget(self, number: int) -> PeerConnection | None:
        connection = self._connections.pop(number, None)
        if connection is not None and self._greeted.get(connection.peer) is connection:
            del self._greeted[connection.peer]
        return connection
