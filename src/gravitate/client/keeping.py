"""Keeps a client connected, wherever it is to be.

Owns where the client connects, its connections one after the other, and what happens between
them: it connects again with growing pauses when it loses its broker, and goes to another when its
broker asks for that (a *relocation*):

    AT_HOME --redirect--> PAUSED --0x9D--> LEAVING --connected--> ARRIVING --attached--> AT_HOME
       ^                    |                 |                      |
       '-------stay---------'                 '----late, lost--------'--> back, then ARRIVING

PAUSED and LEAVING: nothing is written; whatever is published is kept (`Outgoing.hold`). ARRIVING:
all of it is written, and still kept. A client that is not attached in time connects where it came
from, with a greater attachment, and goes on there: the network recognises what it has seen. A
subscriber says that it has arrived once it is attached, at either end; nothing is delivered to it
before, so that it can go back as if it had not left.

Does not know what is said on a connection: `Owner` introduces the client and renews its requests.

Invariants: at most one connection is open; the attachment grows with every connection; nothing is
written between `paused` and the answer to it.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections.abc import Iterable
from typing import Any, Final, Protocol

from gravitate.client.connection import Connection, dial
from gravitate.client.outgoing import Outgoing
from gravitate.errors import GravitateError, LocalProtocolError, MqttError, RemoteProtocolError
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.control import (
    ARRIVED,
    BACK,
    MOVED,
    PAUSED,
    control_message,
    parse_server_reference,
)
from gravitate.wire.mqtt.packets import Connect, Packet

logger = logging.getLogger("gravitate.client")

FINAL_REFUSALS: Final = frozenset(
    {
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.BANNED,
        ReasonCode.BAD_AUTHENTICATION_METHOD,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    }
)
"""Refusals after which connecting again would not help, or would harm."""

LOYALTY: Final = 3
"""How often the last place is tried before others that were good before."""
PLACES_MAX: Final = 3

Place = tuple[str, int]


class State(enum.Enum):
    AT_HOME = "at home"
    PAUSED = "paused"
    LEAVING = "leaving"
    ARRIVING = "arriving"


class Owner(Protocol):
    """The client, as its keeper sees it."""

    def received(self, connection: Connection, packets: list[Packet]) -> None: ...

    def introduction(self, attachment: int, continues: str) -> Connect:
        """How the client introduces itself on its `attachment`-th connection, and which session
        it has come for."""
        ...

    def subscribes(self) -> bool:
        """Whether anything is subscribed to."""
        ...

    def renewed(self) -> Iterable[bytes]:
        """What the client says anew on a connection, ahead of its publications."""
        ...

    def may_go_on(self) -> None:
        """Something has changed for those who wait to publish."""
        ...

    def ended(self, error: GravitateError) -> None:
        """There will be no further connection."""
        ...


class Keeper:
    """One client's connection, renewed until it is stopped."""

    def __init__(
        self,
        owner: Owner,
        outgoing: Outgoing,
        place: Place,
        follow: bool,
        retry_s: tuple[float, float],
        move_s_max: float,
    ) -> None:
        self._owner = owner
        self._outgoing = outgoing
        self._configured = place
        self._places = [place]
        """Where the client was welcome, the last first, and where it was told to connect."""
        self.follow = follow
        self._retry_s = retry_s
        self._move_s_max = move_s_max
        self.state = State.AT_HOME
        self._last_said = 0
        """The last publication written before the client paused."""
        self.connection: Connection | None = None
        self.failure: GravitateError | None = None
        self.reconnects = 0
        self.moves = 0
        self._attachments = 0
        self._continues = ""
        """What a subscriber that was sent elsewhere comes for: nothing has been delivered to it
        since."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def place(self) -> Place:
        """Where the client is, or was last."""
        return self._places[0]

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; raises at once when that fails. From then on connections are renewed."""
        if self._task is not None or self._stopped:
            raise LocalProtocolError("a client connects once; make a new one")
        connection = await self._open(self._configured)
        self._task = asyncio.create_task(self._keep(connection))

    @property
    def running(self) -> bool:
        return self._task is not None and not self._stopped and self.failure is None

    async def stop(self, timeout_s: float) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.connection is not None:
            self.connection.close()
            await asyncio.wait([self.connection.lost], timeout=timeout_s)
        self._tell_change()

    async def ready(self) -> Connection:
        """The connection, as soon as there is one that may be written to."""
        while True:
            self.check()
            if self.connection is not None and self.state is not State.PAUSED:
                return self.connection
            await self.change()

    async def at_home(self) -> None:
        """Until nothing is kept back, or nothing will change any more."""
        while self._outgoing.holding and self.running:
            await self.change()

    def check(self) -> None:
        """Raises when there is no connection and none will come."""
        if self.failure is not None:
            raise self.failure
        if self._stopped or (self._task is None and self.connection is None):
            raise LocalProtocolError("the client is not connected")

    async def change(self) -> None:
        """Until the connection or the state has changed."""
        self._changed.clear()
        await self._changed.wait()

    def _tell_change(self) -> None:
        self._changed.set()
        self._owner.may_go_on()

    # --- publications ---------------------------------------------------------------------------

    @property
    def takes(self) -> bool:
        """Whether publications may be made: written now, or kept until the client has moved."""
        return self.connection is not None or self._outgoing.holding

    def write(self, frame: bytes) -> None:
        """Write a publication, unless it is kept for later."""
        if self.connection is not None and self.state is not State.PAUSED:
            self.connection.write(frame)

    def answer(self, connection: Connection, message: bytes) -> None:
        """Write the answer to something that was asked on a connection; nothing when that is not
        the client's any more, or nothing may be written on it."""
        if connection is self.connection and self.state is not State.PAUSED:
            connection.write(message)

    # --- connections ----------------------------------------------------------------------------

    async def _open(self, place: Place) -> Connection:
        """One attempt: dial, shake hands, say what is still meant, send again."""
        connection = await dial(self._owner, *place)
        self._attachments += 1
        try:
            await connection.greet(self._owner.introduction(self._attachments, self._continues))
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        self._places = [place, *(other for other in self._places if other != place)]
        connection.write(b"".join((*self._owner.renewed(), *self._outgoing.frames())))
        if self._outgoing.holding:
            self.state = State.ARRIVING
            if connection.attached.done():
                self._arrive()
        self._tell_change()
        return connection

    async def _keep(self, connection: Connection) -> None:
        """Reconnect whenever the connection is lost, until told not to."""
        try:
            while True:
                reason = await asyncio.shield(connection.lost)
                self.connection = None
                if self.follow and connection.server_reference:
                    connection = await self._moved(connection.server_reference)
                    continue
                logger.info("%s; connecting again", reason)
                self._stop_at(reason)
                connection = await self._retried()
                self.reconnects += 1
                logger.info("connected to %s:%d again", *self.place)
        except GravitateError as error:
            self.failure = error
            self._owner.ended(error)
            self._tell_change()

    async def _retried(self, at_once: bool = False) -> Connection:
        pause_s, longest_s = self._retry_s
        places = list(self._places)
        attempt = 0
        while True:
            # Clients that lost one broker together do not come back all at once.
            if attempt or not at_once:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, longest_s)
            place = places[max(0, attempt - LOYALTY + 1) % len(places)]
            try:
                return await self._open(place)
            except RemoteProtocolError as error:
                if place == places[0]:
                    self._stop_at(error)
            attempt += 1

    def _stop_at(self, error: GravitateError) -> None:
        if isinstance(error, MqttError) and error.reason_code in FINAL_REFUSALS:
            raise error

    # --- relocation -----------------------------------------------------------------------------

    def redirected(self, connection: Connection, server: str) -> None:
        """The broker wants the client to publish elsewhere: stop, and say so."""
        if connection is not self.connection or not self.follow or self.state is not State.AT_HOME:
            return
        logger.info("asked to move to %s", server)
        self._outgoing.hold()
        self.state = State.PAUSED
        self._last_said = self._outgoing.next_counter - 1
        connection.write(control_message(PAUSED))

    def stayed(self, connection: Connection) -> None:
        """The broker wants the client to go on where it is."""
        if connection is self.connection and self.state is State.PAUSED:
            logger.info("staying at %s:%d", *self.place)
            self.state = State.AT_HOME
            connection.write(b"".join(self._outgoing.frames(after=self._last_said)))
            self._outgoing.release()
            self._tell_change()

    def attached(self, connection: Connection) -> None:
        """What is written on this connection is behind all that was written on others."""
        if not connection.attached.done():
            connection.attached.set_result(None)
        # One that comes with CONNACK is too early: nothing has been written yet.
        if connection is self.connection and self.state is State.ARRIVING:
            self._arrive()

    def _arrive(self) -> None:
        self.state = State.AT_HOME
        if self._continues and self.connection is not None:
            self._continues = ""
            self.connection.write(control_message(ARRIVED))
        self._outgoing.release()
        self._tell_change()

    async def _moved(self, reference: str) -> Connection:
        """The session is over: connect where the client is expected, or go back."""
        home = list(self._places)
        self._outgoing.hold()
        self.state = State.LEAVING
        self._continues = MOVED if self._owner.subscribes() else ""
        self._tell_change()
        try:
            target = parse_server_reference(reference)
            home += [target] if target not in home else []
            async with asyncio.timeout(self._move_s_max):
                connection = await self._open(target)
                ends: list[asyncio.Future[Any]] = [connection.attached, connection.lost]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if not connection.attached.done():
                    raise connection.lost.result()
        except (TimeoutError, RemoteProtocolError) as error:
            why = str(error) or f"not attached within {self._move_s_max:g} s"
            logger.info("could not move to %s: %s; going back to %s:%d", reference, why, *home[0])
            return await self._back(home)
        self.moves += 1
        self._forget_places()
        logger.info("moved to %s:%d", *self.place)
        return connection

    async def _back(self, home: list[Place]) -> Connection:
        """Connect at the first of `home`; at another only if that one does not answer."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._places = home
        self._continues = BACK if self._continues else ""
        self.state = State.LEAVING
        self._tell_change()
        connection = await self._retried(at_once=True)
        self._forget_places()
        logger.info("back at %s:%d", *self.place)
        return connection

    def _forget_places(self) -> None:
        del self._places[PLACES_MAX:]
        if self._configured not in self._places:
            self._places[-1] = self._configured
