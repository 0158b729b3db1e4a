"""One connection of a client: the handshake, bytes to packets and back, pings.

Lives from a dial to a loss. Everything received after CONNACK goes to the owner as packets; what
to say on it is the owner's business.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from gravitate.errors import GravitateError, MqttError, RemoteProtocolError
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.packets import Connack, Connect, Disconnect, Packet, Pingreq
from gravitate.wire.mqtt.properties import Property, number, reason_text

if TYPE_CHECKING:
    from gravitate.client.keeping import Keeper


class Connection(asyncio.Protocol):
    """Made by `dial`, under a number."""

    def __init__(self, owner: Keeper, number: int) -> None:
        self._owner = owner
        self.number = number
        self._loop = asyncio.get_running_loop()
        self._reader = PacketReader()
        self._is_open = False
        self._keep_alive_s = 0
        self._heard_at_s = self._loop.time()
        self._ping: asyncio.TimerHandle | None = None
        self._reason: GravitateError | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.server_reference = ""
        """Where the broker says that this client is expected instead."""
        self.writable = asyncio.Event()
        self.writable.set()
        self.is_held = False
        """Whether nothing is read from it for now."""
        self.receive_maximum = 65535
        self.packet_bytes_max = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard_at_s = self._loop.time()
        try:
            packets = self._reader.feed(data)
            if packets and not self._is_open:
                self._greeted(packets.pop(0))
            for packet in packets:
                if isinstance(packet, Disconnect):
                    self._reason = refusal("the broker disconnected", packet)
                    reference = packet.properties.get(Property.SERVER_REFERENCE, "")
                    self.server_reference = str(reference)
            self._owner.received(self, packets)
            if packets and isinstance(packets[-1], Disconnect):
                self._transport.close()
        except GravitateError as error:
            self.fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        if self._ping is not None:
            self._ping.cancel()
        self.writable.set()
        reason = self._reason or RemoteProtocolError(
            f"the connection to the broker was lost{f': {error}' if error else ''}"
        )
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.lost(self, reason)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def _greeted(self, packet: Packet) -> None:
        if not isinstance(packet, Connack):
            raise RemoteProtocolError(f"expected CONNACK, got {type(packet).__name__.upper()}")
        if packet.reason:
            raise refusal("the broker refused the connection", packet)
        told = packet.properties
        self.receive_maximum = number(told, Property.RECEIVE_MAXIMUM, 65535)
        self.packet_bytes_max = number(told, Property.MAXIMUM_PACKET_SIZE, 0)
        keep_alive_s = number(told, Property.SERVER_KEEP_ALIVE, self._keep_alive_s)
        self._is_open = True
        if keep_alive_s:
            self._watch(keep_alive_s)
        self._owner.opened(self)

    # --- the owner's side -----------------------------------------------------------------------

    def greet(self, connect: Connect) -> None:
        """Say CONNECT."""
        self._keep_alive_s = connect.keep_alive_s
        self.write(encode(connect, V5))

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def hold_reading(self, hold: bool) -> None:
        if hold == self.is_held or self._transport.is_closing():
            return
        self.is_held = hold
        if hold:
            self._transport.pause_reading()
        else:
            self._heard_at_s = self._loop.time()
            self._transport.resume_reading()

    def fail(self, error: GravitateError) -> None:
        """The broker broke the protocol, or is silent."""
        self._reason = self._reason or error
        self._transport.abort()

    def close(self) -> None:
        """Say DISCONNECT and close once everything is written."""
        self.write(encode(Disconnect(), V5))
        self._transport.close()

    def _watch(self, keep_alive_s: float) -> None:
        """Ping twice per keep alive; a broker silent for longer than one is given up."""
        silent_s = self._loop.time() - self._heard_at_s
        if silent_s > keep_alive_s and self._transport.is_reading():
            self.fail(RemoteProtocolError(f"nothing heard from the broker in {keep_alive_s} s"))
            return
        self.write(encode(Pingreq(), V5))
        self._ping = self._loop.call_later(keep_alive_s / 2, self._watch, keep_alive_s)


def refusal(what: str, packet: Connack | Disconnect) -> MqttError:
    """A refusal as an error that says the code's name and the broker's own words."""
    words = reason_text(packet.properties)
    name = ReasonCode(packet.reason).name.lower().replace("_", " ")
    return MqttError(f"{what}: {name}{f' ({words})' if words else ''}", packet.reason)


async def dial(owner: Keeper, number: int, host: str, port: int) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(lambda: Connection(owner, number), host, port)
    except OSError as error:
        raise RemoteProtocolError(f"no broker at {host}:{port}: {error}") from error
    return connection
