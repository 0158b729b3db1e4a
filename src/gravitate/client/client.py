"""`Client`: publish, subscribe and advertise, over connections that come and go.

On each connection a client says everything it still means (subscriptions, advertisements) and
sends again what was not acknowledged, under the counters it had. It marks itself in CONNECT (see
`wire.mqtt.control`), so that the network knows its events by their ids. It connects again when it
loses its broker, and goes to another when its broker asks for that; calls just wait meanwhile.

Owns who waits to publish, and what is received. Where it is connected and what it says again is
`core`'s, sockets `keeping`'s and `connection`'s, bytes `requests`', received messages `messages`',
how far brokers are `pings`'.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from gravitate.client.connection import Connection
from gravitate.client.core import Dial, Policy
from gravitate.client.keeping import ClientCore, Keeper
from gravitate.client.messages import Message, Subscription, distribute
from gravitate.client.pings import Pings
from gravitate.client.requests import Advertisement, Dropped, Frame, Requests
from gravitate.errors import GravitateError, LocalProtocolError, MqttError, RemoteProtocolError
from gravitate.model.events import EventId, Value
from gravitate.wire.mqtt import control
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
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

TAIL_MAX: Final = 65_536
TAIL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Publications that are kept until they are acknowledged, or until the client has moved."""
OPEN_MAX: Final = 32_767
"""Publications of QoS 1 under way: half the packet ids are left to requests."""
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
        follow: bool = True,
        move_s_max: float = 5.0,
    ) -> None:
        self.client_id = client_id or f"gravitate-{secrets.token_hex(8)}"
        self.incarnation = time.time_ns() // 1000
        self._keep_alive_s = keep_alive_s
        self._username = username
        self._password = password
        policy = Policy(follow, (retry_s_min, retry_s_max), move_s_max)
        self._core = core = ClientCore((host, port), policy, lambda: random.uniform(0.5, 1.0))
        self._outgoing = core.outgoing
        self._requests = Requests(core.subscriptions, core.advertisements, core.outgoing)
        self._room = asyncio.Event()
        self._keeper = Keeper(self, core, self._requests)
        self._pings = Pings(core)
        self._closed = False

    # --- life -----------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """Of the broker it is connected to, or was last."""
        return self._core.place[0]

    @property
    def port(self) -> int:
        return self._core.place[1]

    @property
    def reconnects(self) -> int:
        """How often it has connected again after its connection was lost."""
        return max(0, self._core.connects - 1)

    @property
    def moves(self) -> int:
        """How often it has gone to another broker because its own asked for that."""
        return self._core.moves

    async def connect(self) -> None:
        """Connect; raises at once when that fails. From then on connections are renewed."""
        await self._keeper.start()

    async def close(self, timeout_s: float = 5.0) -> None:
        """Wait until publications are acknowledged (so long at most), then disconnect."""
        if self._closed:
            return
        if self._keeper.running:
            arriving = asyncio.create_task(self._keeper.at_home())
            waiting: list[asyncio.Future[Any]] = [arriving, *self._outcomes()]
            await asyncio.wait(waiting, timeout=timeout_s)
            arriving.cancel()
        self._closed = True
        self._pings.stop()
        await self._keeper.stop(timeout_s)
        self.end(RemoteProtocolError("the client was closed"), failed=False)

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

    def introduction(self, dial: Dial) -> Connect:
        """CONNECT, with the mark. Whether one that follows is sent elsewhere is the broker's
        business: one that both publishes and subscribes is not."""
        mark = ClientMark(
            self.incarnation,
            self._outgoing.first_counter,
            dial.connection,
            self._core.policy.follow,
            dial.continues,
        )
        return Connect(
            self.client_id,
            keep_alive_s=self._keep_alive_s,
            username=self._username,
            password=self._password,
            properties={Property.USER_PROPERTY: mark.user_properties()},
        )

    def may_go_on(self) -> None:
        """Something has changed for those who wait to publish."""
        self._room.set()

    def end(self, error: GravitateError, failed: bool) -> None:
        """There will be no further connection: tell everybody who waits."""
        self._room.set()
        for outcome in self._outcomes():
            outcome.set_exception(error)
        self._requests.end(error, failed)

    def _outcomes(self) -> list[asyncio.Future[EventId]]:
        """Those who wait for an acknowledgement."""
        outcomes = (one.body.outcome for one in self._outgoing)
        return [outcome for outcome in outcomes if outcome is not None and not outcome.done()]

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
        await self._sendable(qos)
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
        if not (self._core.takes and self._may_send(qos)):
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
        bytes_max = self._keeper.packet_bytes_max
        if bytes_max and len(frame) > bytes_max:
            raise LocalProtocolError(
                f"a publication of {len(frame)} bytes, the broker takes {bytes_max}"
            )
        outcome: asyncio.Future[EventId] = asyncio.get_running_loop().create_future()
        one = self._core.publish(Frame(frame, outcome if qos else None), qos, len(frame))
        if not qos:
            outcome.set_result(EventId(self.client_id, self.incarnation, one.counter))
        self._keeper.publish(self._core.due())
        return outcome

    async def _sendable(self, qos: int) -> None:
        """Until a publication may be made; one made while the client moves waits there."""
        keeper, core = self._keeper, self._core
        while True:
            keeper.check()
            connection = keeper.connection
            if connection is not None and core.asks:
                await connection.writable.wait()
                if connection is not keeper.connection:
                    continue
            if core.takes and self._may_send(qos):
                return
            self._room.clear()
            await self._room.wait()

    def _may_send(self, qos: int) -> bool:
        outgoing = self._outgoing
        if len(outgoing) >= TAIL_MAX or outgoing.bytes >= TAIL_BYTES_MAX:
            return False
        return not qos or outgoing.unacknowledged < min(self._keeper.receive_maximum, OPEN_MAX)

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
        await self._keeper.ready()
        subscription = Subscription(topic_filter, where, qos, no_local, on_message, self._taken)
        name = subscription.name
        if name in self._core.subscriptions:
            raise LocalProtocolError(f"subscribed already: {name}")
        self._keeper.carry_out(self._core.want(self._core.subscriptions, name, subscription))
        await self._requests.answer("subscribe", name)
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; what has arrived can still be taken from it."""
        await self._keeper.ready()
        name = subscription.name
        if self._core.subscriptions.get(name) is not subscription:
            raise LocalProtocolError(f"not subscribed: {name}")
        dropped = self._core.drop(self._core.subscriptions, name, Dropped(subscription))
        self._keeper.carry_out(dropped)
        await self._requests.answer("unsubscribe", name)
        subscription.end()

    async def advertise(
        self, topic_filter: str | None = None, where: str | None = None, name: str | None = None
    ) -> Advertisement:
        """Say what will be published; returns when the whole network knows."""
        await self._keeper.ready()
        advertisement = Advertisement.of(topic_filter, where, name)
        name = advertisement.name
        self._keeper.carry_out(self._core.want(self._core.advertisements, name, advertisement))
        await self._requests.answer("advertise", name)
        return advertisement

    async def unadvertise(self, advertisement: Advertisement) -> None:
        """What was advertised will not be published any more."""
        await self._keeper.ready()
        name, advertised = advertisement.name, self._core.advertisements
        if name not in advertised:
            raise LocalProtocolError(f"not advertised: {name}")
        self._keeper.carry_out(self._core.drop(advertised, name, Dropped(advertisement)))

    # --- receiving ------------------------------------------------------------------------------

    def received(self, connection: Connection, packets: list[Packet]) -> None:
        """Called by the connection with everything that one read delivered."""
        for packet in packets:
            match packet:
                case Publish():
                    self._arrived(connection, packet)
                case Puback():
                    self._acknowledged(connection, packet)
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

    def _arrived(self, connection: Connection, packet: Publish) -> None:
        if packet.topic.startswith(CONTROL_PREFIX):
            self._told(connection, packet)
            return
        acknowledge: Callable[[], None] | None = None
        if packet.qos:
            answer = encode(Puback(packet.packet_id), V5)

            def acknowledge() -> None:
                connection.write(answer)

        distribute(Message.of(packet), self._core.subscriptions.values(), acknowledge)

    def _told(self, connection: Connection, packet: Publish) -> None:
        match packet.topic:
            case control.REDIRECT:
                server = dict(user_properties(packet.properties)).get("server", "")
                self._keeper.redirected(connection, server)
            case control.STAY:
                self._keeper.carry_out(self._core.stay(connection.number))
            case control.PING:
                self._pings.asked(connection, packet)
            case control.ATTACHED:
                self._keeper.carry_out(self._core.attached(connection.number))
            case _:
                self._requests.told(packet)

    def _acknowledged(self, connection: Connection, packet: Puback) -> None:
        sent = self._core.acknowledged(connection.number, packet.packet_id)
        if sent is None:
            return
        outcome = sent.body.outcome
        if outcome is not None and not outcome.done():
            if packet.reason >= ReasonCode.UNSPECIFIED_ERROR:
                error = f"the broker refused the publication: {packet.reason.name}"
                outcome.set_exception(MqttError(error, packet.reason))
            else:
                outcome.set_result(EventId(self.client_id, self.incarnation, sent.counter))
        self._room.set()

    def _taken(self) -> None:
        connection = self._keeper.connection
        if connection is not None and connection.is_held:
            self._balance()

    def _balance(self) -> None:
        """Stop reading while the application is far behind, go on when it has caught up."""
        connection = self._keeper.connection
        if connection is not None:
            queued = max((s.queued for s in self._core.subscriptions.values()), default=0)
            connection.hold_reading(queued > (QUEUE_LOW if connection.is_held else QUEUE_HIGH))
