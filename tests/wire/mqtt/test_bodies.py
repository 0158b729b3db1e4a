from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.mqtt.strategies import payloads, plain_publishes, texts, topics, versions

from gravitate.errors import MqttError
from gravitate.model.events import Event
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.bodies import FrameBodies, payload_fields, publish_of, scan_plain
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5, V311
from gravitate.wire.mqtt.emit import emit, frame_sizes, packet_id, upgrade
from gravitate.wire.mqtt.properties import Property
from gravitate.wire.mqtt.scan import scan_long, scan_short

SIZE_MAX = 1 << 20

names = texts.filter(lambda name: name not in ("", "topic") and not name.startswith("payload."))
events = st.builds(
    lambda topic, attributes, payload: Event({**attributes, "topic": topic}, payload),
    topics,
    st.dictionaries(names, texts, max_size=4),
    payloads,
)


def to_events(bodies: FrameBodies) -> list[Event]:
    """The events in the open. User properties are texts, whatever they were made from."""
    return [
        Event(dict(attributes), payload)
        for attributes, payload in zip(bodies.every_attribute(), bodies.payloads(), strict=True)
    ]


def bodies_of(sent: list[p.Publish], qos: int, long: bool) -> FrameBodies:
    """The same frames, described by tuples or by an array."""
    data = b"".join(encode(packet, V5) for packet in sent)
    scanner = scan_long if long else scan_short
    return FrameBodies(data, scanner(data, 0, V5, SIZE_MAX)[0], qos)


def copied(bodies: FrameBodies) -> FrameBodies:
    """What a receiver of the bodies' bytes finds in them."""
    data = b"".join(bodies.spans())
    return FrameBodies(data, scan_plain(data, 0, bodies.qos), bodies.qos, bodies.payload_fields)


@given(st.lists(events, min_size=1, max_size=20), st.integers(0, 1))
def test_events_survive_the_way_to_a_peer_and_back(sent: list[Event], qos: int) -> None:
    bodies = FrameBodies.from_events(sent, qos, payload_fields=False)
    there = copied(bodies)
    assert to_events(there) == sent
    assert (there.qos, there.payload_fields, len(there)) == (qos, False, len(sent))
    assert there.size_bytes() == bodies.size_bytes() == len(there.buffer)


@given(st.lists(events, min_size=1, max_size=20), st.data())
def test_a_selection_is_the_chosen_events(sent: list[Event], data: st.DataObject) -> None:
    bodies = FrameBodies.from_events(sent)
    indices = sorted(data.draw(st.sets(st.integers(0, len(sent) - 1))))
    chosen = bodies.select(indices)
    assert to_events(chosen) == [sent[i] for i in indices]
    assert chosen.buffer is bodies.buffer
    assert to_events(copied(chosen)) == to_events(chosen)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(sent))] * 2)))
    assert to_events(bodies.select(range(first, last))) == sent[first:last]


@pytest.mark.parametrize("long", [False, True])
@given(st.lists(events, min_size=1, max_size=20), st.data())
def test_what_is_compacted_is_the_same_in_little_more_than_it_weighs(
    long: bool, sent: list[Event], data: st.DataObject
) -> None:
    whole = bodies_of([publish_of(event, 1) for event in sent], 1, long)
    chosen = whole.select(sorted(data.draw(st.sets(st.integers(0, len(sent) - 1), min_size=1))))
    compact = chosen.compacted()
    assert to_events(compact) == to_events(chosen)
    assert compact.size_bytes() == chosen.size_bytes() == len(b"".join(chosen.spans()))
    assert len(compact.buffer) <= 2 * compact.size_bytes()
    assert compact.compacted() is compact
    assert chosen.compacted() is compact


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_few_events_do_not_keep_a_large_read_alive(count: int) -> None:
    sent = [Event({"topic": f"t/{n}", "n": str(n)}, b"x" * 100) for n in range(2000)]
    bodies = FrameBodies.from_events(sent, qos=1)
    indices = list(range(5, 5 + 7 * count, 7))
    chosen = bodies.select(indices)
    assert len(chosen.buffer) == chosen.size_bytes()
    assert to_events(chosen) == [sent[i] for i in indices]
    assert chosen.attributes(frozenset(["n"])) == [sent[i].attributes for i in indices]
    received = PacketReader(V5).feed(b"".join(emit(chosen, V5, 1, 3)))
    assert [packet.packet_id for packet in received] == list(range(3, 3 + count))  # type: ignore[union-attr]
    assert to_events(copied(chosen)) == to_events(chosen)


@given(st.lists(events, min_size=1, max_size=20), st.booleans())
def test_topics_and_attributes_are_those_of_the_events(sent: list[Event], long: bool) -> None:
    data = FrameBodies.from_events(sent).buffer
    scanner = scan_long if long else scan_short
    bodies = FrameBodies(data, scanner(data, 0, V5, SIZE_MAX)[0], 0)
    assert [topic.decode() for topic in bodies.topics()] == [e.attributes["topic"] for e in sent]
    wanted = frozenset(name for event in sent for name in event.attributes)
    assert list(bodies.attributes(wanted)) == [event.attributes for event in sent]
    only = frozenset(["topic"])
    assert list(bodies.attributes(only)) == [{"topic": e.attributes["topic"]} for e in sent]
    assert bodies.payloads() == [event.payload for event in sent]


@pytest.mark.parametrize("allowed", [True, False])
def test_payload_fields_are_read_when_wanted_and_allowed(allowed: bool) -> None:
    payload = b'{"reading": {"celsius": 21.5, "ok": true, "unit": null, "list": [1]}, "n": 7}'
    names = {"payload.reading.celsius", "payload.reading.ok", "payload.n", "payload.reading.unit"}
    wanted = frozenset(names | {"payload.reading.list", "payload.none.such", "payload.n.deeper"})
    bodies = FrameBodies.from_events([Event({"topic": "t"}, payload)], payload_fields=allowed)
    expected = {"topic": "t"}
    if allowed:
        expected |= {"payload.reading.celsius": 21.5, "payload.reading.ok": True, "payload.n": 7}
    assert list(bodies.attributes(wanted)) == [expected]


@pytest.mark.parametrize("payload", [b"", b"\xff", b"not json", b"[1]", b"3", b"[" * 5000])
def test_a_payload_that_is_not_a_json_object_has_no_fields(payload: bytes) -> None:
    assert payload_fields(payload, frozenset(["payload.x"])) == {}


def test_values_become_the_texts_that_conditions_compare() -> None:
    event = Event({"topic": "t", "n": 3, "x": 2.5, "yes": True, "s": "text"})
    found = to_events(FrameBodies.from_events([event]))[0].attributes
    assert found == {"topic": "t", "n": "3", "x": "2.5", "yes": "true", "s": "text"}


@pytest.mark.parametrize(
    ("data", "qos"),
    [
        (b"\xc0\0", 0),
        (b"\x30\x80\x80\x80\x80", 0),
        (b"\x30\x04\0\x01a\0", 1),
        (b"\x30\x05\0\x02$a\0", 0),
    ],
)
def test_bytes_that_are_no_bodies_are_refused(data: bytes, qos: int) -> None:
    with pytest.raises(MqttError, match=f"not plain PUBLISH packets of QoS {qos}"):
        scan_plain(data, 0, qos)


def test_truncated_bodies_are_refused() -> None:
    data = FrameBodies.from_events([Event({"topic": "t"}, b"payload")]).buffer
    for size in range(1, len(data)):
        with pytest.raises(MqttError):
            scan_plain(data[:size], 0, 0)


@given(st.data(), st.integers(0, 1), versions, st.integers(0, 1), st.booleans())
def test_what_is_emitted_says_what_came_in(
    data: st.DataObject, qos_in: int, version: int, qos_out: int, long: bool
) -> None:
    sent = data.draw(st.lists(plain_publishes(V5, qos_in), min_size=1, max_size=12))
    indices = sorted(data.draw(st.sets(st.integers(0, len(sent) - 1), min_size=1)))
    first = data.draw(st.sampled_from([1, 65530, 65535])) if qos_out else 0
    bodies = bodies_of(sent, qos_in, long)
    for chosen in (bodies.select(indices), bodies):
        expected = [
            p.Publish(
                sent[i].topic,
                sent[i].payload,
                qos_out,
                packet_id(first + at) if qos_out else 0,
                properties=sent[i].properties if version == V5 else {},
            )
            for at, i in enumerate(indices if chosen is not bodies else range(len(sent)))
        ]
        frames = emit(chosen, version, qos_out, first)
        assert PacketReader(version).feed(b"".join(frames)) == expected
        assert emit(chosen, version, qos_out, first) is frames
        sizes = [len(encode(packet, version)) for packet in expected]
        assert frame_sizes(chosen, version, qos_out) == sizes


def test_another_first_packet_id_is_another_emission() -> None:
    bodies = bodies_of([p.Publish("t", b"x", 1, 9)], 1, long=False)
    assert b"".join(emit(bodies, V5, 1, 1)) != b"".join(emit(bodies, V5, 1, 2))


@pytest.mark.parametrize("long", [True, False])
def test_a_run_of_frames_goes_out_as_one_slice_of_what_came_in(long: bool) -> None:
    bodies = bodies_of([p.Publish("t", b"x" * n) for n in range(20)], 0, long)
    (slice_,) = emit(bodies, V5, 0)
    assert bytes(slice_) == bodies.buffer
    assert isinstance(slice_, memoryview)
    assert slice_.obj is bodies.buffer
    half = bodies.select(range(5, 15))
    (slice_,) = emit(half, V5, 0)
    assert isinstance(slice_, memoryview)
    assert slice_.obj is bodies.buffer


@given(st.data(), st.integers(0, 1), st.booleans())
def test_publications_of_3_1_1_are_converted_once(
    data: st.DataObject, qos: int, long: bool
) -> None:
    sent = data.draw(st.lists(plain_publishes(V311, qos), min_size=1, max_size=8))
    stream = b"".join(encode(packet, V311) for packet in sent)
    scanner = scan_long if long else scan_short
    bodies = upgrade(stream, scanner(stream, 0, V311, SIZE_MAX)[0], qos, True)
    again = scan_plain(bodies.buffer, 0, qos)
    assert [topic.decode() for topic in bodies.topics()] == [packet.topic for packet in sent]
    assert bodies.payloads() == [packet.payload for packet in sent]
    assert to_events(FrameBodies(bodies.buffer, again, qos)) == to_events(bodies)
    received = PacketReader(V311).feed(b"".join(emit(bodies, V311, 0)))
    assert received == [p.Publish(packet.topic, packet.payload) for packet in sent]


def test_packet_ids_follow_sequence_numbers_and_skip_zero() -> None:
    assert [packet_id(n) for n in (1, 65535, 65536, 131070, 131071)] == [1, 65535, 1, 65535, 1]


def test_properties_other_than_the_users_are_passed_through() -> None:
    told = {
        Property.PAYLOAD_FORMAT_INDICATOR: 1,
        Property.MESSAGE_EXPIRY_INTERVAL: 60,
        Property.CONTENT_TYPE: "text/plain",
        Property.RESPONSE_TOPIC: "answers",
        Property.CORRELATION_DATA: b"\0\1",
        Property.USER_PROPERTY: (("a", "1"), ("a", "2")),
    }
    bodies = bodies_of([p.Publish("t", properties=told)], 0, long=False)
    (packet,) = PacketReader(V5).feed(b"".join(emit(bodies, V5, 0)))
    assert packet == p.Publish("t", properties=told)
    assert bodies.attributes(frozenset(["a"])) == [{"topic": "t", "a": "2"}]
