"""Properties of MQTT 5: one table that says their types, where they may stand and how often.

A packet's properties are a dict from `Property` to its value. User properties are a tuple of
(name, value) pairs and subscription identifiers a tuple of numbers, because these two may be
repeated; everything else stands at most once.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from gravitate.errors import LocalProtocolError, MqttError
from gravitate.wire.mqtt.codes import PROPERTIES_BYTES_MAX, PacketType, ReasonCode
from gravitate.wire.mqtt.primitives import (
    Reader,
    malformed,
    protocol_error,
    write_binary,
    write_text,
    write_u16,
    write_u32,
    write_varint,
)

PropertyValue = int | str | bytes | tuple[int, ...] | tuple[tuple[str, str], ...]


class Property(enum.IntEnum):
    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


Properties = dict[Property, PropertyValue]


class Kind(enum.Enum):
    """How a property's value is written."""

    FLAG = "a byte that is 0 or 1"
    U16 = "a two-byte number"
    POSITIVE_U16 = "a two-byte number above 0"
    U32 = "a four-byte number"
    POSITIVE_U32 = "a four-byte number above 0"
    POSITIVE_VARINT = "a variable byte integer above 0"
    TEXT = "a text"
    BINARY = "binary data"
    PAIR = "a pair of texts"


WILL: Final = 0
"""Stands beside packet types in the table: the properties of a will inside CONNECT."""


class Rule(NamedTuple):
    kind: Kind
    places: frozenset[int]


_P = PacketType
_EVERYWHERE = frozenset(_P) - {_P.PINGREQ, _P.PINGRESP} | {WILL}
_MESSAGE = frozenset({_P.PUBLISH, WILL})
_OPENING = frozenset({_P.CONNECT, _P.CONNACK})
_CONNACK = frozenset({_P.CONNACK})
_CONNECT = frozenset({_P.CONNECT})
_AUTH = _OPENING | {_P.AUTH}

RULES: Final[dict[Property, Rule]] = {
    Property.PAYLOAD_FORMAT_INDICATOR: Rule(Kind.FLAG, _MESSAGE),
    Property.MESSAGE_EXPIRY_INTERVAL: Rule(Kind.U32, _MESSAGE),
    Property.CONTENT_TYPE: Rule(Kind.TEXT, _MESSAGE),
    Property.RESPONSE_TOPIC: Rule(Kind.TEXT, _MESSAGE),
    Property.CORRELATION_DATA: Rule(Kind.BINARY, _MESSAGE),
    Property.SUBSCRIPTION_IDENTIFIER: Rule(
        Kind.POSITIVE_VARINT, frozenset({_P.PUBLISH, _P.SUBSCRIBE})
    ),
    Property.SESSION_EXPIRY_INTERVAL: Rule(Kind.U32, _OPENING | {_P.DISCONNECT}),
    Property.ASSIGNED_CLIENT_IDENTIFIER: Rule(Kind.TEXT, _CONNACK),
    Property.SERVER_KEEP_ALIVE: Rule(Kind.U16, _CONNACK),
    Property.AUTHENTICATION_METHOD: Rule(Kind.TEXT, _AUTH),
    Property.AUTHENTICATION_DATA: Rule(Kind.BINARY, _AUTH),
    Property.REQUEST_PROBLEM_INFORMATION: Rule(Kind.FLAG, _CONNECT),
    Property.WILL_DELAY_INTERVAL: Rule(Kind.U32, frozenset({WILL})),
    Property.REQUEST_RESPONSE_INFORMATION: Rule(Kind.FLAG, _CONNECT),
    Property.RESPONSE_INFORMATION: Rule(Kind.TEXT, _CONNACK),
    Property.SERVER_REFERENCE: Rule(Kind.TEXT, _CONNACK | {_P.DISCONNECT}),
    Property.REASON_STRING: Rule(
        Kind.TEXT,
        frozenset(_P)
        - {_P.CONNECT, _P.PUBLISH, _P.SUBSCRIBE, _P.UNSUBSCRIBE, _P.PINGREQ, _P.PINGRESP},
    ),
    Property.RECEIVE_MAXIMUM: Rule(Kind.POSITIVE_U16, _OPENING),
    Property.TOPIC_ALIAS_MAXIMUM: Rule(Kind.U16, _OPENING),
    Property.TOPIC_ALIAS: Rule(Kind.U16, frozenset({_P.PUBLISH})),
    Property.MAXIMUM_QOS: Rule(Kind.FLAG, _CONNACK),
    Property.RETAIN_AVAILABLE: Rule(Kind.FLAG, _CONNACK),
    Property.USER_PROPERTY: Rule(Kind.PAIR, _EVERYWHERE),
    Property.MAXIMUM_PACKET_SIZE: Rule(Kind.POSITIVE_U32, _OPENING),
    Property.WILDCARD_SUBSCRIPTION_AVAILABLE: Rule(Kind.FLAG, _CONNACK),
    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: Rule(Kind.FLAG, _CONNACK),
    Property.SHARED_SUBSCRIPTION_AVAILABLE: Rule(Kind.FLAG, _CONNACK),
}


def place_name(place: int) -> str:
    return PacketType(place).name if place else "a will"


def decode_properties(reader: Reader, place: int) -> Properties:
    """The properties at the reader's position, length included, as allowed in `place`."""
    size = reader.varint("the property length")
    if size > reader.left():
        raise malformed(f"properties of {size} bytes in a packet with {reader.left()} left")
    if size > PROPERTIES_BYTES_MAX:
        raise MqttError(
            f"properties of {size} bytes in {place_name(place)}, at most {PROPERTIES_BYTES_MAX} "
            "are taken",
            ReasonCode.PACKET_TOO_LARGE,
        )
    if not size:
        return {}
    end = reader.position + size
    inner = Reader(reader.data, reader.position, end)
    reader.position = end
    found: Properties = {}
    pairs: list[tuple[str, str]] = []
    identifiers: list[int] = []
    while inner.position < end:
        number = inner.varint("a property identifier")
        try:
            prop = Property(number)
        except ValueError:
            raise malformed(f"there is no property {number:#04x}") from None
        rule = RULES[prop]
        if place not in rule.places:
            raise malformed(f"property {prop.name} is not allowed in {place_name(place)}")
        if prop is Property.USER_PROPERTY:
            name = inner.text("the name of a user property")
            pairs.append((name, inner.text("the value of a user property")))
            continue
        value = _decode_value(inner, prop, rule.kind)
        if prop is Property.SUBSCRIPTION_IDENTIFIER:
            assert isinstance(value, int)
            if identifiers and place == PacketType.SUBSCRIBE:
                raise protocol_error(f"property {prop.name} stands twice")
            identifiers.append(value)
        elif prop in found:
            raise protocol_error(f"property {prop.name} stands twice")
        else:
            found[prop] = value
    if identifiers:
        found[Property.SUBSCRIPTION_IDENTIFIER] = tuple(identifiers)
    if pairs:
        found[Property.USER_PROPERTY] = tuple(pairs)
    return found


def _decode_value(reader: Reader, prop: Property, kind: Kind) -> int | str | bytes:
    what = prop.name
    match kind:
        case Kind.FLAG:
            value = reader.byte(what)
            if value > 1:
                raise protocol_error(f"property {what} is {value}, not 0 or 1")
            return value
        case Kind.U16:
            return reader.u16(what)
        case Kind.U32:
            return reader.u32(what)
        case Kind.TEXT:
            text = reader.text(what)
            if prop is Property.RESPONSE_TOPIC and ("+" in text or "#" in text):
                raise protocol_error(f"wildcards in the response topic {text!r}")
            return text
        case Kind.BINARY:
            return reader.binary(what)
        case Kind.POSITIVE_U16:
            value = reader.u16(what)
        case Kind.POSITIVE_U32:
            value = reader.u32(what)
        case _:
            value = reader.varint(what)
    if value == 0:
        raise protocol_error(f"property {what} is 0")
    return value


def encode_properties(properties: Properties, place: int) -> bytes:
    """The properties with their length in front, as allowed in `place`."""
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for prop, value in properties.items():
        kind, places = RULES[prop]
        if place not in places:
            raise LocalProtocolError(f"property {prop.name} is not allowed in {place_name(place)}")
        if prop is Property.USER_PROPERTY or prop is Property.SUBSCRIPTION_IDENTIFIER:
            if not isinstance(value, tuple):
                raise LocalProtocolError(f"property {prop.name} takes a tuple, not {value!r}")
            parts += [_encode_value(prop, kind, one) for one in value]
        else:
            parts.append(_encode_value(prop, kind, value))
    encoded = b"".join(parts)
    return write_varint(len(encoded)) + encoded


def _encode_value(prop: Property, kind: Kind, value: object) -> bytes:
    tag = bytes((prop,))
    match kind, value:
        case Kind.PAIR, (str() as name, str() as text):
            return tag + write_text(name) + write_text(text)
        case Kind.TEXT, str():
            return tag + write_text(value)
        case Kind.BINARY, bytes():
            return tag + write_binary(value)
        case Kind.FLAG, 0 | 1:
            return tag + bytes((int(value),))
        case ((Kind.U16 | Kind.POSITIVE_U16), int()):
            if value or kind is Kind.U16:
                return tag + write_u16(value)
        case ((Kind.U32 | Kind.POSITIVE_U32), int()):
            if value or kind is Kind.U32:
                return tag + write_u32(value)
        case Kind.POSITIVE_VARINT, int():
            if value:
                return tag + write_varint(value)
    raise LocalProtocolError(f"property {prop.name} takes {kind.value}, not {value!r}")


def user_properties(properties: Properties) -> tuple[tuple[str, str], ...]:
    """The user properties, in the order in which they were sent."""
    value = properties.get(Property.USER_PROPERTY, ())
    assert isinstance(value, tuple)
    return value  # type: ignore[return-value]


def number(properties: Properties, prop: Property, default: int) -> int:
    """The value of a numeric property, or `default` where it is missing."""
    value = properties.get(prop, default)
    assert isinstance(value, int)
    return value


def reason_text(properties: Properties) -> str:
    """The reason string, empty where there is none."""
    return str(properties.get(Property.REASON_STRING, ""))
