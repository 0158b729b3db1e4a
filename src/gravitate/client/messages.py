"""What a client receives: messages, and the subscriptions that they arrive at.

A broker sends a message once however many subscriptions of a client it matches, and does not say
which: the client tests them itself, by the same rules. A message of QoS 1 is acknowledged when
every subscription that it went to has handed it to the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from gravitate.errors import GravitateError
from gravitate.model.events import TOPIC, Value
from gravitate.model.filters import Filter
from gravitate.model.language import wanted_filter
from gravitate.model.semantics import compile_filter
from gravitate.wire.mqtt.bodies import payload_fields
from gravitate.wire.mqtt.control import subscription_name
from gravitate.wire.mqtt.packets import Publish
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

logger = logging.getLogger("gravitate.client")


class Message(msgspec.Struct, frozen=True):
    """One event as it arrived. Attribute values are texts; `properties` has the rest of MQTT."""

    topic: str
    payload: bytes
    attributes: dict[str, str]
    qos: int = 0
    properties: Properties = {}

    @classmethod
    def of(cls, packet: Publish) -> Message:
        properties = dict(packet.properties)
        attributes = dict(user_properties(properties))
        properties.pop(Property.USER_PROPERTY, None)
        return cls(packet.topic, packet.payload, attributes, packet.qos, properties)

    def json(self) -> Any:
        """The payload as a JSON document."""
        return msgspec.json.decode(self.payload)


class Receipt:
    """Counts the subscriptions that still have to hand over a message of QoS 1."""

    __slots__ = ("_acknowledge", "_open")

    def __init__(self, count: int, acknowledge: Callable[[], None]) -> None:
        self._open = count
        self._acknowledge = acknowledge

    def taken(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._acknowledge()


class Subscription:
    """Messages that match; iterate over it, or give `subscribe` a callback.

    The iteration ends when the subscription is ended or the client is closed, and raises when
    the client fails."""

    def __init__(
        self,
        topic_filter: str,
        where: str | None,
        qos: int,
        no_local: bool,
        on_message: Callable[[Message], None] | None,
        changed: Callable[[], None],
    ) -> None:
        self.topic_filter = topic_filter
        self.where = where
        self.qos = qos
        self.no_local = no_local
        self.name = subscription_name(topic_filter, where)
        filter = wanted_filter(topic_filter, where)
        self.matches = compile_filter(filter)
        self.payload_names = _payload_names(filter)
        self._on_message = on_message
        self._changed = changed
        self._queue: deque[tuple[Message, Receipt | None]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: GravitateError | None = None
        self._settled = asyncio.Event()

    @property
    def queued(self) -> int:
        """Messages that the application has not taken yet."""
        return len(self._queue)

    async def settled(self) -> None:
        """Until every matching publication of the whole network is sure to arrive."""
        await self._settled.wait()
        if self._error is not None:
            raise self._error

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Message:
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message, receipt = self._queue.popleft()
        if receipt is not None:
            receipt.taken()
        self._changed()
        return message

    # --- the client's side ----------------------------------------------------------------------

    def take(self, message: Message, receipt: Receipt | None) -> None:
        """A message that matches has arrived."""
        if self._on_message is not None:
            try:
                self._on_message(message)
            except Exception:
                # The application's fault must not cost it the connection.
                logger.exception("a callback of subscription %s failed", self.name)
            if receipt is not None:
                receipt.taken()
            return
        self._queue.append((message, receipt))
        self._wake()

    def mark_settled(self) -> None:
        self._settled.set()

    def end(self, error: GravitateError | None = None) -> None:
        """Nothing more will arrive."""
        self._ended = True
        self._error = error
        self._settled.set()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def distribute(
    message: Message,
    subscriptions: Collection[Subscription],
    acknowledge: Callable[[], None] | None,
) -> None:
    """Hand a message to the subscriptions it matches, and acknowledge it when all have it."""
    chosen = subscriptions
    if len(subscriptions) > 1:
        attributes: dict[str, Value] = {**message.attributes, TOPIC: message.topic}
        wanted = frozenset[str]().union(*(s.payload_names for s in subscriptions))
        if wanted:
            attributes |= payload_fields(message.payload, wanted)
        chosen = [s for s in subscriptions if s.matches(attributes)]
    if not chosen:
        if acknowledge is not None:
            acknowledge()
        return
    receipt = None if acknowledge is None else Receipt(len(chosen), acknowledge)
    for subscription in chosen:
        subscription.take(message, receipt)


def _payload_names(filter: Filter) -> frozenset[str]:
    return frozenset(
        predicate.attribute
        for conjunction in filter.conjunctions
        for predicate in conjunction
        if predicate.attribute.startswith("payload.")
    )
