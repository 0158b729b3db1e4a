from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.mqtt.strategies import packets, versions

from gravitate.errors import LocalProtocolError, MqttError
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, decode, encode, frame_end
from gravitate.wire.mqtt.codes import V5, V311, PacketType, ReasonCode
from gravitate.wire.mqtt.decoder import open_subscribe, open_unsubscribe
from gravitate.wire.mqtt.primitives import Reader
from gravitate.wire.mqtt.properties import RULES, Property

Result = TypeVar("Result")


def read_one(data: bytes, version: int) -> p.Packet:
    body, end = frame_end(data, 0, len(data))
    assert end == len(data)
    return decode(data[0], data[body:end], version)


def refused_or(attempt: Callable[[], Result]) -> Result | None:
    """What the attempt gives, or None when it is refused with a reason code for errors."""
    code = 0x80
    try:
        return attempt()
    except MqttError as error:
        code = error.reason_code
    assert ReasonCode(code) >= ReasonCode.UNSPECIFIED_ERROR
    return None


@given(st.data(), versions)
def test_every_packet_comes_back_as_it_was(data: st.DataObject, version: int) -> None:
    packet = data.draw(packets(version))
    assert read_one(encode(packet, version), version) == packet


@given(st.data(), versions)
def test_a_stream_cut_anywhere_gives_the_same_packets(data: st.DataObject, version: int) -> None:
    sent = data.draw(st.lists(packets(version), max_size=5))
    stream = b"".join(encode(packet, version) for packet in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = PacketReader(version)
    got: list[p.Packet] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reader.feed(stream[start:end])
    assert got == sent


@given(st.integers(0, 255), st.binary(max_size=60), versions)
def test_any_bytes_decode_or_raise_mqtt_error(first: int, body: bytes, version: int) -> None:
    packet = refused_or(lambda: decode(first, body, version))
    if packet is not None:
        assert type(packet).__name__.upper() == PacketType(first >> 4).name


@given(st.data(), versions)
def test_a_damaged_packet_decodes_or_raises_mqtt_error(data: st.DataObject, version: int) -> None:
    frame = bytearray(encode(data.draw(packets(version)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(1, len(frame))) :]
    refused_or(lambda: PacketReader(version).feed(bytes(frame)))


MALFORMED = ReasonCode.MALFORMED_PACKET
PROTOCOL = ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("what", "first", "body", "code"),
    [
        ("packet type 0", 0x00, "", MALFORMED),
        ("SUBSCRIBE with wrong flags", 0x80, "000100000161 00", MALFORMED),
        ("QoS 3", 0x36, "0001610001 00", MALFORMED),
        ("DUP at QoS 0", 0x38, "000161 00", MALFORMED),
        ("packet id 0", 0x32, "000161 0000 00", PROTOCOL),
        ("no topic, no alias", 0x30, "0000 00", PROTOCOL),
        ("topic alias 0", 0x30, "000161 03 230000", ReasonCode.TOPIC_ALIAS_INVALID),
        ("wildcard in a topic", 0x30, "0003612f2b 00", ReasonCode.TOPIC_NAME_INVALID),
        ("topic that is not UTF-8", 0x30, "0001ff 00", MALFORMED),
        ("topic with a surrogate", 0x30, "0003eda080 00", MALFORMED),
        ("topic with U+0000", 0x30, "000100 00", MALFORMED),
        ("topic past the end", 0x30, "000961 00", MALFORMED),
        ("properties past the end", 0x30, "000161 7f", MALFORMED),
        ("unknown property", 0x30, "000161 02 7f00", MALFORMED),
        ("property of another packet", 0x30, "000161 03 210001", MALFORMED),
        ("property twice", 0x30, "000161 04 01000100", PROTOCOL),
        ("flag above 1", 0x30, "000161 02 0102", PROTOCOL),
        ("length not shortest", 0x30, "000161 8000", MALFORMED),
        ("SUBSCRIBE without filters", 0x82, "0001 00", PROTOCOL),
        ("reserved subscription option", 0x82, "0001 00 000161 40", MALFORMED),
        ("subscription QoS 3", 0x82, "0001 00 000161 03", PROTOCOL),
        ("retain handling 3", 0x82, "0001 00 000161 30", PROTOCOL),
        ("identifier twice", 0x82, "0001 04 0b010b02 000161 00", PROTOCOL),
        ("UNSUBSCRIBE without filters", 0xA2, "0001 00", PROTOCOL),
        ("bytes too many", 0xC0, "00", MALFORMED),
        ("unknown reason code", 0x40, "0001 7f", MALFORMED),
        ("MQTT 3.1", 0x10, "00064d514973647003 02 0000 0000", 0x84),
        ("MQTT 6", 0x10, "00044d51545406 02 0000 00 0000", 0x84),
        ("reserved connect flag", 0x10, "00044d51545405 03 0000 00 0000", MALFORMED),
        ("will QoS without will", 0x10, "00044d51545405 0a 0000 00 0000", MALFORMED),
        ("Receive Maximum 0", 0x10, "00044d51545405 02 0000 03 210000 0000", PROTOCOL),
    ],
)
def test_malformed_packets_have_the_reason_code_of_the_specification(
    what: str, first: int, body: str, code: int
) -> None:
    with pytest.raises(MqttError) as caught:
        decode(first, bytes.fromhex(body), V5)
    assert caught.value.reason_code == code, what


def test_a_length_of_five_bytes_is_malformed_and_a_large_one_is_too_large() -> None:
    with pytest.raises(MqttError) as caught:
        frame_end(b"\x30\xff\xff\xff\xff\x01", 0, 1 << 30)
    assert caught.value.reason_code == ReasonCode.MALFORMED_PACKET
    with pytest.raises(MqttError) as caught:
        frame_end(b"\x30\xff\x7f", 0, 1000)
    assert caught.value.reason_code == ReasonCode.PACKET_TOO_LARGE


def test_a_packet_that_the_version_cannot_express_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        encode(p.Auth(), V311)
    with pytest.raises(LocalProtocolError):
        encode(p.Connect("c", V311, password=b"secret"), V311)
    with pytest.raises(LocalProtocolError):
        encode(p.Publish("t", qos=1), V5)
    with pytest.raises(LocalProtocolError):
        encode(p.Publish("t", properties={Property.RECEIVE_MAXIMUM: 1}), V5)
    with pytest.raises(LocalProtocolError):
        encode(p.Publish("t", properties={Property.CONTENT_TYPE: 1}), V5)
    with pytest.raises(LocalProtocolError):
        encode(p.Publish("x" * 65536), V5)


def test_refusals_that_3_1_1_has_no_code_for_become_server_unavailable() -> None:
    data = encode(p.Connack(ReasonCode.BAD_AUTHENTICATION_METHOD), V311)
    assert read_one(data, V311) == p.Connack(ReasonCode.SERVER_UNAVAILABLE)
    data = encode(p.Suback(1, (ReasonCode.TOPIC_FILTER_INVALID,)), V311)
    assert read_one(data, V311) == p.Suback(1, (ReasonCode.UNSPECIFIED_ERROR,))


def test_a_long_subscribe_is_decoded_as_it_is_read() -> None:
    requests = tuple(p.TopicRequest(f"t/{number}", number % 3) for number in range(100))
    data = encode(p.Subscribe(7, requests, {Property.USER_PROPERTY: (("a", "b"),)}), V5)
    reader = Reader(data[:-1], frame_end(data, 0, len(data))[0])
    packet_id, told, found = open_subscribe(reader, V5)
    assert (packet_id, told) == (7, {Property.USER_PROPERTY: (("a", "b"),)})
    assert list(islice(found, 99)) == list(requests[:99])
    with pytest.raises(MqttError, match="ends in the middle"):
        next(found)


def test_a_long_unsubscribe_is_decoded_as_it_is_read() -> None:
    data = encode(p.Unsubscribe(7, ("a", "b")), V5)
    packet_id, told, found = open_unsubscribe(Reader(data, 2), V5)
    assert (packet_id, told, next(found), next(found)) == (7, {}, "a", "b")
    for opened in (open_subscribe, open_unsubscribe):
        with pytest.raises(MqttError, match="without a topic filter"):
            opened(Reader(b"\0\1\0"), V5)


@pytest.mark.parametrize("version", [V311, V5])
def test_reasons_may_be_given_as_bytes(version: int) -> None:
    codes = (ReasonCode.GRANTED_QOS_1, ReasonCode.QUOTA_EXCEEDED)
    assert encode(p.Suback(1, bytes(codes)), version) == encode(p.Suback(1, codes), version)
    assert encode(p.Unsuback(1, bytes(codes)), version) == encode(p.Unsuback(1, codes), version)


def test_the_property_table_is_complete() -> None:
    assert set(RULES) == set(Property)
