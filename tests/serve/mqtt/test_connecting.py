"""Who is let in, how, and what ends a connection: each fault has its answer and hurts nobody."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
from tests.serve.mqtt.talk import Raw, on_loop, recording, serving

from gravitate.broker.interface.effects import (
    OVERLOADED,
    STOPPING,
    CloseSession,
    Deliver,
    HoldReading,
)
from gravitate.broker.interface.inputs import (
    ClientAcknowledged,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
)
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import V5, V311, PacketType, ReasonCode
from gravitate.wire.mqtt.properties import Property, reason_text


def test_connack_announces_what_is_not_offered() -> None:
    async def body() -> None:
        async with recording(receive_maximum=7, packet_bytes_max=1000) as (door, recorder):
            raw = await Raw.dial(door)
            told = {Property.RECEIVE_MAXIMUM: 5, Property.SESSION_EXPIRY_INTERVAL: 60}
            connack = await raw.connect("c", clean_start=False, properties=told)
            assert connack == p.Connack(
                ReasonCode.SUCCESS,
                False,
                {
                    Property.SESSION_EXPIRY_INTERVAL: 0,
                    Property.RECEIVE_MAXIMUM: 7,
                    Property.MAXIMUM_QOS: 1,
                    Property.RETAIN_AVAILABLE: 0,
                    Property.MAXIMUM_PACKET_SIZE: 1000,
                    Property.TOPIC_ALIAS_MAXIMUM: 0,
                    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 0,
                    Property.SHARED_SUBSCRIPTION_AVAILABLE: 0,
                },
            )
            assert await recorder.get(ClientConnected) == ClientConnected(1, "c", 101, window=5)
            old = await Raw.dial(door)
            assert await old.connect("old", version=V311) == p.Connack()

    on_loop(body)


def test_a_client_without_an_id_is_given_one() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.dial(door)
            assigned = (await raw.connect("")).properties[Property.ASSIGNED_CLIENT_IDENTIFIER]
            assert (await recorder.get(ClientConnected)).session == assigned
            old = await Raw.dial(door)
            refused = await old.connect("", version=V311, clean_start=False)
            assert refused.reason == ReasonCode.CLIENT_IDENTIFIER_NOT_VALID

    on_loop(body)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"will": p.Will("t", b"gone")}, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR),
        (
            {"properties": {Property.AUTHENTICATION_METHOD: "x"}},
            ReasonCode.BAD_AUTHENTICATION_METHOD,
        ),
        (
            {"properties": {Property.USER_PROPERTY: (("$gravitate", "client/9"),)}},
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ),
        (
            {"properties": {Property.USER_PROPERTY: (("$gravitate", "client/1"),)}},
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ),
    ],
)
def test_what_cannot_be_offered_is_refused_in_connack(
    options: dict[str, object], code: ReasonCode
) -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.dial(door)
            refused = await raw.connect("c", **options)
            assert refused.reason == code
            assert reason_text(refused.properties)
            assert await raw.ended()
            assert recorder.inputs == []

    on_loop(body)


def test_a_wrong_version_is_told_in_a_version_that_the_client_may_know() -> None:
    async def body() -> None:
        async with recording() as (door, _):
            for name, level, answer in (
                (b"MQIsdp", 3, b"\x20\x02\x00\x01"),
                (b"MQTT", 3, b"\x20\x02\x00\x01"),
            ):
                raw = await Raw.dial(door)
                body = len(name).to_bytes(2, "big") + name + bytes([level, 2, 0, 0, 0, 1]) + b"c"
                raw.writer.write(bytes([0x10, len(body)]) + body)
                assert await raw.reader.read() == answer
            raw = await Raw.dial(door)
            raw.writer.write(b"\x10\x0e\0\4MQTT\x06\x02\0\0\0\0\1c")
            assert (await raw.get(p.Connack)).reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
            assert await raw.ended()

    on_loop(body)


def bad(packet: p.Packet) -> bytes:
    return encode(packet, V5)


FAULTS = {
    "a reserved packet type": (b"\x00\x00", ReasonCode.MALFORMED_PACKET),
    "a length of five bytes": (b"\x30\xff\xff\xff\xff\x01", ReasonCode.MALFORMED_PACKET),
    "an oversized packet": (b"\x30\xff\xff\xff\x7f", ReasonCode.PACKET_TOO_LARGE),
    "a topic with wildcards": (b"\x30\x04\0\1#\0", ReasonCode.TOPIC_NAME_INVALID),
    "a topic that is not UTF-8": (b"\x30\x04\0\1\xff\0", ReasonCode.MALFORMED_PACKET),
    "QoS 2": (bad(p.Publish("t", qos=2, packet_id=1)), ReasonCode.QOS_NOT_SUPPORTED),
    "retain": (bad(p.Publish("t", retain=True)), ReasonCode.RETAIN_NOT_SUPPORTED),
    "a topic alias": (
        bad(p.Publish("t", properties={Property.TOPIC_ALIAS: 1})),
        ReasonCode.TOPIC_ALIAS_INVALID,
    ),
    "a subscription identifier in PUBLISH": (
        bad(p.Publish("t", properties={Property.SUBSCRIPTION_IDENTIFIER: (1,)})),
        ReasonCode.PROTOCOL_ERROR,
    ),
    "a control topic without mark": (
        bad(p.Publish("$gravitate/advertise")),
        ReasonCode.TOPIC_NAME_INVALID,
    ),
    "a second CONNECT": (bad(p.Connect("again")), ReasonCode.PROTOCOL_ERROR),
    "a packet for clients": (bad(p.Pingresp()), ReasonCode.PROTOCOL_ERROR),
    "AUTH": (bad(p.Auth(ReasonCode.RE_AUTHENTICATE)), ReasonCode.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_answered_logged_once_and_disturbs_nobody(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    data, code = FAULTS[fault]

    async def body() -> None:
        async with serving() as door:
            bystander = await Raw.connected(door, "bystander")
            await bystander.subscribe("t")
            client = await Raw.connected(door, "culprit")
            before = p.Publish("t", b"before", 1, 1)
            client.writer.write(encode(before, V5) + data + encode(before, V5))
            farewell = [packet async for packet in _rest(client)]
            assert isinstance(farewell[-1], p.Disconnect)
            assert farewell[-1].reason == code
            assert reason_text(farewell[-1].properties)
            assert (await bystander.get(p.Publish)).payload == b"before"
            await bystander.publish("t", b"after", 9)
            assert (await bystander.get(p.Publish)).payload == b"after"

    with caplog.at_level(logging.WARNING, "gravitate.mqtt"):
        on_loop(body)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "culprit" in messages[0]
    assert ReasonCode(code).name in messages[0]


async def _rest(raw: Raw) -> AsyncIterator[p.Packet]:
    while (packet := await raw.next()) is not None:
        yield packet


def test_3_1_1_has_no_words_for_a_fault_and_is_closed() -> None:
    async def body() -> None:
        async with serving() as door:
            client = await Raw.connected(door, "old", version=V311)
            client.send(p.Publish("t", retain=True))
            assert await client.ended()

    on_loop(body)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", encode(p.Pingreq(), V5)])
def test_who_does_not_begin_with_connect_is_closed(data: bytes) -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.dial(door)
            raw.writer.write(data)
            assert (await raw.get(p.Connack)).reason == ReasonCode.PROTOCOL_ERROR
            assert await raw.ended()
            assert recorder.inputs == []

    on_loop(body)


def test_a_session_is_taken_over_by_a_newcomer_with_its_id() -> None:
    async def body() -> None:
        async with serving() as door:
            first = await Raw.connected(door, "same")
            await first.subscribe("t")
            second = await Raw.connected(door, "same")
            gone = await first.get(p.Disconnect)
            assert gone.reason == ReasonCode.SESSION_TAKEN_OVER
            assert await first.ended()
            await second.subscribe("t")
            await second.publish("t", b"for the second")
            assert (await second.get(p.Publish)).payload == b"for the second"

    on_loop(body)


def test_a_client_is_disconnected_once_however_it_goes() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            polite = await Raw.connected(door, "polite")
            polite.send(p.Disconnect())
            assert await polite.ended()
            rude = await Raw.connected(door, "rude")
            rude.close()
            gone = [await recorder.get(ClientDisconnected) for _ in range(2)]
            assert [recorder.session_of(one) for one in gone] == ["polite", "rude"]
            assert recorder.attached == {}
            closed = await Raw.connected(door, "closed")
            recorder.attached["closed"].tell(CloseSession(OVERLOADED))
            assert (await closed.get(p.Disconnect)).reason == ReasonCode.QUOTA_EXCEEDED
            assert await closed.ended()
            assert [one for one in recorder.inputs if isinstance(one, ClientDisconnected)] == []

    on_loop(body)


def test_clients_are_told_when_the_broker_stops() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            client = await Raw.connected(door, "c")
            recorder.attached["c"].tell(CloseSession(STOPPING))
            assert (await client.get(p.Disconnect)).reason == ReasonCode.SERVER_SHUTTING_DOWN
            other = await Raw.connected(door, "o")
            await door.close()
            assert (await other.get(p.Disconnect)).reason == ReasonCode.SERVER_SHUTTING_DOWN
            assert door.connections == set()

    on_loop(body)


def test_a_silent_client_is_closed_when_the_servers_keep_alive_has_passed() -> None:
    async def body() -> None:
        async with recording(keep_alive_s_max=1) as (door, recorder):
            raw = await Raw.dial(door)
            connack = await raw.connect("silent", keep_alive_s=600)
            assert connack.properties[Property.SERVER_KEEP_ALIVE] == 1
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.KEEP_ALIVE_TIMEOUT
            await recorder.get(ClientDisconnected)

    on_loop(body)


def test_who_never_says_connect_is_closed() -> None:
    async def body() -> None:
        async with recording(connect_s_max=0.05) as (door, _):
            raw = await Raw.dial(door)
            assert await raw.ended()

    on_loop(body)


def test_everything_one_read_delivered_becomes_one_input_per_run() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.dial(door)
            raw.send(
                p.Connect("c"),
                *[p.Publish("a", b"%d" % n) for n in range(40)],
                *[p.Publish("b", b"%d" % n, 1, n + 1) for n in range(40)],
                p.Publish("a", b"last"),
            )
            await raw.get(p.Connack)
            runs = [await recorder.get(ClientPublished) for _ in range(3)]
            assert [(len(run.bodies), run.qos) for run in runs] == [(40, 0), (40, 1), (1, 0)]
            # Accepted in two parts: as many acknowledgements each time, in order.
            connection = recorder.attached["c"]
            for count in (15, 25):
                connection.accept(count)
                connection.flush()
            assert [(await raw.get(p.Puback)).packet_id for _ in range(40)] == list(range(1, 41))

    on_loop(body)


def test_more_publications_than_receive_maximum_are_refused() -> None:
    async def body() -> None:
        async with recording(receive_maximum=3) as (door, _):
            raw = await Raw.connected(door)
            raw.send(*[p.Publish("a", b"", 1, n + 1) for n in range(4)])
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED

    on_loop(body)


def test_acknowledgements_are_told_without_gaps_and_once() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            connection = recorder.attached["c"]
            bodies = PlainBodies([Event({"topic": "t"}, b"%d" % n) for n in range(5)])
            connection.deliver(Deliver(1, Batch("p", 1, range(1, 6), bodies, 1), 1, 1))
            connection.flush()
            got = [await raw.get(p.Publish) for _ in range(5)]
            assert [packet.packet_id for packet in got] == [1, 2, 3, 4, 5]
            raw.send(p.Puback(2), p.Puback(9))
            raw.send(p.Puback(1), p.Puback(4, ReasonCode.NO_MATCHING_SUBSCRIBERS))
            assert (await recorder.get(ClientAcknowledged)).sequence == 2
            raw.send(p.Puback(3), p.Puback(3), p.Puback(5))
            sequences = [(await recorder.get(ClientAcknowledged)).sequence]
            while sequences[-1] < 5:
                sequences.append((await recorder.get(ClientAcknowledged)).sequence)
            assert sequences == sorted(set(sequences))

    on_loop(body)


def test_reading_stops_while_the_broker_holds_it() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            connection = recorder.attached["c"]
            connection.tell(HoldReading(True))
            connection.tell(HoldReading(True))
            raw.send(p.Publish("a", b"held"))
            other = await Raw.connected(door, "other")
            other.send(p.Publish("a", b"free"))
            assert recorder.session_of(await recorder.get(ClientPublished)) == "other"
            connection.tell(HoldReading(False))
            assert recorder.session_of(await recorder.get(ClientPublished)) == "c"

    on_loop(body)


def test_a_subscription_is_named_by_its_topic_filter_and_condition() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            await raw.subscribe("a/+", condition="x > 1")
            await raw.subscribe("a/+")
            await raw.subscribe("a/+?x>1")
            names = [(await recorder.get(ClientSubscribed)).name for _ in range(3)]
            assert names == ["a/+?x > 1", "a/+", "a/+?x>1"]

    on_loop(body)


def test_every_packet_type_has_an_answer() -> None:
    assert {PacketType[kind.__name__.upper()] for kind in p.Packet.__args__} == set(PacketType)
