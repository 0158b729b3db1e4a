"""What a client may send and be told: every bound is kept, said and harms nobody else."""

from __future__ import annotations

import asyncio

import pytest
from tests.serve.mqtt.talk import Raw, on_loop, recording, serving, where

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.inputs import ClientPublished
from gravitate.config.listeners import MqttSpec
from gravitate.config.network import BrokerSpec, Network
from gravitate.serve.control.network import on_free_ports, up
from gravitate.serve.mqtt import DoorOptions, MqttDoor
from gravitate.serve.mqtt.connection import Connection
from gravitate.serve.mqtt.requests import Allotment, Refused, control_input
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import PROPERTIES_BYTES_MAX, V5, V311, ReasonCode
from gravitate.wire.mqtt.control import ADVERTISE, PONG, WHERE, ClientMark
from gravitate.wire.mqtt.properties import (
    Properties,
    Property,
    PropertyValue,
    reason_text,
    user_properties,
)

MARKED: Properties = {Property.USER_PROPERTY: ClientMark(7).user_properties()}
LONG_TOPIC = "t" * 40_000
LONG_CONDITION = f"x = '{'v' * 40_000}'"


def control(on: str, **fields: str) -> p.Publish:
    pairs = tuple((name.replace("where", "$where"), value) for name, value in fields.items())
    return p.Publish(on, properties={Property.USER_PROPERTY: pairs})


async def fields_of(raw: Raw, topic: str) -> dict[str, str]:
    """What the next control message on a topic says."""
    while True:
        message = await raw.get(p.Publish)
        if message.topic == topic:
            return dict(user_properties(message.properties))


def test_a_long_topic_filter_with_a_long_condition_is_granted_and_harms_nobody() -> None:
    async def body() -> None:
        async with serving() as door:
            raw = await Raw.connected(door)
            assert (await raw.subscribe(LONG_TOPIC, condition=LONG_CONDITION)).reasons == (1,)
            await raw.publish(LONG_TOPIC, b"both", x="v" * 40_000)
            assert (await raw.get(p.Publish)).payload == b"both"

    on_loop(body)


def test_a_gravitate_client_is_refused_what_it_could_not_be_told() -> None:
    async def body() -> None:
        async with serving() as door:
            raw = await Raw.connected(door, properties=MARKED)
            raw.send(p.Subscribe(1, (p.TopicRequest(LONG_TOPIC),), where(LONG_CONDITION)))
            while not isinstance(answer := await raw.next(), p.Suback):
                assert isinstance(answer, p.Publish)
            assert answer.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
            assert "at most 65535 bytes" in reason_text(answer.properties)
            raw.send(p.Subscribe(2, (p.TopicRequest(LONG_TOPIC),)))
            await raw.get(p.Suback)
            told = await fields_of(raw, "$gravitate/settled")
            assert told == {"kind": "subscription", "name": LONG_TOPIC}

    on_loop(body)


def test_a_refusal_is_told_in_a_message_that_fits_whatever_was_asked_for() -> None:
    async def body() -> None:
        async with serving() as door:
            raw = await Raw.connected(door, properties=MARKED)
            raw.send(control(ADVERTISE, name="n" * 60_000, topic="t" * 65_500 + "/#/x"))
            told = await fields_of(raw, "$gravitate/refused")
            assert told["name"] == "n" * 60_000
            assert 0 < len(told["reason"]) <= 1000
            raw.send(p.Pingreq())
            await raw.get(p.Pingresp)

    on_loop(body)


def test_nothing_is_encoded_for_a_client_that_would_not_be_told() -> None:
    too_long = "x" * 70_000

    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            connection = recorder.attached["c"]
            recorder.mqtt_addresses["b2"] = (too_long, 1883)
            connection.tell(e.SubscriptionSettled(too_long))
            connection.tell(e.AdvertisementSettled(too_long))
            connection.tell(e.Redirect("b2"))
            connection.tell(e.PingBrokers(("b2",), 1))
            connection.tell(e.Stay())
            connection.tell(e.Attached())
            connection.flush()
            raw.send(p.Pingreq())
            await raw.get(p.Pingresp)

    on_loop(body)


def test_a_client_is_told_nothing_larger_than_it_takes() -> None:
    small = MARKED | {Property.MAXIMUM_PACKET_SIZE: 100}

    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door, properties=small)
            connection: Connection = recorder.attached["c"]
            brokers = tuple(f"b{number}" for number in range(20))
            recorder.mqtt_addresses |= dict.fromkeys(brokers, ("host", 1883))
            recorder.mqtt_addresses["far"] = ("h" * 200, 1883)
            connection.tell(e.Redirect("far"))
            connection.tell(e.PingBrokers(brokers, 1))
            connection.tell(e.Attached())
            connection.flush()
            assert (await raw.get(p.Publish)).topic == "$gravitate/attached"
            answer = await raw.subscribe("t" * 90)
            assert answer.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
            raw.send(control(ADVERTISE, name="n" * 90))
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.PACKET_TOO_LARGE

    on_loop(body)


@pytest.mark.parametrize("version", [V5, V311])
def test_a_connect_that_is_too_large_is_refused_by_its_header(version: int) -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.dial(door)
            raw.version = version
            # A remaining length of 16 MB, and the beginning of what would follow.
            raw.writer.write(b"\x10\xf0\xff\xff\x07" + b"\0\4MQTT" + bytes([version]))
            if version == V5:
                refused = await raw.get(p.Connack)
                assert refused.reason == ReasonCode.PACKET_TOO_LARGE
                assert "at most 65536" in reason_text(refused.properties)
            else:
                assert await raw.reader.read() == b"\x20\x02\0\x03"
            assert await raw.ended()
            assert recorder.inputs == []
            connected = await Raw.connected(door, "c")
            connected.send(p.Publish("t", b"x" * 100_000))
            assert len((await recorder.get(ClientPublished)).bodies) == 1

    on_loop(body)


def test_what_clients_have_begun_to_send_is_bounded_for_all_together() -> None:
    half = encode(p.Publish("t", b"x" * 60_000), V5)

    async def body() -> None:
        async with recording(unread_bytes_max=100_000) as (door, recorder):
            first, second = await Raw.connected(door, "first"), await Raw.connected(door, "second")
            first.writer.write(half[:55_000])
            while door.desk.unread_bytes < 55_000:
                await asyncio.sleep(0)
            second.writer.write(half[:55_000])
            assert (await second.get(p.Disconnect)).reason == ReasonCode.QUOTA_EXCEEDED
            assert await second.ended()
            assert door.counters()["clients_without_room"] == 1
            first.writer.write(half[55_000:])
            assert recorder.session_of(await recorder.get(ClientPublished)) == "first"
            assert door.desk.unread_bytes == 0
            first.writer.write(half[:55_000])
            while door.desk.unread_bytes < 55_000:
                await asyncio.sleep(0)
            first.close()
            while door.desk.unread_bytes:
                await asyncio.sleep(0)

    on_loop(body)


@pytest.mark.parametrize("version", [V5, V311])
def test_a_payload_beyond_the_bound_has_no_fields(version: int) -> None:
    large = b'{"n": 1, "x": "' + b"y" * 200 + b'"}'

    async def body() -> None:
        async with serving(payload_fields_bytes_max=100) as door:
            subscriber = await Raw.connected(door, "s")
            await subscriber.subscribe("#", condition="payload.n = 1 OR topic = 'all'")
            publisher = await Raw.connected(door, "p", version=version)
            payloads = [b'{"n": 1}', large, b'{"n": 1, "last": 0}', large, large]
            publisher.send(*(p.Publish("t", one) for one in payloads), p.Publish("all", large))
            got = [await subscriber.get(p.Publish) for _ in range(3)]
            assert [one.payload for one in got] == [payloads[0], payloads[2], large]
            assert got[2].topic == "all"

    on_loop(body)


@pytest.mark.parametrize("kind", ["publish", "publish again", "subscribe", "puback"])
def test_properties_beyond_the_bound_are_refused(kind: str) -> None:
    pairs: PropertyValue = tuple((f"n{i:05}", "v" * 20) for i in range(PROPERTIES_BYTES_MAX // 25))
    told: Properties = {Property.USER_PROPERTY: pairs}
    packets: dict[str, p.Packet] = {
        "publish": p.Publish("t", properties=told),
        "publish again": p.Publish("t", b"", 1, 1, dup=True, properties=told),
        "subscribe": p.Subscribe(1, (p.TopicRequest("t"),), told),
        "puback": p.Puback(1, properties=told),
    }

    async def body() -> None:
        async with recording() as (door, _):
            raw = await Raw.connected(door)
            raw.send(packets[kind])
            refused = await raw.get(p.Disconnect)
            assert refused.reason == ReasonCode.PACKET_TOO_LARGE
            assert f"at most {PROPERTIES_BYTES_MAX}" in reason_text(refused.properties)

    on_loop(body)


def test_a_measurement_beyond_the_bound_is_refused() -> None:
    async def body() -> None:
        async with recording() as (door, _):
            raw = await Raw.connected(door, properties=MARKED)
            raw.send(p.Publish(PONG, b" " * 300_000))
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.PACKET_TOO_LARGE

    on_loop(body)


def test_a_broker_holds_clients_to_what_its_network_file_says() -> None:
    async def body() -> None:
        spec = BrokerSpec("b1", mqtt=MqttSpec(packet_bytes_max=1000), payload_fields=False)
        network = on_free_ports(Network("n", (spec,)), ("mqtt",))
        async with await up(network) as live:
            (door,) = live.nodes["b1"].doors
            assert isinstance(door, MqttDoor)
            assert door.options == DoorOptions(packet_bytes_max=1000, payload_fields=False)

    on_loop(body)


def test_an_advertisement_counts_as_large_as_it_is_when_multiplied_out() -> None:
    """(a0 = 0 OR a0 = 1) AND (a1 = 0 OR a1 = 1) AND ... doubles with each pair."""
    where = " AND ".join(f"(a{n} = 0 OR a{n} = 1)" for n in range(7))
    properties: Properties = {Property.USER_PROPERTY: (("name", "n"), (WHERE, where))}
    packet = p.Publish(ADVERTISE, properties=properties)
    with pytest.raises(Refused) as refused:
        control_input("c", packet, 1000, Allotment(10 * len(where)))
    assert refused.value.reason is ReasonCode.QUOTA_EXCEEDED
    control_input("c", packet, 1000, Allotment(100 * len(where)))
