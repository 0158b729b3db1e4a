"""What a client says in bytes, and who waits for which answer.

Pure but for the futures of those who wait: makes and reads packets, never sends them.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from gravitate.client.core import Note
from gravitate.client.messages import Subscription
from gravitate.client.outgoing import Outgoing, Publication
from gravitate.errors import GravitateError, MqttError
from gravitate.model.events import EventId
from gravitate.model.language import parse, wanted_filter
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.control import (
    ADVERTISE,
    ADVERTISEMENT,
    ARRIVED,
    PAUSED,
    SETTLED,
    SUBSCRIPTION,
    UNADVERTISE,
    WHERE,
    control_message,
)
from gravitate.wire.mqtt.packets import (
    Publish,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Unsubscribe,
)
from gravitate.wire.mqtt.properties import Properties, Property, reason_text, user_properties

Answer = asyncio.Future[None]


class Frame(NamedTuple):
    """A publication in bytes, and who waits for its acknowledgement."""

    data: bytes
    outcome: asyncio.Future[EventId] | None


class Advertisement(msgspec.Struct, frozen=True):
    """What a client says it will publish."""

    name: str
    topic_filter: str | None
    where: str | None

    @classmethod
    def of(cls, topic_filter: str | None, where: str | None, name: str | None) -> Advertisement:
        """Checked here, so that a mistake is found where it is made."""
        if topic_filter is not None:
            wanted_filter(topic_filter, where)
        elif where is not None:
            parse(where)
        return cls(name or f"{topic_filter or '#'}?{where or ''}", topic_filter, where)


class Dropped(NamedTuple):
    """What is not wanted any more."""

    what: Subscription | Advertisement


class Requests:
    """`subscriptions` and `advertisements` are those of the core: what is refused is taken out."""

    def __init__(
        self,
        subscriptions: dict[str, Subscription],
        advertisements: dict[str, Advertisement],
        outgoing: Outgoing[Frame],
    ) -> None:
        self._subscriptions = subscriptions
        self._advertisements = advertisements
        self._waiting: dict[tuple[str, str], Answer] = {}
        """By what was said, and of which name."""
        self._numbers = outgoing.asked
        """The same by packet id, on this connection."""
        self._next_packet_id = outgoing.next_packet_id

    def answer(self, verb: str, name: str) -> Answer:
        """Done when the broker has answered what was said."""
        answer = self._waiting.get((verb, name))
        if answer is None or answer.done():
            answer = self._waiting[verb, name] = asyncio.get_running_loop().create_future()
        return answer

    def renew(self) -> None:
        """There is a new connection; answers that were awaited on the old come on it."""
        for verb, name in self._numbers.values():
            if verb == "unsubscribe":
                # The session went with the connection, and the subscription with it.
                self._resolve(verb, name)
        self._numbers.clear()

    def encoded(self, word: object) -> bytes:
        match word:
            case Publication():
                data: bytes = word.body.data
                return data
            case Subscription():
                request = TopicRequest(word.topic_filter, word.qos, word.no_local)
                number = self._number("subscribe", word.name)
                return encode(Subscribe(number, (request,), _where(word)), V5)
            case Dropped(Subscription() as what):
                number = self._number("unsubscribe", what.name)
                return encode(Unsubscribe(number, (what.topic_filter,), _where(what)), V5)
            case Advertisement(name, topic_filter, where):
                return control_message(ADVERTISE, name=name, topic=topic_filter, where=where)
            case Dropped(Advertisement(name)):
                return control_message(UNADVERTISE, name=name)
            case Note():
                return control_message(PAUSED if word is Note.PAUSED else ARRIVED)
            case _:
                raise AssertionError(f"nothing a client says: {word!r}")

    def granted(self, packet: Suback) -> None:
        verb, name = self._numbers.pop(packet.packet_id, ("", ""))
        reason = ReasonCode(packet.reasons[0] if packet.reasons else ReasonCode.UNSPECIFIED_ERROR)
        error = None
        if reason >= ReasonCode.UNSPECIFIED_ERROR:
            words = reason_text(packet.properties) or reason.name
            error = MqttError(f"{name} was refused: {words}", reason)
            if name in self._subscriptions:
                self._subscriptions.pop(name).end(error)
        self._resolve(verb, name, error)

    def unsubscribed(self, packet: Unsuback) -> None:
        self._resolve(*self._numbers.pop(packet.packet_id, ("", "")))

    def told(self, packet: Publish) -> None:
        """A control message of the broker."""
        fields = dict(user_properties(packet.properties))
        name, kind = fields.get("name", ""), fields.get("kind")
        if kind == SUBSCRIPTION:
            if name in self._subscriptions:
                self._subscriptions[name].mark_settled()
        elif kind == ADVERTISEMENT and ("advertise", name) in self._waiting:
            error = None
            if packet.topic != SETTLED:
                self._advertisements.pop(name, None)
                words = f"advertisement {name} was refused: {fields.get('reason', '')}"
                error = MqttError(words, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
            self._resolve("advertise", name, error)

    def end(self, error: GravitateError, failed: bool) -> None:
        """The client is over; `failed` says whether that was not its own wish."""
        for verb, name in list(self._waiting):
            self._resolve(verb, name, error)
        for subscription in self._subscriptions.values():
            subscription.end(error if failed else None)
        self._subscriptions.clear()

    def _resolve(self, verb: str, name: str, error: GravitateError | None = None) -> None:
        answer = self._waiting.pop((verb, name), None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    def _number(self, verb: str, name: str) -> int:
        number = self._next_packet_id()
        self._numbers[number] = (verb, name)
        return number


def _where(subscription: Subscription) -> Properties:
    where = subscription.where
    return {} if where is None else {Property.USER_PROPERTY: ((WHERE, where),)}
