"""Bytes -> packets, for both versions and both directions.

`decode` takes one whole packet without its fixed header. Whatever is wrong with it raises
`MqttError` with the reason code that the specification asks for, never anything else. SUBSCRIBE
and UNSUBSCRIBE, which may hold any number of topic filters, can also be opened and read on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gravitate.errors import MqttError
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import CONNACK_RETURN_CODES_V311, V5, V311, PacketType, ReasonCode
from gravitate.wire.mqtt.primitives import Reader, malformed, protocol_error
from gravitate.wire.mqtt.properties import WILL, Properties, Property, decode_properties

_FLAGS: Final = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}
_CONNACK_REASONS_V311: Final = {code: reason for reason, code in CONNACK_RETURN_CODES_V311.items()}


def decode(first_byte: int, body: bytes, version: int) -> p.Packet:
    """The packet whose fixed header begins with `first_byte` and is followed by `body`.

    `version` is the connection's protocol level; a CONNECT brings its own."""
    kind, flags = first_byte >> 4, first_byte & 0x0F
    if kind == PacketType.PUBLISH:
        return _publish(Reader(body), flags, version)
    decoder = _DECODERS.get(kind)
    if decoder is None or (kind == PacketType.AUTH and version < V5):
        raise malformed(f"there is no packet type {kind} in MQTT {_name(version)}")
    expected = _FLAGS.get(PacketType(kind), 0)
    if flags != expected:
        raise malformed(f"{PacketType(kind).name} with flags {flags:#x} instead of {expected:#x}")
    reader = Reader(body)
    packet = decoder(reader, version)
    reader.finish(PacketType(kind).name)
    return packet


def _name(version: int) -> str:
    return "5" if version >= V5 else "3.1.1"


def _properties(reader: Reader, version: int, place: int) -> Properties:
    return decode_properties(reader, place) if version >= V5 else {}


def _reason(number: int) -> ReasonCode:
    try:
        return ReasonCode(number)
    except ValueError:
        raise malformed(f"there is no reason code {number:#04x}") from None


def _packet_id(reader: Reader) -> int:
    packet_id = reader.u16("the packet identifier")
    if not packet_id:
        raise protocol_error("the packet identifier is 0")
    return packet_id


def _publish(reader: Reader, flags: int, version: int) -> p.Publish:
    qos = flags >> 1 & 3
    if qos == 3:
        raise malformed("PUBLISH with QoS 3")
    if flags & 8 and not qos:
        raise malformed("PUBLISH with QoS 0 and DUP")
    topic = reader.text("the topic")
    packet_id = _packet_id(reader) if qos else 0
    properties = _properties(reader, version, PacketType.PUBLISH)
    alias = properties.get(Property.TOPIC_ALIAS)
    if alias == 0:
        raise MqttError("the topic alias is 0", ReasonCode.TOPIC_ALIAS_INVALID)
    if not topic and alias is None:
        raise protocol_error("PUBLISH without topic and topic alias")
    if "+" in topic or "#" in topic:
        raise MqttError(f"wildcards in the topic {topic!r}", ReasonCode.TOPIC_NAME_INVALID)
    return p.Publish(
        topic, reader.rest(), qos, packet_id, bool(flags & 1), bool(flags & 8), properties
    )


def _connect(reader: Reader, _: int) -> p.Connect:
    name = reader.binary("the protocol name")
    version = reader.byte("the protocol version")
    if name != b"MQTT" or version not in (V311, V5):
        raise MqttError(
            f"protocol {name[:20]!r} version {version}; MQTT versions 4 (3.1.1) and 5 are served",
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        )
    flags = reader.byte("the connect flags")
    if flags & 1:
        raise malformed("the reserved connect flag is set")
    keep_alive_s = reader.u16("the keep alive")
    properties = _properties(reader, version, PacketType.CONNECT)
    if Property.AUTHENTICATION_DATA in properties and (
        Property.AUTHENTICATION_METHOD not in properties
    ):
        raise protocol_error("authentication data without an authentication method")
    client_id = reader.text("the client identifier")
    will = _will(reader, flags, version)
    if version < V5 and flags & 0x40 and not flags & 0x80:
        raise malformed("a password without a user name")
    username = reader.text("the user name") if flags & 0x80 else None
    password = reader.binary("the password") if flags & 0x40 else None
    return p.Connect(
        client_id, version, bool(flags & 2), keep_alive_s, username, password, will, properties
    )


def _will(reader: Reader, flags: int, version: int) -> p.Will | None:
    qos, retain = flags >> 3 & 3, bool(flags & 0x20)
    if not flags & 4:
        if qos or retain:
            raise malformed("will options without a will")
        return None
    if qos == 3:
        raise malformed("a will with QoS 3")
    properties = _properties(reader, version, WILL)
    topic = reader.text("the will topic")
    if "+" in topic or "#" in topic:
        raise MqttError(f"wildcards in the will topic {topic!r}", ReasonCode.TOPIC_NAME_INVALID)
    return p.Will(topic, reader.binary("the will payload"), qos, retain, properties)


def _connack(reader: Reader, version: int) -> p.Connack:
    flags = reader.byte("the acknowledge flags")
    if flags > 1:
        raise malformed(f"CONNACK with acknowledge flags {flags:#04x}")
    number = reader.byte("the reason code")
    if version >= V5:
        reason = _reason(number)
    elif number in _CONNACK_REASONS_V311:
        reason = _CONNACK_REASONS_V311[number]
    else:
        raise malformed(f"there is no CONNACK return code {number}")
    return p.Connack(reason, bool(flags), _properties(reader, version, PacketType.CONNACK))


def _acknowledgement(
    packet: type[p.Puback] | type[p.Pubrec] | type[p.Pubrel] | type[p.Pubcomp], kind: PacketType
) -> Callable[[Reader, int], p.Packet]:
    return lambda reader, version: packet(_packet_id(reader), *_outcome(reader, version, kind))


def _outcome(
    reader: Reader, version: int, kind: PacketType
) -> tuple[()] | tuple[ReasonCode, Properties]:
    """A reason and properties, where a packet that may end before them has them."""
    if version < V5 or not reader.left():
        return ()
    reason = _reason(reader.byte("the reason code"))
    return reason, decode_properties(reader, kind) if reader.left() else {}


Requested = tuple[int, Properties, Iterator[p.TopicRequest]]
"""Of a SUBSCRIBE its packet identifier, its properties, and its topic filters one by one."""
Unwanted = tuple[int, Properties, Iterator[str]]
"""The same of an UNSUBSCRIBE."""


def open_subscribe(reader: Reader, version: int) -> Requested:
    """A SUBSCRIBE whose topic filters are decoded as they are asked for."""
    return *_opened(reader, version, PacketType.SUBSCRIBE), _requests(reader, version)


def _opened(reader: Reader, version: int, kind: PacketType) -> tuple[int, Properties]:
    packet_id = _packet_id(reader)
    properties = _properties(reader, version, kind)
    if not reader.left():
        raise protocol_error(f"{kind.name} without a topic filter")
    return packet_id, properties


def _requests(reader: Reader, version: int) -> Iterator[p.TopicRequest]:
    while reader.left():
        topic_filter = reader.text("a topic filter")
        options = reader.byte("the subscription options")
        qos, retain_handling = options & 3, options >> 4 & 3
        if options & (0xC0 if version >= V5 else 0xFC):
            raise malformed(f"reserved bits in the subscription options {options:#04x}")
        if qos == 3 or retain_handling == 3:
            raise protocol_error(f"the subscription options {options:#04x} do not exist")
        yield p.TopicRequest(
            topic_filter, qos, bool(options & 4), bool(options & 8), retain_handling
        )


def _subscribe(reader: Reader, version: int) -> p.Subscribe:
    packet_id, properties, requests = open_subscribe(reader, version)
    return p.Subscribe(packet_id, tuple(requests), properties)


def _suback(reader: Reader, version: int) -> p.Suback:
    packet_id = _packet_id(reader)
    properties = _properties(reader, version, PacketType.SUBACK)
    return p.Suback(packet_id, tuple(_reason(number) for number in reader.rest()), properties)


def open_unsubscribe(reader: Reader, version: int) -> Unwanted:
    """An UNSUBSCRIBE whose topic filters are decoded as they are asked for."""
    return *_opened(reader, version, PacketType.UNSUBSCRIBE), _topic_filters(reader)


def _topic_filters(reader: Reader) -> Iterator[str]:
    while reader.left():
        yield reader.text("a topic filter")


def _unsubscribe(reader: Reader, version: int) -> p.Unsubscribe:
    packet_id, properties, topic_filters = open_unsubscribe(reader, version)
    return p.Unsubscribe(packet_id, tuple(topic_filters), properties)


def _unsuback(reader: Reader, version: int) -> p.Unsuback:
    packet_id = _packet_id(reader)
    if version < V5:
        return p.Unsuback(packet_id)
    properties = decode_properties(reader, PacketType.UNSUBACK)
    return p.Unsuback(packet_id, tuple(_reason(number) for number in reader.rest()), properties)


def _ending(
    packet: type[p.Disconnect] | type[p.Auth], kind: PacketType
) -> Callable[[Reader, int], p.Packet]:
    return lambda reader, version: packet(*_outcome(reader, version, kind))


_DECODERS: Final[dict[int, Callable[[Reader, int], p.Packet]]] = {
    PacketType.CONNECT: _connect,
    PacketType.CONNACK: _connack,
    PacketType.PUBACK: _acknowledgement(p.Puback, PacketType.PUBACK),
    PacketType.PUBREC: _acknowledgement(p.Pubrec, PacketType.PUBREC),
    PacketType.PUBREL: _acknowledgement(p.Pubrel, PacketType.PUBREL),
    PacketType.PUBCOMP: _acknowledgement(p.Pubcomp, PacketType.PUBCOMP),
    PacketType.SUBSCRIBE: _subscribe,
    PacketType.SUBACK: _suback,
    PacketType.UNSUBSCRIBE: _unsubscribe,
    PacketType.UNSUBACK: _unsuback,
    PacketType.PINGREQ: lambda reader, version: p.Pingreq(),
    PacketType.PINGRESP: lambda reader, version: p.Pingresp(),
    PacketType.DISCONNECT: _ending(p.Disconnect, PacketType.DISCONNECT),
    PacketType.AUTH: _ending(p.Auth, PacketType.AUTH),
}
