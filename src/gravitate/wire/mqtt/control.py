"""What a Gravitate client and its broker say to each other beyond MQTT, in MQTT's own packets.

A client marks itself in CONNECT with user properties: `$gravitate` (what it is), `$incarnation`
(fixed for the life of the client object, over reconnects) and `$counter` (the number of the first
publication it will send on this connection). From then on every PUBLISH that is not a control
message counts one up, so that events keep their ids when they are sent again.

Control messages are PUBLISH packets of QoS 0 on topics below `$gravitate/`, which only marked
clients may use; their content is in user properties and the payload is empty.

    client -> broker   $gravitate/advertise     name, topic (optional), $where (optional)
    client -> broker   $gravitate/unadvertise   name
    broker -> client   $gravitate/settled       kind (advertisement, subscription), name
    broker -> client   $gravitate/refused       kind, name, reason

An advertisement says that everything the client publishes within the topic filter `topic`
matches `$where`; one of the same name is replaced. A subscription's name is its topic filter,
followed by `?` and its condition where it has one: `subscription_name`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gravitate.errors import MqttError
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.packets import Publish
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

MARK: Final = "$gravitate"
MARK_VALUE: Final = "client/1"
INCARNATION: Final = "$incarnation"
COUNTER: Final = "$counter"
WHERE: Final = "$where"
"""The user property of a SUBSCRIBE or an advertisement that holds a condition."""

CONTROL_PREFIX: Final = "$gravitate/"
ADVERTISE: Final = "$gravitate/advertise"
UNADVERTISE: Final = "$gravitate/unadvertise"
SETTLED: Final = "$gravitate/settled"
REFUSED: Final = "$gravitate/refused"
ADVERTISEMENT: Final = "advertisement"
SUBSCRIPTION: Final = "subscription"


class ClientMark(msgspec.Struct, frozen=True):
    """What a Gravitate client tells of itself in CONNECT."""

    incarnation: int
    counter: int = 1

    def user_properties(self) -> tuple[tuple[str, str], ...]:
        return (
            (MARK, MARK_VALUE),
            (INCARNATION, str(self.incarnation)),
            (COUNTER, str(self.counter)),
        )


def client_mark(properties: Properties) -> ClientMark | None:
    """The mark in a CONNECT's properties; None for a stock client."""
    told = dict(user_properties(properties))
    if MARK not in told:
        return None
    if told[MARK] != MARK_VALUE:
        raise MqttError(
            f"{MARK} is {told[MARK]!r}, known is {MARK_VALUE!r}",
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        )
    return ClientMark(_positive(told, INCARNATION), _positive(told, COUNTER))


def _positive(told: dict[str, str], name: str) -> int:
    text = told.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise MqttError(
            f"user property {name} is {text!r}, expected a number above 0",
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        )
    return int(text)


def control_message(topic: str, /, **fields: str | None) -> bytes:
    """A control message as MQTT 5 bytes; fields that are None are left out."""
    pairs = tuple((_FIELD_NAMES.get(k, k), v) for k, v in fields.items() if v is not None)
    return encode(Publish(topic, properties={Property.USER_PROPERTY: pairs}), V5)


_FIELD_NAMES: Final = {"where": WHERE}


def subscription_name(topic_filter: str, where: str | None) -> str:
    """What a subscription is called in `settled` and `refused`, and by the broker."""
    return topic_filter if where is None else f"{topic_filter}?{where}"
