from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.mqtt.strategies import packets, plain_publishes, publishes, versions

from gravitate.errors import MqttError
from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt import scan as scanning
from gravitate.wire.mqtt.codec import decode, encode, frame_end
from gravitate.wire.mqtt.codes import PROPERTIES_BYTES_MAX, V5, ReasonCode
from gravitate.wire.mqtt.properties import Property
from gravitate.wire.mqtt.scan import Scan, as_table, scan, scan_long, scan_short

SIZE_MAX = 1 << 20


def normal(result: Scan) -> tuple[object, ...]:
    frames, runs, position, error = result
    return as_table(frames).tolist(), runs, position, error


def check_against_codec(data: bytes, version: int) -> None:
    """What the scanner calls plain the codec decodes alike; the two scanners agree."""
    short = scan_short(data, 0, version, SIZE_MAX)
    assert normal(short) == normal(scan_long(data, 0, version, SIZE_MAX))
    for start, end, kind, topic, topic_end, properties, payload, packet_id in short[0]:
        body, known_end = frame_end(data, start, SIZE_MAX)
        assert end == known_end
        if kind & k.ATTENTION:
            continue
        packet = decode(data[start], data[body:end], version)
        if isinstance(packet, p.Publish):
            assert packet.topic == data[topic:topic_end].decode()
            assert packet.payload == data[payload:end]
            assert packet.packet_id == packet_id
            assert bool(packet.properties) == (properties < payload)
            assert not packet.retain
            assert not packet.dup
        else:
            assert packet == p.Puback(packet_id)


@given(st.data(), versions)
def test_scanners_agree_with_each_other_and_the_codec(data: st.DataObject, version: int) -> None:
    one = st.one_of(publishes(version), packets(version))
    sent = data.draw(st.lists(one, max_size=6))
    check_against_codec(b"".join(encode(packet, version) for packet in sent), version)


@given(st.data(), versions)
def test_scanners_agree_on_damaged_frames(data: st.DataObject, version: int) -> None:
    sent = data.draw(st.lists(publishes(version, (0, 1)), min_size=1, max_size=4))
    damaged = bytearray(b"".join(encode(packet, version) for packet in sent))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    check_against_codec(bytes(damaged), version)


@given(st.binary(max_size=120), versions)
def test_scanners_agree_on_any_bytes(data: bytes, version: int) -> None:
    check_against_codec(data, version)


@given(st.binary(max_size=40).map(lambda tail: b"\x30" + bytes([len(tail) + 3]) + b"\0\1a" + tail))
def test_scanners_agree_on_any_properties(data: bytes) -> None:
    check_against_codec(data, V5)


@given(st.data(), versions, st.integers(0, 1))
def test_every_plain_publication_is_recognised(data: st.DataObject, version: int, qos: int) -> None:
    sent = data.draw(st.lists(plain_publishes(version, qos), min_size=1, max_size=5))
    stream = b"".join(encode(packet, version) for packet in sent)
    _, runs, position, error = scan(stream, 0, version, SIZE_MAX)
    assert runs == [(k.PUBLISH_1 if qos else k.PUBLISH_0, 0, len(sent))]
    assert (position, error) == (len(stream), 0)


def test_what_needs_a_decision_is_left_to_the_codec() -> None:
    for packet in (
        p.Publish("$gravitate/advertise"),
        p.Publish("t", retain=True),
        p.Publish("t", qos=1, packet_id=1, dup=True),
        p.Publish("t", qos=2, packet_id=1),
        p.Puback(1, ReasonCode.NO_MATCHING_SUBSCRIBERS),
        p.Pingreq(),
    ):
        data = encode(packet, V5)
        _, runs, _, _ = scan(data, 0, V5, SIZE_MAX)
        assert runs == [(data[0] | k.ATTENTION, 0, 1)]


def test_runs_are_frames_of_one_kind() -> None:
    sent = [p.Publish("a"), p.Publish("b"), p.Publish("c", qos=1, packet_id=7), p.Puback(3)]
    data = b"".join(encode(packet, V5) for packet in sent)
    for scanner in (scan_short, scan_long):
        frames, runs, _, _ = scanner(data, 0, V5, SIZE_MAX)
        assert runs == [
            (k.PUBLISH_0, 0, 2),
            (k.PUBLISH_1, 2, 3),
            (k.PUBACK, 3, 4),
        ]
        assert as_table(frames)[:, k.PACKET_ID].tolist() == [0, 0, 7, 3]


def test_an_incomplete_frame_waits_and_a_bad_length_is_told() -> None:
    whole = encode(p.Publish("topic", b"x" * 300), V5)
    for scanner in (scan_short, scan_long):
        for size in range(len(whole)):
            frames, runs, position, error = scanner(whole[:size], 0, V5, SIZE_MAX)
            assert (len(frames), runs, position, error) == (0, [], 0, 0)
        assert scanner(whole, 0, V5, 200)[3] == ReasonCode.PACKET_TOO_LARGE
        assert scanner(b"\x30\xff\xff\xff\xff", 0, V5, SIZE_MAX)[3] == ReasonCode.MALFORMED_PACKET
        assert scanner(b"\x30\x80\x00", 0, V5, SIZE_MAX)[3] == ReasonCode.MALFORMED_PACKET


def test_a_read_with_more_frames_than_the_table_holds_is_scanned_in_parts() -> None:
    count = scanning.FRAMES_MAX + 10
    data = encode(p.Puback(5), V5) * count
    frames, _, position, _ = scan(data, 0, V5, SIZE_MAX)
    assert len(frames) == scanning.FRAMES_MAX
    frames, _, position, _ = scan(data, position, V5, SIZE_MAX)
    assert (len(frames), position) == (10, len(data))


def test_a_scan_does_not_change_what_an_earlier_one_returned() -> None:
    first, _, _, _ = scan_long(encode(p.Publish("first"), V5) * 9, 0, V5, SIZE_MAX)
    before = np.array(first)
    scan_long(encode(p.Publish("another", b"payload"), V5) * 9, 0, V5, SIZE_MAX)
    assert (as_table(first) == before).all()


def test_errors_of_the_codec_are_what_attention_hides() -> None:
    data = encode(p.Publish("a/b"), V5).replace(b"a/b", b"a/+")
    _, runs, _, _ = scan(data, 0, V5, SIZE_MAX)
    assert runs[0][0] == k.PUBLISH_0 | k.ATTENTION
    body, end = frame_end(data, 0, SIZE_MAX)
    with pytest.raises(MqttError) as caught:
        decode(data[0], data[body:end], V5)
    assert caught.value.reason_code == ReasonCode.TOPIC_NAME_INVALID


@pytest.mark.parametrize("scanner", [scan_short, scan_long])
def test_a_publish_with_very_many_properties_is_left_to_the_codec(
    scanner: Callable[[bytes, int, int, int], Scan],
) -> None:
    def kind_of(count: int) -> int:
        pairs = (("n", "v" * 8187),) * count
        data = encode(p.Publish("t", properties={Property.USER_PROPERTY: pairs}), V5)
        return scanner(data, 0, V5, SIZE_MAX)[1][0][0]

    # Each pair takes 8,193 bytes.
    assert kind_of(31) == k.PUBLISH_0
    assert kind_of(32) == k.PUBLISH_0 | k.ATTENTION
    assert 31 * 8193 <= PROPERTIES_BYTES_MAX < 32 * 8193
