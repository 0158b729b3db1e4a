"""The thin client against a real node: conditions, ids, reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.serve.mqtt.talk import on_loop, recording, serving

from gravitate.broker.interface.effects import AdvertisementSettled
from gravitate.broker.interface.inputs import ClientAdvertised, ClientConnected, ClientPublished
from gravitate.client import Client, Message, Subscription
from gravitate.errors import FilterError, LocalProtocolError, MqttError, RemoteProtocolError
from gravitate.model.events import EventId
from gravitate.serve.mqtt import MqttDoor
from gravitate.wire.mqtt.codes import ReasonCode


async def take(subscription: Subscription, count: int) -> list[bytes]:
    return [(await anext(subscription)).payload for _ in range(count)]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def cut(door: MqttDoor) -> None:
    """Every connection breaks."""
    for connection in list(door.connections):
        connection._transport.abort()


def client(door: MqttDoor, client_id: str | None = None) -> Client:
    return Client(port=door.port, client_id=client_id, retry_s_min=0.01, retry_s_max=0.05)


def test_messages_carry_topic_attributes_and_payload() -> None:
    async def body() -> None:
        async with serving() as door, client(door) as subscriber, client(door, "pub") as publisher:
            subscription = await subscriber.subscribe("stocks/+", "volume > 10 AND hot = TRUE", 1)
            await subscription.settled()
            first = await publisher.publish("stocks/a", "few", {"volume": 3, "hot": True}, qos=1)
            await publisher.publish("stocks/a", b"many", {"volume": 30, "hot": True}, qos=1)
            last = await publisher.publish("stocks/a", b"cold", {"volume": 30, "hot": False})
            assert await anext(subscription) == Message(
                "stocks/a", b"many", {"volume": "30", "hot": "true"}, 1
            )
            assert first == EventId("pub", publisher.incarnation, 1)
            assert last == EventId("pub", publisher.incarnation, 3)

    on_loop(body)


def test_a_message_goes_to_every_subscription_that_it_matches() -> None:
    async def body() -> None:
        async with serving() as door, client(door) as one:
            heard: list[bytes] = []
            every = await one.subscribe("#", qos=1)
            some = await one.subscribe("a", "payload.n > 1", qos=1)
            await one.subscribe("a/b", on_message=lambda message: heard.append(message.payload))
            await one.publish("a", b'{"n": 1}', qos=1)
            await one.publish("a", b'{"n": 2}', qos=1)
            await one.publish("a/b", b"end", qos=1)
            assert await take(every, 3) == [b'{"n": 1}', b'{"n": 2}', b"end"]
            assert await take(some, 1) == [b'{"n": 2}']
            assert heard == [b"end"]
            await one.unsubscribe(some)
            with pytest.raises(StopAsyncIteration):
                await anext(some)

    on_loop(body)


def test_after_a_cut_nothing_acknowledged_is_lost_or_doubled() -> None:
    async def body() -> None:
        async with serving() as door, client(door) as subscriber, client(door) as publisher:
            subscription = await subscriber.subscribe("t", qos=1)
            await subscription.settled()
            for number in range(5):
                await publisher.publish("t", b"%d" % number, qos=1)
            assert await take(subscription, 5) == [b"%d" % n for n in range(5)]
            cut(door)
            await until(lambda: subscriber.reconnects == 1 and publisher.reconnects == 1)
            probe = await subscriber.subscribe("probe")
            await probe.settled()
            ids = [await publisher.publish("t", b"%d" % n, qos=1) for n in range(5, 10)]
            assert [id.counter for id in ids] == [6, 7, 8, 9, 10]
            assert await take(subscription, 5) == [b"%d" % n for n in range(5, 10)]

    on_loop(body)


def test_unacknowledged_publications_are_sent_again_under_their_counters() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            publisher = client(door, "p")
            await publisher.connect()
            assert await recorder.get(ClientConnected) == ClientConnected(
                1, "p", publisher.incarnation, counts=True, attachment=1, follows=True
            )
            await publisher.publish("t", b"1")
            outcomes = [publisher.publish_nowait("t", b"%d" % n, qos=1) for n in (2, 3)]
            publisher.publish_nowait("t", b"4")
            got = [await recorder.get(ClientPublished)]
            while sum(len(one.bodies) for one in got) < 4:
                got.append(await recorder.get(ClientPublished))
            counters = [one.first_counter for one in got]
            assert counters[0] == 1
            recorder.attached["p"].accept(1)
            recorder.attached["p"].flush()
            assert (await outcomes[0]).counter == 2
            cut(door)
            assert await recorder.get(ClientConnected) == ClientConnected(
                2, "p", publisher.incarnation, counts=True, attachment=2, follows=True
            )
            again = await recorder.get(ClientPublished)
            assert (again.first_counter, again.qos, len(again.bodies)) == (3, 1, 1)
            rest = await recorder.get(ClientPublished)
            assert (rest.first_counter, rest.qos) == (4, 0)
            assert rest.bodies.payloads() == [b"4"]  # type: ignore[attr-defined]
            recorder.attached["p"].accept(1)
            recorder.attached["p"].flush()
            assert (await outcomes[1]).counter == 3
            await publisher.close()

    on_loop(body)


def test_an_advertisement_is_made_and_made_again_after_a_cut() -> None:
    async def body() -> None:
        async with serving() as door, client(door) as publisher:
            advertisement = await publisher.advertise("stocks/#", "volume > 0")
            await publisher.publish("stocks/a", b"", {"volume": 1}, qos=1)
            await publisher.unadvertise(advertisement)
            with pytest.raises(LocalProtocolError):
                await publisher.unadvertise(advertisement)
        async with recording() as (door, recorder):
            publisher = client(door, "p")
            await publisher.connect()
            waiting = asyncio.ensure_future(publisher.advertise("stocks/#"))
            first = await recorder.get(ClientAdvertised)
            cut(door)
            again = await recorder.get(ClientAdvertised)
            assert (again.name, again.filter) == (first.name, first.filter)
            recorder.attached["p"].tell(AdvertisementSettled(first.name))
            recorder.attached["p"].flush()
            assert (await waiting).topic_filter == "stocks/#"
            await publisher.close()

    on_loop(body)


def test_mistakes_are_found_where_they_are_made() -> None:
    async def body() -> None:
        async with serving(packet_bytes_max=1000) as door, client(door) as one:
            with pytest.raises(FilterError, match="column 4"):
                await one.subscribe("t", "x >> 1")
            with pytest.raises(FilterError):
                await one.subscribe("a/#/b")
            with pytest.raises(FilterError):
                await one.advertise(None, "x >")
            with pytest.raises(MqttError, match="shared subscriptions") as caught:
                await one.subscribe("$share/g/t")
            assert caught.value.reason_code == ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
            for topic in ("a/+", "#", "$SYS/x", ""):
                with pytest.raises(LocalProtocolError, match="cannot publish on"):
                    await one.publish(topic)
            with pytest.raises(LocalProtocolError, match="QoS 2: 0 and 1 are offered"):
                await one.publish("t", qos=2)
            with pytest.raises(LocalProtocolError, match="1000"):
                await one.publish("t", b"x" * 1000)
            subscription = await one.subscribe("t")
            with pytest.raises(LocalProtocolError, match="already"):
                await one.subscribe("t")
            await one.unsubscribe(subscription)
            with pytest.raises(LocalProtocolError):
                await one.unsubscribe(subscription)
        with pytest.raises(LocalProtocolError, match="not connected"):
            await one.publish("t")
        with pytest.raises(LocalProtocolError):
            await one.connect()

    on_loop(body)


def test_no_broker_is_a_clear_error() -> None:
    async def body() -> None:
        async with serving() as door:
            port = door.port
        with pytest.raises(RemoteProtocolError, match=f"no broker at 127.0.0.1:{port}"):
            await Client(port=port).connect()

    on_loop(body)


def test_a_client_that_is_taken_over_does_not_come_back() -> None:
    async def body() -> None:
        async with serving() as door, client(door, "same") as first:
            subscription = await first.subscribe("t")
            async with client(door, "same"):
                with pytest.raises(MqttError, match="taken over"):
                    await anext(subscription)
                with pytest.raises(MqttError, match="taken over"):
                    await first.publish("t")

    on_loop(body)


def test_closing_ends_iterations_and_those_who_wait() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            one = client(door, "p")
            await one.connect()
            outcome = one.publish_nowait("t", b"never accepted", qos=1)
            await recorder.get(ClientPublished)
            await one.close(timeout_s=0.01)
            with pytest.raises(RemoteProtocolError, match="closed"):
                await outcome
        async with serving() as door:
            async with client(door) as other:
                subscription = await other.subscribe("t")
            assert [message async for message in subscription] == []

    on_loop(body)


def test_messages_wait_for_a_slow_application_without_loss_at_qos_1() -> None:
    async def body() -> None:
        async with serving() as door, client(door) as subscriber, client(door) as publisher:
            subscription = await subscriber.subscribe("t", qos=1)
            await subscription.settled()
            count = 12_000
            for number in range(count):
                await publisher._keeper.ready()
                while publisher._outgoing.unacknowledged > 1000:
                    await asyncio.sleep(0)
                publisher.publish_nowait("t", b"%d" % number, qos=1)
            assert await take(subscription, count) == [b"%d" % n for n in range(count)]

    on_loop(body)
