"""What a Gravitate client and its broker say to each other beyond MQTT, in MQTT's own packets.

A client marks itself in CONNECT with user properties: `$gravitate` (what it is), `$incarnation`
(fixed for the life of the client object, over reconnects), `$counter` (the number of the first
publication it will send on this connection), `$attachment` (how many-th connection of this
incarnation it is), where it goes to another broker when it is told to `$follows`, and where it has
come for a session that was handed over `$continues` (`moved` where it was sent, `back` where it
was). From then on every PUBLISH that is not a control message counts one up, so that events keep
their ids when they are sent again.

Control messages are PUBLISH packets of QoS 0 on topics below `$gravitate/`, which only marked
clients may use; their content is in user properties and the payload is empty, but for `ping` and
`pong`, whose payload is JSON.

    client -> broker   $gravitate/advertise     name, topic (optional), $where (optional)
    client -> broker   $gravitate/unadvertise   name
    broker -> client   $gravitate/settled       kind (advertisement, subscription), name
    broker -> client   $gravitate/refused       kind, name, reason
    broker -> client   $gravitate/redirect      target (a broker), server (host:port)
    client -> broker   $gravitate/paused
    broker -> client   $gravitate/stay
    broker -> client   $gravitate/attached
    client -> broker   $gravitate/arrived
    broker -> client   $gravitate/ping          {"brokers": {id: [host, port]}, "token": n}
    client -> broker   $gravitate/pong          {"token": n, "round_trips_s": {id: seconds}}

An advertisement says that everything the client publishes within the topic filter `topic`
matches `$where`; one of the same name is replaced. A subscription's name is its topic filter,
followed by `?` and its condition where it has one: `subscription_name`.

A client that follows and is redirected publishes nothing more on this connection and says that it
has paused. Either it may stay and go on, or its connection ends with DISCONNECT 0x9D, whose Server
Reference says where it is expected. `attached` tells every marked client that what it publishes on
this connection comes behind everything it has published before, wherever that was; until then a
client that has moved keeps what it sends, and goes back if it waits too long. A subscriber that has
moved, or is back, answers `arrived` behind its subscriptions, and is delivered nothing before that:
so one that goes back has received nothing where it was.

A client that follows may be asked how far brokers are from it, at the ports where they take
clients. It leaves out of its answer those that it could not reach.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeVar

import msgspec

from gravitate.errors import MqttError
from gravitate.model.decoding import decode_json
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.packets import Publish
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

MARK: Final = "$gravitate"
MARK_VALUE: Final = "client/1"
INCARNATION: Final = "$incarnation"
COUNTER: Final = "$counter"
ATTACHMENT: Final = "$attachment"
FOLLOWS: Final = "$follows"
CONTINUES: Final = "$continues"
MOVED: Final = "moved"
BACK: Final = "back"
WHERE: Final = "$where"
"""The user property of a SUBSCRIBE or an advertisement that holds a condition."""
NUMBER_MAX: Final = 10**18 - 1
ATTACHMENT_MAX: Final = (1 << 42) - 1
"""Brokers multiply it by `ATTACHMENTS_MAX` and pass it on in 64 bits."""

MEASURING_BYTES_MAX: Final = 256 * 1024
"""The largest payload of `ping` and `pong`: thousands of brokers."""

CONTROL_PREFIX: Final = "$gravitate/"
ADVERTISE: Final = "$gravitate/advertise"
UNADVERTISE: Final = "$gravitate/unadvertise"
SETTLED: Final = "$gravitate/settled"
REFUSED: Final = "$gravitate/refused"
REDIRECT: Final = "$gravitate/redirect"
PAUSED: Final = "$gravitate/paused"
STAY: Final = "$gravitate/stay"
ATTACHED: Final = "$gravitate/attached"
ARRIVED: Final = "$gravitate/arrived"
PING: Final = "$gravitate/ping"
PONG: Final = "$gravitate/pong"
ADVERTISEMENT: Final = "advertisement"
SUBSCRIPTION: Final = "subscription"


class ClientMark(msgspec.Struct, frozen=True):
    """What a Gravitate client tells of itself in CONNECT."""

    incarnation: int
    counter: int = 1
    attachment: int = 0
    """0: it does not say."""
    follows: bool = False
    continues: str = ""
    """`MOVED`, `BACK`, or nothing."""

    def user_properties(self) -> tuple[tuple[str, str], ...]:
        told = [
            (MARK, MARK_VALUE),
            (INCARNATION, str(self.incarnation)),
            (COUNTER, str(self.counter)),
        ]
        if self.attachment:
            told.append((ATTACHMENT, str(self.attachment)))
        if self.follows:
            told.append((FOLLOWS, "1"))
        if self.continues:
            told.append((CONTINUES, self.continues))
        return tuple(told)


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
    return ClientMark(
        _positive(told, INCARNATION),
        _positive(told, COUNTER),
        _positive(told, ATTACHMENT, most=ATTACHMENT_MAX) if ATTACHMENT in told else 0,
        FOLLOWS in told,
        _continues(told),
    )


def _continues(told: dict[str, str]) -> str:
    text = told.get(CONTINUES, "")
    if text not in ("", MOVED, BACK):
        raise MqttError(
            f"user property {CONTINUES} is {text!r}, expected {MOVED!r} or {BACK!r}",
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        )
    return text


def _positive(told: dict[str, str], name: str, most: int = NUMBER_MAX) -> int:
    text = told.get(name, "")
    # The length is looked at first: digits without end are no number to Python either.
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not (is_short and 0 < int(text) <= most):
        raise MqttError(
            f"user property {name} is {text!r}, expected a number from 1 to {most}",
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        )
    return int(text)


def control_message(topic: str, /, **fields: str | None) -> bytes:
    """A control message as MQTT 5 bytes; fields that are None are left out."""
    pairs = tuple((_FIELD_NAMES.get(k, k), v) for k, v in fields.items() if v is not None)
    return encode(Publish(topic, properties={Property.USER_PROPERTY: pairs}), V5)


class Ping(msgspec.Struct, frozen=True):
    """What is in the payload of `ping`: where brokers take clients."""

    brokers: dict[str, tuple[str, Annotated[int, msgspec.Meta(gt=0, lt=65536)]]]
    token: int


class Pong(msgspec.Struct, frozen=True):
    """What is in the payload of `pong`."""

    token: int
    round_trips_s: dict[str, Annotated[float, msgspec.Meta(ge=0)]]


Measuring = TypeVar("Measuring", Ping, Pong)


def ping_message(ping: Ping) -> bytes:
    return encode(Publish(PING, msgspec.json.encode(ping)), V5)


def pong_message(pong: Pong) -> bytes:
    return encode(Publish(PONG, msgspec.json.encode(pong)), V5)


def payload_of(packet: Publish, kind: type[Measuring]) -> Measuring:
    """What a `ping` or `pong` says."""
    if len(packet.payload) > MEASURING_BYTES_MAX:
        raise MqttError(
            f"{packet.topic!r} with a payload of {len(packet.payload)} bytes, at most "
            f"{MEASURING_BYTES_MAX} are taken",
            ReasonCode.PACKET_TOO_LARGE,
        )
    try:
        said: Measuring = decode_json(packet.payload, kind)
        return said
    except msgspec.DecodeError as problem:
        raise MqttError(
            f"{packet.topic!r} with a payload that is none: {problem}",
            ReasonCode.PAYLOAD_FORMAT_INVALID,
        ) from None


_FIELD_NAMES: Final = {"where": WHERE}


def server_reference(host: str, port: int) -> str:
    """Where a server listens, as the Server Reference property has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_server_reference(text: str) -> tuple[str, int]:
    """Host and port of the first server that a reference names."""
    found = _REFERENCE.fullmatch(text.partition(" ")[0])
    if found is None or not 0 < int(found["port"] or DEFAULT_PORT) < 65536:
        raise MqttError(
            f"the server reference {text!r} is no host and port", ReasonCode.PROTOCOL_ERROR
        )
    return found["name"] or found["v6"], int(found["port"] or DEFAULT_PORT)


DEFAULT_PORT: Final = 1883
_REFERENCE: Final = re.compile(r"(\[(?P<v6>[^\]]+)\]|(?P<name>[^:\[\]]+))(:(?P<port>[0-9]{1,5}))?")


def subscription_name(topic_filter: str, where: str | None) -> str:
    """What a subscription is called in `settled` and `refused`, and by the broker."""
    return topic_filter if where is None else f"{topic_filter}?{where}"
