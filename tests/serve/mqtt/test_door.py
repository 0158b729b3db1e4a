"""Stock clients of both versions publish and subscribe through a door, with and without filters."""

from __future__ import annotations

import pytest
from tests.serve.mqtt.talk import Raw, on_loop, serving, where

from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import V5, V311, ReasonCode
from gravitate.wire.mqtt.properties import Property


@pytest.mark.parametrize("publisher_version", [V311, V5])
@pytest.mark.parametrize("subscriber_version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("count", [1, 300])
def test_publications_arrive_in_order_at_the_lower_of_both_qualities(
    publisher_version: int, subscriber_version: int, qos: int, count: int
) -> None:
    async def body() -> None:
        async with serving() as door:
            subscriber = await Raw.connected(door, "s", version=subscriber_version)
            assert (await subscriber.subscribe("a/+", qos=qos)).reasons == (qos,)
            publisher = await Raw.connected(door, "p", version=publisher_version)
            sent = [p.Publish("a/b", b"%d" % n, 1, n + 1) for n in range(count)]
            publisher.send(*sent)
            for n in range(count):
                assert await publisher.get(p.Puback) == p.Puback(n + 1)
            for n in range(count):
                got = await subscriber.get(p.Publish)
                assert got == p.Publish("a/b", b"%d" % n, qos, n + 1 if qos else 0)
                if qos:
                    subscriber.send(p.Puback(got.packet_id))

    on_loop(body)


def test_a_condition_in_where_lets_only_matching_events_through() -> None:
    async def body() -> None:
        async with serving() as door:
            subscriber = await Raw.connected(door, "s")
            assert (await subscriber.subscribe("stocks/#", condition="volume > 5")).reasons == (1,)
            publisher = await Raw.connected(door, "p")
            await publisher.publish("stocks/x", b"few", volume="5")
            await publisher.publish("stocks/x", b"none")
            await publisher.publish("other", b"elsewhere", volume="50")
            await publisher.publish("stocks/x", b"many", volume="10")
            got = await subscriber.get(p.Publish)
            assert got.payload == b"many"
            assert got.properties == {Property.USER_PROPERTY: (("volume", "10"),)}

    on_loop(body)


def test_the_query_spelling_is_a_condition_too_also_for_3_1_1() -> None:
    async def body() -> None:
        async with serving() as door:
            subscriber = await Raw.connected(door, "s", version=V311)
            await subscriber.subscribe("stocks/+?symbol=YHOO&volume>5")
            publisher = await Raw.connected(door, "p")
            await publisher.publish("stocks/x", b"no", symbol="IBM", volume="9")
            await publisher.publish("stocks/x", b"yes", symbol="YHOO", volume="9")
            assert (await subscriber.get(p.Publish)).payload == b"yes"

    on_loop(body)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_condition_looks_into_json_payloads_where_the_listener_allows_it(allowed: bool) -> None:
    async def body() -> None:
        async with serving(payload_fields=allowed) as door:
            subscriber = await Raw.connected(door, "s")
            condition = "payload.reading.celsius > 20 OR last = 1"
            await subscriber.subscribe("#", condition=condition)
            publisher = await Raw.connected(door, "p")
            await publisher.publish("t", b'{"reading": {"celsius": 19}}')
            await publisher.publish("t", b"not json")
            await publisher.publish("t", b'{"reading": {"celsius": 21}}')
            await publisher.publish("t", b"end", last="1")
            got = await subscriber.get(p.Publish)
            assert got.payload == (b'{"reading": {"celsius": 21}}' if allowed else b"end")

    on_loop(body)


def test_a_condition_that_does_not_parse_fails_its_subscribe_and_nothing_else() -> None:
    async def body() -> None:
        async with serving() as door:
            client = await Raw.connected(door, "s")
            refused = await client.subscribe("a", "b", condition="volume >> 5")
            assert refused.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,) * 2
            told = str(refused.properties[Property.REASON_STRING])
            assert "$where" in told
            assert "column 9" in told
            client.send(p.Pingreq())
            await client.get(p.Pingresp)

    on_loop(body)


def test_each_topic_filter_of_a_subscribe_gets_its_own_answer() -> None:
    async def body() -> None:
        async with serving() as door:
            client = await Raw.connected(door, "s")
            answer = await client.subscribe("a/b", "a/#/b", "$share/g/t", "t?x", qos=2)
            assert answer.reasons == (
                ReasonCode.GRANTED_QOS_1,
                ReasonCode.TOPIC_FILTER_INVALID,
                ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
                ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
            )
            told = {Property.SUBSCRIPTION_IDENTIFIER: (7,)}
            client.send(p.Subscribe(2, (p.TopicRequest("a"),), told))
            answer = await client.get(p.Suback)
            assert answer.reasons == (ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,)

    on_loop(body)


def test_reason_strings_are_not_sent_to_who_does_not_want_them() -> None:
    async def body() -> None:
        async with serving() as door:
            told = {Property.REQUEST_PROBLEM_INFORMATION: 0}
            client = await Raw.connected(door, "s", properties=told)
            answer = await client.subscribe("a/#/b")
            assert answer == p.Suback(1, (ReasonCode.TOPIC_FILTER_INVALID,))
            old = await Raw.connected(door, "old", version=V311)
            answer = await old.subscribe("a/#/b")
            assert answer == p.Suback(1, (ReasonCode.UNSPECIFIED_ERROR,))

    on_loop(body)


def test_unsubscribing_ends_the_conditions_of_a_topic_filter() -> None:
    async def body() -> None:
        async with serving() as door:
            client = await Raw.connected(door, "s")
            await client.subscribe("a", condition="x = 1")
            await client.subscribe("a", condition="x = 2")
            await client.subscribe("b")
            client.send(p.Unsubscribe(9, ("a",), where("x = 1")))
            assert (await client.get(p.Unsuback)).reasons == (ReasonCode.SUCCESS,)
            client.send(p.Unsubscribe(10, ("a", "c")))
            answer = await client.get(p.Unsuback)
            assert answer.reasons == (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED)
            publisher = await Raw.connected(door, "p")
            await publisher.publish("a", b"1", x="1")
            await publisher.publish("a", b"2", x="2")
            await publisher.publish("b", b"end")
            assert (await client.get(p.Publish)).payload == b"end"

    on_loop(body)


def test_no_local_keeps_ones_own_publications_away() -> None:
    async def body() -> None:
        async with serving() as door:
            client = await Raw.connected(door, "s")
            client.send(p.Subscribe(1, (p.TopicRequest("t", 1, no_local=True),)))
            await client.get(p.Suback)
            await client.publish("t", b"mine")
            other = await Raw.connected(door, "o")
            await other.publish("t", b"theirs")
            assert (await client.get(p.Publish)).payload == b"theirs"

    on_loop(body)


def test_publish_properties_are_passed_through() -> None:
    async def body() -> None:
        async with serving() as door:
            subscriber = await Raw.connected(door, "s")
            await subscriber.subscribe("t")
            publisher = await Raw.connected(door, "p")
            told = {
                Property.PAYLOAD_FORMAT_INDICATOR: 1,
                Property.MESSAGE_EXPIRY_INTERVAL: 60,
                Property.CONTENT_TYPE: "text/plain",
                Property.RESPONSE_TOPIC: "answers",
                Property.CORRELATION_DATA: b"\0\1",
                Property.USER_PROPERTY: (("a", "1"), ("a", "2")),
            }
            publisher.send(p.Publish("t", b"x", 1, 5, dup=True, properties=told))
            assert await subscriber.get(p.Publish) == p.Publish("t", b"x", 1, 1, properties=told)

    on_loop(body)


def test_a_delivery_larger_than_the_client_takes_is_left_out() -> None:
    async def body() -> None:
        async with serving() as door:
            told = {Property.MAXIMUM_PACKET_SIZE: 100, Property.RECEIVE_MAXIMUM: 2}
            subscriber = await Raw.connected(door, "s", properties=told)
            await subscriber.subscribe("t")
            publisher = await Raw.connected(door, "p")
            for number, size in enumerate((10, 200, 200, 200, 20)):
                await publisher.publish("t", b"x" * size, number + 1)
            first = await subscriber.get(p.Publish)
            assert (len(first.payload), first.packet_id) == (10, 1)
            subscriber.send(p.Puback(1))
            second = await subscriber.get(p.Publish)
            assert (len(second.payload), second.packet_id) == (20, 5)

    on_loop(body)


def test_no_more_than_receive_maximum_deliveries_are_under_way() -> None:
    async def body() -> None:
        async with serving() as door:
            told = {Property.RECEIVE_MAXIMUM: 3}
            subscriber = await Raw.connected(door, "s", properties=told)
            await subscriber.subscribe("t")
            publisher = await Raw.connected(door, "p")
            for number in range(1, 8):
                await publisher.publish("t", b"%d" % number, number)
            got = [(await subscriber.get(p.Publish)).packet_id for _ in range(3)]
            subscriber.send(p.Pingreq())
            await subscriber.get(p.Pingresp)
            # Acknowledged out of order: the window moves with the oldest.
            subscriber.send(p.Puback(3), p.Puback(2), p.Pingreq())
            await subscriber.get(p.Pingresp)
            subscriber.send(p.Puback(1))
            got += [(await subscriber.get(p.Publish)).packet_id for _ in range(3)]
            assert got == [1, 2, 3, 4, 5, 6]

    on_loop(body)


def test_a_large_publication_in_many_reads_arrives_whole() -> None:
    async def body() -> None:
        async with serving() as door:
            subscriber = await Raw.connected(door, "s")
            await subscriber.subscribe("t")
            publisher = await Raw.connected(door, "p")
            payload = bytes(range(256)) * 12_000
            await publisher.publish("t", payload)
            assert (await subscriber.get(p.Publish)).payload == payload

    on_loop(body)
