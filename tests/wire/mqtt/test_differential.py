"""Our codec against two others: what we write they read alike, what they write we read alike."""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ohmqtt.error import MQTTError
from ohmqtt.packet import decode_packet
from tests.wire.mqtt.strategies import packets, publishes

from gravitate.errors import MqttError
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import decode, encode, frame_end
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.properties import Properties, Property

DEFAULTS: Properties = {
    Property.PAYLOAD_FORMAT_INDICATOR: 0,
    Property.RECEIVE_MAXIMUM: 65535,
    Property.TOPIC_ALIAS_MAXIMUM: 0,
    Property.RETAIN_AVAILABLE: 1,
    Property.WILDCARD_SUBSCRIPTION_AVAILABLE: 1,
    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 1,
    Property.SHARED_SUBSCRIPTION_AVAILABLE: 1,
    Property.REQUEST_PROBLEM_INFORMATION: 1,
    Property.REQUEST_RESPONSE_INFORMATION: 0,
    Property.SESSION_EXPIRY_INTERVAL: 0,
    Property.WILL_DELAY_INTERVAL: 0,
}
"""What means the same as being absent; `mqtt5` does not tell the two apart."""


def ours(data: bytes) -> p.Packet:
    body, end = frame_end(data, 0, len(data))
    assert end == len(data)
    return decode(data[0], data[body:end], V5)


def without_defaults(properties: Properties) -> Properties:
    return {q: v for q, v in properties.items() if q not in DEFAULTS or DEFAULTS[q] != v}


def essential(packet: p.Packet) -> p.Packet:
    """The packet without properties that say what holds anyway."""
    if isinstance(packet, p.Pingreq | p.Pingresp):
        return packet
    fields = {name: getattr(packet, name) for name in packet.__struct_fields__}
    fields["properties"] = without_defaults(packet.properties)
    if isinstance(packet, p.Connect) and packet.will is not None:
        will = {name: getattr(packet.will, name) for name in packet.will.__struct_fields__}
        will["properties"] = without_defaults(packet.will.properties)
        fields["will"] = p.Will(**will)
    return type(packet)(**fields)


def unordered(packet: p.Packet) -> p.Packet:
    """The packet with its subscription identifiers sorted: `ohmqtt` keeps them in a set."""
    if isinstance(packet, p.Publish) and Property.SUBSCRIPTION_IDENTIFIER in packet.properties:
        numbers = packet.properties[Property.SUBSCRIPTION_IDENTIFIER]
        assert isinstance(numbers, tuple)
        packet.properties[Property.SUBSCRIPTION_IDENTIFIER] = tuple(sorted(numbers))
    return packet


@given(packets(V5))
def test_mqtt5_reads_what_we_write_and_we_read_what_it_writes(packet: p.Packet) -> None:
    # It does not know the shortest form of AUTH.
    assume(packet != p.Auth())
    data = encode(packet, V5)
    theirs, size = mqtt5.read(memoryview(data))
    assert size == len(data)
    assert essential(ours(theirs.write())) == essential(packet)


@given(packets(V5))
def test_ohmqtt_reads_what_we_write_and_we_read_what_it_writes(packet: p.Packet) -> None:
    # It writes acknowledgements with properties without their reason code.
    assume(not isinstance(packet, p.Puback | p.Pubrec | p.Pubrel | p.Pubcomp))
    theirs = decode_packet(encode(packet, V5))
    assert unordered(ours(bytes(theirs.encode()))) == unordered(packet)


@given(publishes(V5), st.data())
def test_a_damaged_publish_that_we_accept_is_accepted_by_others(
    packet: p.Publish, data: st.DataObject
) -> None:
    frame = bytearray(encode(packet, V5))
    at = data.draw(st.integers(2, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    try:
        mine = ours(bytes(frame))
    except (MqttError, AssertionError):
        return
    assert isinstance(mine, p.Publish)
    try:
        theirs = decode_packet(bytes(frame))
    except MQTTError as error:
        pytest.fail(f"ohmqtt refuses {bytes(frame)!r}: {error}")
    assert (theirs.topic, theirs.payload) == (mine.topic, mine.payload)
