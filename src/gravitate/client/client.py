"""`Client`: publish, subscribe and advertise, over connections that come and go.

A client connects, and connects again with growing pauses when it loses its broker; then it says
everything it still means (subscriptions, advertisements) and sends again what was not
acknowledged, under the counters it had. It marks itself in CONNECT (see `wire.mqtt.control`), so
that the network knows its events by their ids.

Owns the reconnecting and who waits for what. Bytes are `connection`'s, numbers `outgoing`'s,
received messages `messages`'.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final

from gravitate.client.connection import Connection, dial
from gravitate.client.messages import Message, Subscription, distribute
from gravitate.client.outgoing import Outgoing
from gravitate.client.requests import Advertisement, Requests
from gravitate.errors import GravitateError, LocalProtocolError, MqttError, RemoteProtocolError
from gravitate.model.events import EventId, Value
from gravitate.wire.mqtt.bodies import as_text
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.control import CONTROL_PREFIX, ClientMark
from gravitate.wire.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Unsuback,
)
from gravitate.wire.mqtt.properties import Properties, Property

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

TAIL_MAX: Final = 65_536
QUEUE_HIGH: Final = 10_000
QUEUE_LOW: Final = 2_500
"""A client is not read from while the application has this many messages still to take."""


class Client:
    """A publisher and subscriber. Use it as an async context manager, or `connect` and `close`.

    Every method raises `MqttError` when the broker refuses, `RemoteProtocolError` when there is
    no broker, `FilterError` when a condition does not parse, `LocalProtocolError` on misuse."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 1883,
        client_id: str | None = None,
        *,
        keep_alive_s: int = 30,
        retry_s_min: float = 0.05,
        retry_s_max: float = 5.0,
        username: str | None = None,
        password: bytes | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id or f"gravitate-{secrets.token_hex(8)}"
        self.incarnation = time.time_ns() // 1000
        self.reconnects = 0
        self._keep_alive_s = keep_alive_s
        self._retry_s = (retry_s_min, retry_s_max)
        self._username = username
        self._password = password
        self._outgoing = Outgoing()
        self._requests = Requests()
        self._connection: Connection | None = None
        self._connected = asyncio.Event()
        self._room = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._failure: GravitateError | None = None
        self._closed = False
        self._held = False

    # --- life -----------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect; raises at once when that fails. From then on connections are renewed."""
        if self._keeper is not None or self._closed:
            raise LocalProtocolError("a client connects once; make a new one")
        connection = await self._open()
        self._keeper = asyncio.create_task(self._keep(connection))

    async def close(self, timeout_s: float = 5.0) -> None:
        """Wait until publications are acknowledged (so long at most), then disconnect."""
        if self._closed:
            return
        waiting = self._outgoing.outcomes()
        if waiting and self._failure is None and self._keeper is not None:
            await asyncio.wait(waiting, timeout=timeout_s)
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        connection = self._connection
        if connection is not None:
            connection.close()
            await asyncio.wait([connection.lost], timeout=timeout_s)
        self._end(RemoteProtocolError("the client was closed"), failed=False)

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _open(self) -> Connection:
        """One attempt: dial, shake hands, say what is still meant, send again."""
        connection = await dial(self, self.host, self.port)
        mark = ClientMark(self.incarnation, self._outgoing.first_counter)
        properties: Properties = {Property.USER_PROPERTY: mark.user_properties()}
        try:
            await connection.greet(
                Connect(
                    self.client_id,
                    keep_alive_s=self._keep_alive_s,
                    username=self._username,
                    password=self._password,
                    properties=properties,
                )
            )
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._held = False
        connection.write(b"".join((*self._requests.renewed(), *self._outgoing.frames())))
        self._connected.set()
        self._make_room()
        return connection

    async def _keep(self, connection: Connection) -> None:
        """Reconnect whenever the connection is lost, until told not to."""
        try:
            while True:
                reason = await asyncio.shield(connection.lost)
                self._connected.clear()
                self._connection = None
                logger.info("%s; connecting again", reason)
                self._stop_at(reason)
                connection = await self._retried()
                self.reconnects += 1
                logger.info("connected to %s:%d again", self.host, self.port)
        except GravitateError as error:
            self._end(error, failed=True)

    async def _retried(self) -> Connection:
        pause_s, longest_s = self._retry_s
        while True:
            # Clients that lost one broker together do not come back all at once.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            try:
                return await self._open()
            except RemoteProtocolError as error:
                self._stop_at(error)
            pause_s = min(2 * pause_s, longest_s)

    def _stop_at(self, error: GravitateError) -> None:
        if isinstance(error, MqttError) and error.reason_code in FINAL_REFUSALS:
            raise error

    def _end(self, error: GravitateError, failed: bool) -> None:
        """Nothing more will happen: tell everybody who waits."""
        if failed:
            self._failure = error
        self._connected.set()
        self._room.set()
        for outcome in self._outgoing.outcomes():
            outcome.set_exception(error)
        self._requests.end(error, failed)

    async def _ready(self) -> Connection:
        """The connection, as soon as there is one."""
        while True:
            if self._failure is not None:
                raise self._failure
            if self._closed or (self._keeper is None and self._connection is None):
                raise LocalProtocolError("the client is not connected")
            if self._connection is not None:
                return self._connection
            await self._connected.wait()

    # --- publishing -----------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        attributes: Mapping[str, Value] | None = None,
        qos: int = 0,
        properties: Properties | None = None,
    ) -> EventId:
        """Publish; at QoS 1 returns when the network has taken the event over."""
        while True:
            connection = await self._ready()
            await connection.writable.wait()
            if self._may_send(connection, qos):
                break
            self._room.clear()
            await self._room.wait()
        outcome = self.publish_nowait(topic, payload, attributes, qos, properties)
        return await outcome

    def publish_nowait(
        self,
        topic: str,
        payload: bytes | str = b"",
        attributes: Mapping[str, Value] | None = None,
        qos: int = 0,
        properties: Properties | None = None,
    ) -> asyncio.Future[EventId]:
        """Publish without waiting: the future is done at once at QoS 0, acknowledged at QoS 1.

        Raises `LocalProtocolError` when there is no connection or too much under way."""
        connection = self._connection
        if connection is None or not self._may_send(connection, qos):
            raise LocalProtocolError("no connection, or too many publications unacknowledged")
        if qos not in (0, 1):
            raise LocalProtocolError(f"cannot publish at QoS {qos}: 0 and 1 are offered")
        if not topic or topic.startswith("$") or "+" in topic or "#" in topic:
            raise LocalProtocolError(
                f"cannot publish on {topic!r}: a topic has at least one character, no wildcard "
                "and no $ at its beginning"
            )
        told: Properties = dict(properties or {})
        if attributes:
            pairs = tuple((name, as_text(value)) for name, value in attributes.items())
            told[Property.USER_PROPERTY] = pairs
        content = payload.encode() if isinstance(payload, str) else payload
        number = self._outgoing.next_packet_id() if qos else 0
        frame = encode(Publish(topic, content, qos, number, properties=told), V5)
        if connection.packet_bytes_max and len(frame) > connection.packet_bytes_max:
            raise LocalProtocolError(
                f"a publication of {len(frame)} bytes, "
                f"the broker takes {connection.packet_bytes_max}"
            )
        outcome: asyncio.Future[EventId] = asyncio.get_running_loop().create_future()
        counter = self._outgoing.sent(frame, qos, outcome if qos else None)
        if not qos:
            outcome.set_result(EventId(self.client_id, self.incarnation, counter))
        connection.write(frame)
        return outcome

    def _may_send(self, connection: Connection, qos: int) -> bool:
        outgoing = self._outgoing
        if len(outgoing) >= TAIL_MAX:
            return False
        return not qos or outgoing.unacknowledged < connection.receive_maximum

    def _make_room(self) -> None:
        self._room.set()

    # --- subscribing and advertising ------------------------------------------------------------

    async def subscribe(
        self,
        topic_filter: str,
        where: str | None = None,
        qos: int = 0,
        *,
        no_local: bool = False,
        on_message: Callable[[Message], None] | None = None,
    ) -> Subscription:
        """Subscribe; returns when the broker has granted it. `Subscription.settled` waits for
        the whole network."""
        connection = await self._ready()
        subscription = Subscription(topic_filter, where, qos, no_local, on_message, self._taken)
        packet, granted = self._requests.subscribe(subscription)
        connection.write(packet)
        await granted
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; what has arrived can still be taken from it."""
        connection = await self._ready()
        packet, answered = self._requests.unsubscribe(subscription)
        connection.write(packet)
        await answered
        subscription.end()

    async def advertise(
        self, topic_filter: str | None = None, where: str | None = None, name: str | None = None
    ) -> Advertisement:
        """Say what will be published; returns when the whole network knows."""
        connection = await self._ready()
        advertisement = Advertisement.of(topic_filter, where, name)
        packet, settled = self._requests.advertise(advertisement)
        connection.write(packet)
        await settled
        return advertisement

    async def unadvertise(self, advertisement: Advertisement) -> None:
        """What was advertised will not be published any more."""
        connection = await self._ready()
        connection.write(self._requests.unadvertise(advertisement))

    # --- receiving ------------------------------------------------------------------------------

    def received(self, packets: list[Packet]) -> None:
        """Called by the connection with everything that one read delivered."""
        for packet in packets:
            match packet:
                case Publish():
                    self._arrived(packet)
                case Puback():
                    self._acknowledged(packet)
                case Suback():
                    self._requests.granted(packet)
                case Unsuback():
                    self._requests.unsubscribed(packet)
                case Pingresp() | Disconnect():
                    pass
                case _:
                    raise RemoteProtocolError(
                        f"the broker sent {type(packet).__name__.upper()} to a client"
                    )
        self._balance()

    def _arrived(self, packet: Publish) -> None:
        if packet.topic.startswith(CONTROL_PREFIX):
            self._requests.told(packet)
            return
        connection = self._connection
        acknowledge: Callable[[], None] | None = None
        if packet.qos and connection is not None:
            answer = encode(Puback(packet.packet_id), V5)

            def acknowledge() -> None:
                connection.write(answer)

        distribute(Message.of(packet), self._requests.subscriptions, acknowledge)

    def _acknowledged(self, packet: Puback) -> None:
        sent = self._outgoing.acknowledge(packet.packet_id)
        if sent is None:
            return
        if sent.outcome is not None and not sent.outcome.done():
            if packet.reason >= ReasonCode.UNSPECIFIED_ERROR:
                error = f"the broker refused the publication: {packet.reason.name}"
                sent.outcome.set_exception(MqttError(error, packet.reason))
            else:
                sent.outcome.set_result(EventId(self.client_id, self.incarnation, sent.counter))
        self._make_room()

    def _taken(self) -> None:
        if self._held:
            self._balance()

    def _balance(self) -> None:
        """Stop reading while the application is far behind, go on when it has caught up."""
        queued = max((s.queued for s in self._requests.subscriptions), default=0)
        hold = queued > (QUEUE_LOW if self._held else QUEUE_HIGH)
        if hold != self._held and self._connection is not None:
            self._held = hold
            self._connection.hold_reading(hold)
