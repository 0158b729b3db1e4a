"""Keeps a client connected, wherever it is to be: `core` on sockets.

Owns connections, one after the other, pauses and alarms, and those who wait for a change. What is
to be done is the core's decision; what is said on a connection `requests` puts into bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gravitate.client.connection import Connection, dial
from gravitate.client.core import Alarm, Changed, Core, Dial, Effect, Failed, HangUp, Say
from gravitate.client.messages import Subscription
from gravitate.client.outgoing import Publication
from gravitate.client.requests import Advertisement, Frame, Requests
from gravitate.client.states import State
from gravitate.errors import GravitateError, LocalProtocolError, MqttError, RemoteProtocolError
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.control import parse_server_reference
from gravitate.wire.mqtt.packets import Packet

if TYPE_CHECKING:
    from gravitate.client.client import Client

logger = logging.getLogger("gravitate.client")

Place = tuple[str, int]
ClientCore = Core[Place, Frame, Subscription, Advertisement]

TOLD: Final[dict[tuple[State, State], str]] = {
    (State.AT_HOME, State.CONNECTING): "{reason}; connecting again",
    (State.JOINING, State.CONNECTING): "{reason}; connecting again",
    (State.PAUSED, State.CONNECTING): "{reason}; connecting again",
    (State.CONNECTING, State.JOINING): "connected to {place}",
    (State.PAUSED, State.AT_HOME): "staying at {place}",
    (State.ARRIVING, State.AT_HOME): "moved to {place}",
    (State.RETURNING, State.JOINING): "back at {place}",
    **{
        (state, State.RETURNING): "could not move: {reason}; going back to {place}"
        for state in State
        if state is not State.RETURNING
    },
}
"""What is logged."""


class Keeper:
    """One client's connection, renewed until it is stopped."""

    def __init__(self, owner: Client, core: ClientCore, requests: Requests) -> None:
        self._owner = owner
        self._requests = requests
        self.core = core
        self.connection: Connection | None = None
        """The last, until it is lost or given up."""
        self.receive_maximum = 65535
        self.packet_bytes_max = 0
        """As the last broker has them."""
        self.failure: GravitateError | None = None
        self._reason: GravitateError = LocalProtocolError("the client is not connected")
        """Of the last loss."""
        self._changed = asyncio.Event()
        self._dialling: asyncio.Task[None] | None = None
        self._starting: asyncio.Future[None] | None = None
        self._stopped = False

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; raises at once when that fails. From then on connections are renewed."""
        if self.core.state is not State.OFFLINE or self.failure or self._stopped:
            raise LocalProtocolError("a client connects once; make a new one")
        self._starting = asyncio.get_running_loop().create_future()
        self.carry_out(self.core.start())
        try:
            await self._starting
        except BaseException:
            self.carry_out(self.core.stop())
            raise
        finally:
            self._starting = None

    @property
    def running(self) -> bool:
        return self.core.state is not State.OFFLINE

    async def stop(self, timeout_s: float) -> None:
        self._stopped = True
        connection = self.connection
        self.carry_out(self.core.stop())
        if connection is not None:
            await asyncio.wait([connection.closed], timeout=timeout_s)

    async def ready(self) -> None:
        """Until something may be asked for."""
        self.check()
        while not self.core.asks:
            await self._change()
            self.check()

    async def at_home(self) -> None:
        """Until nothing is kept back, or nothing will change any more."""
        while self.core.outgoing.holding and self.running:
            await self._change()

    def check(self) -> None:
        """Raises when there is no connection and none will come."""
        if not self.running:
            raise self.failure or LocalProtocolError("the client is not connected")

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # --- what the core wants --------------------------------------------------------------------

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Say(words):
                    if words and self.connection is not None:
                        self.connection.write(b"".join(map(self._requests.encoded, words)))
                case Dial():
                    self._dialling = asyncio.create_task(self._dial(effect))
                case HangUp():
                    self._hang_up()
                case Alarm(connection, after_s):
                    asyncio.get_running_loop().call_later(after_s, self._late, connection)
                case Changed(before, to):
                    if (text := TOLD.get((before, to))) and not self._starting:
                        place = "{}:{}".format(*self.core.place)
                        logger.info("%s", text.format(reason=self._reason, place=place))
                    self._changed.set()
                    self._owner.may_go_on()
                case Failed():
                    self.failure = self._reason
                    self._owner.end(self._reason, failed=True)

    def publish(self, due: list[Publication[Frame]]) -> None:
        if self.connection is not None:
            for one in due:
                self.connection.write(one.body.data)

    async def _dial(self, wanted: Dial) -> None:
        try:
            await asyncio.sleep(wanted.after_s)
            self.connection = await dial(self, wanted.connection, *wanted.place)
            self.connection.greet(self._owner.introduction(wanted))
        except RemoteProtocolError as error:
            self._dialling = None
            self._gone(wanted.connection, error)

    def _hang_up(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _late(self, connection: int) -> None:
        if effects := self.core.late(connection):
            reason = f"not attached within {self.core.policy.move_s_max:g} s"
            self._reason = RemoteProtocolError(reason)
            self.carry_out(effects)

    # --- what happens on connections ------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        self.receive_maximum = connection.receive_maximum
        self.packet_bytes_max = connection.packet_bytes_max
        self._requests.renew()
        self.carry_out(self.core.opened(connection.number))
        if self._starting is not None and not self._starting.done():
            self._starting.set_result(None)

    def received(self, connection: Connection, packets: list[Packet]) -> None:
        self._owner.received(connection, packets)

    def redirected(self, connection: Connection, server: str) -> None:
        """The broker wants the client to go elsewhere."""
        if effects := self.core.redirected(connection.number):
            logger.info("asked to move to %s", server)
            self.carry_out(effects)

    def lost(self, connection: Connection, reason: GravitateError) -> None:
        if connection is self.connection:
            self.connection = None
        if not connection.server_reference:
            self._gone(connection.number, reason)
            return
        try:
            place = parse_server_reference(connection.server_reference)
        except MqttError as error:
            reason, place = error, None
        self._reason = reason
        self.carry_out(self.core.moved(connection.number, place))

    def _gone(self, connection: int, reason: GravitateError) -> None:
        if self._starting is not None:
            if not self._starting.done():
                self._starting.set_exception(reason)
            return
        self._reason = reason
        code = ReasonCode(reason.reason_code) if isinstance(reason, MqttError) else None
        self.carry_out(self.core.lost(connection, code))
