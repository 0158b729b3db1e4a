"""Packets -> bytes, for both versions and both directions.

A packet that the version cannot express raises `LocalProtocolError`. Acknowledgements and
DISCONNECT are written in their shortest form.
"""

from __future__ import annotations

from typing import Final

from gravitate.errors import LocalProtocolError
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import CONNACK_RETURN_CODES_V311, V5, PacketType, ReasonCode
from gravitate.wire.mqtt.primitives import write_binary, write_text, write_u16, write_varint
from gravitate.wire.mqtt.properties import WILL, Properties, encode_properties

_SUBACK_CODES_V311: Final = bytes(min(code, 0x80) for code in range(256))
"""In 3.1.1 a subscription is granted or not; why is not said."""


def encode(packet: p.Packet, version: int) -> bytes:
    """The whole packet, fixed header included."""
    match packet:
        case p.Publish():
            return _publish(packet, version)
        case p.Puback():
            return _acknowledgement(PacketType.PUBACK, packet, version)
        case p.Subscribe():
            options = [
                write_text(one.topic_filter) + bytes((_options(one, version),))
                for one in packet.requests
            ]
            return _identified(PacketType.SUBSCRIBE, packet, version, b"".join(options))
        case p.Suback():
            return _identified(
                PacketType.SUBACK, packet, version, _suback_codes(packet.reasons, version)
            )
        case p.Unsubscribe():
            names = b"".join(map(write_text, packet.topic_filters))
            return _identified(PacketType.UNSUBSCRIBE, packet, version, names)
        case p.Unsuback():
            codes = bytes(packet.reasons) if version >= V5 else b""
            return _identified(PacketType.UNSUBACK, packet, version, codes)
        case p.Connect():
            return _connect(packet)
        case p.Connack():
            return _connack(packet, version)
        case p.Disconnect():
            return _ending(PacketType.DISCONNECT, packet, version)
        case p.Pingreq():
            return b"\xc0\0"
        case p.Pingresp():
            return b"\xd0\0"
        case p.Pubrec():
            return _acknowledgement(PacketType.PUBREC, packet, version)
        case p.Pubrel():
            return _acknowledgement(PacketType.PUBREL, packet, version)
        case p.Pubcomp():
            return _acknowledgement(PacketType.PUBCOMP, packet, version)
        case p.Auth():
            if version < V5:
                raise LocalProtocolError("there is no AUTH in MQTT 3.1.1")
            return _ending(PacketType.AUTH, packet, version)


def _framed(first_byte: int, body: bytes) -> bytes:
    return bytes((first_byte,)) + write_varint(len(body)) + body


def _properties(properties: Properties, version: int, place: int) -> bytes:
    return encode_properties(properties, place) if version >= V5 else b""


def _packet_id(packet_id: int) -> bytes:
    if not packet_id:
        raise LocalProtocolError("a packet identifier is needed and must not be 0")
    return write_u16(packet_id)


def _publish(packet: p.Publish, version: int) -> bytes:
    if not 0 <= packet.qos <= 2:
        raise LocalProtocolError(f"there is no QoS {packet.qos}")
    flags = packet.dup << 3 | packet.qos << 1 | packet.retain
    topic = write_text(packet.topic)
    packet_id = _packet_id(packet.packet_id) if packet.qos else b""
    properties = _properties(packet.properties, version, PacketType.PUBLISH)
    head = topic + packet_id + properties
    return (
        bytes((0x30 | flags,))
        + write_varint(len(head) + len(packet.payload))
        + head
        + packet.payload
    )


def _connect(packet: p.Connect) -> bytes:
    version, will = packet.version, packet.will
    flags = packet.clean_start << 1
    tail = [write_text(packet.client_id)]
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
        tail += [
            _properties(will.properties, version, WILL),
            write_text(will.topic),
            write_binary(will.payload),
        ]
    if packet.username is not None:
        flags |= 0x80
        tail.append(write_text(packet.username))
    if packet.password is not None:
        if packet.username is None and version < V5:
            raise LocalProtocolError("MQTT 3.1.1 has no password without a user name")
        flags |= 0x40
        tail.append(write_binary(packet.password))
    head = write_binary(b"MQTT") + bytes((version, flags)) + write_u16(packet.keep_alive_s)
    properties = _properties(packet.properties, version, PacketType.CONNECT)
    return _framed(PacketType.CONNECT << 4, head + properties + b"".join(tail))


def _connack(packet: p.Connack, version: int) -> bytes:
    code = int(packet.reason)
    if version < V5:
        unavailable = CONNACK_RETURN_CODES_V311[ReasonCode.SERVER_UNAVAILABLE]
        code = CONNACK_RETURN_CODES_V311.get(packet.reason, unavailable)
    body = bytes((packet.session_present, code))
    properties = _properties(packet.properties, version, PacketType.CONNACK)
    return _framed(PacketType.CONNACK << 4, body + properties)


def _acknowledgement(
    kind: PacketType, packet: p.Puback | p.Pubrec | p.Pubrel | p.Pubcomp, version: int
) -> bytes:
    body = _packet_id(packet.packet_id)
    if version >= V5 and (packet.reason or packet.properties):
        body += bytes((packet.reason,))
        if packet.properties:
            body += encode_properties(packet.properties, kind)
    return _framed(kind << 4 | (2 if kind is PacketType.PUBREL else 0), body)


def _options(request: p.TopicRequest, version: int) -> int:
    if version < V5:
        return request.qos
    return (
        request.qos
        | request.no_local << 2
        | request.retain_as_published << 3
        | request.retain_handling << 4
    )


def _suback_codes(reasons: tuple[ReasonCode, ...] | bytes, version: int) -> bytes:
    codes = bytes(reasons)
    return codes if version >= V5 else codes.translate(_SUBACK_CODES_V311)


def _identified(
    kind: PacketType,
    packet: p.Subscribe | p.Suback | p.Unsubscribe | p.Unsuback,
    version: int,
    rest: bytes,
) -> bytes:
    flags = 2 if kind in (PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE) else 0
    properties = _properties(packet.properties, version, kind)
    return _framed(kind << 4 | flags, _packet_id(packet.packet_id) + properties + rest)


def _ending(kind: PacketType, packet: p.Disconnect | p.Auth, version: int) -> bytes:
    body = b""
    if version >= V5 and (packet.reason or packet.properties):
        body = bytes((packet.reason,))
        # Only DISCONNECT may leave out an empty property length behind a reason.
        if packet.properties or kind is PacketType.AUTH:
            body += encode_properties(packet.properties, kind)
    return _framed(kind << 4, body)
