"""What a client has asked of its broker: subscriptions and advertisements, granted or pending.

Knows who waits for which answer, and what must be said again on a new connection. Pure: makes and
reads packets, never sends them.
"""

from __future__ import annotations

import asyncio

import msgspec

from gravitate.client.messages import Subscription
from gravitate.errors import GravitateError, LocalProtocolError, MqttError
from gravitate.model.language import parse, wanted_filter
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.control import (
    ADVERTISE,
    ADVERTISEMENT,
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

    def packet(self) -> bytes:
        return control_message(ADVERTISE, name=self.name, topic=self.topic_filter, where=self.where)


class Requests:
    """Everything asked for on this client, in the order in which it was asked."""

    def __init__(self) -> None:
        self.subscriptions: list[Subscription] = []
        self._advertisements: dict[str, Advertisement] = {}
        self._subscribing: dict[int, tuple[Subscription, Answer]] = {}
        self._unsubscribing: dict[int, tuple[Subscription, Answer]] = {}
        self._advertising: dict[str, Answer] = {}
        self._last_packet_id = 0

    def renewed(self) -> list[bytes]:
        """What is said on a new connection; answers that were awaited on the old come on it."""
        pending = {id(s): answer for s, answer in self._subscribing.values()}
        self._subscribing.clear()
        said = [one.packet() for one in self._advertisements.values()]
        for _, answer in self._unsubscribing.values():
            # The session went with the connection, and the subscription with it.
            _resolve(answer)
        self._unsubscribing.clear()
        for subscription in self.subscriptions:
            number = self._packet_id()
            answer = pending.get(id(subscription)) or _answer()
            self._subscribing[number] = (subscription, answer)
            said.append(_subscribe_packet(number, subscription))
        return said

    def subscribe(self, subscription: Subscription) -> tuple[bytes, Answer]:
        if any(one.name == subscription.name for one in self.subscriptions):
            raise LocalProtocolError(f"subscribed already: {subscription.name}")
        number, answer = self._packet_id(), _answer()
        self._subscribing[number] = (subscription, answer)
        self.subscriptions.append(subscription)
        return _subscribe_packet(number, subscription), answer

    def granted(self, packet: Suback) -> None:
        subscription, answer = self._subscribing.pop(packet.packet_id, (None, None))
        if subscription is None or answer is None:
            return
        reason = ReasonCode(packet.reasons[0] if packet.reasons else ReasonCode.UNSPECIFIED_ERROR)
        if reason < ReasonCode.UNSPECIFIED_ERROR:
            _resolve(answer)
            return
        words = reason_text(packet.properties) or reason.name
        error = MqttError(f"{subscription.name} was refused: {words}", reason)
        self.subscriptions.remove(subscription)
        subscription.end(error)
        if not answer.done():
            answer.set_exception(error)

    def unsubscribe(self, subscription: Subscription) -> tuple[bytes, Answer]:
        if subscription not in self.subscriptions:
            raise LocalProtocolError(f"not subscribed: {subscription.name}")
        self.subscriptions.remove(subscription)
        number, answer = self._packet_id(), _answer()
        self._unsubscribing[number] = (subscription, answer)
        told = _where(subscription)
        return encode(Unsubscribe(number, (subscription.topic_filter,), told), V5), answer

    def unsubscribed(self, packet: Unsuback) -> None:
        _, answer = self._unsubscribing.pop(packet.packet_id, (None, None))
        if answer is not None:
            _resolve(answer)

    def advertise(self, advertisement: Advertisement) -> tuple[bytes, Answer]:
        self._advertisements[advertisement.name] = advertisement
        answer = self._advertising[advertisement.name] = _answer()
        return advertisement.packet(), answer

    def unadvertise(self, advertisement: Advertisement) -> bytes:
        if self._advertisements.pop(advertisement.name, None) is None:
            raise LocalProtocolError(f"not advertised: {advertisement.name}")
        return control_message(UNADVERTISE, name=advertisement.name)

    def told(self, packet: Publish) -> None:
        """A control message of the broker."""
        fields = dict(user_properties(packet.properties))
        name, kind = fields.get("name", ""), fields.get("kind")
        if kind == SUBSCRIPTION:
            for subscription in self.subscriptions:
                if subscription.name == name:
                    subscription.mark_settled()
            return
        answer = self._advertising.pop(name, None)
        if answer is None or answer.done() or kind != ADVERTISEMENT:
            return
        if packet.topic == SETTLED:
            answer.set_result(None)
        else:
            self._advertisements.pop(name, None)
            error = f"advertisement {name} was refused: {fields.get('reason', '')}"
            answer.set_exception(MqttError(error, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR))

    def end(self, error: GravitateError, failed: bool) -> None:
        """The client is over; `failed` says whether that was not its own wish."""
        waiting = [answer for _, answer in self._subscribing.values()]
        waiting += [answer for _, answer in self._unsubscribing.values()]
        for answer in (*waiting, *self._advertising.values()):
            if not answer.done():
                answer.set_exception(error)
                # Renewed subscriptions have nobody who waits.
                answer.exception()
        for subscription in self.subscriptions:
            subscription.end(error if failed else None)
        self.subscriptions = []

    def _packet_id(self) -> int:
        self._last_packet_id = self._last_packet_id % 65535 + 1
        return self._last_packet_id


def _answer() -> Answer:
    return asyncio.get_running_loop().create_future()


def _resolve(answer: Answer) -> None:
    if not answer.done():
        answer.set_result(None)


def _where(subscription: Subscription) -> Properties:
    where = subscription.where
    return {} if where is None else {Property.USER_PROPERTY: ((WHERE, where),)}


def _subscribe_packet(number: int, subscription: Subscription) -> bytes:
    request = TopicRequest(subscription.topic_filter, subscription.qos, subscription.no_local)
    return encode(Subscribe(number, (request,), _where(subscription)), V5)
