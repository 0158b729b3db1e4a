"""A stock MQTT subscriber is moved without being told: it gets over a tether what is for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import paho.mqtt.client as paho
import pytest
from tests.client.moving import address_of, asked, live, reassigned, relocated
from tests.client.test_following_subscribers import Voices, voices
from tests.serve.conftest import eventually
from tests.serve.mqtt.talk import on_loop
from tests.serve.mqtt.test_paho import Stock

from gravitate.broker.moves.tether.origin import State
from gravitate.serve.control.network import LiveNetwork

CHAIN = ("b1", "b2", "b3", "b4")
WAYS = ("b4", "b2", "b3", "b1", "b3", "b4", "b1", "b4", "b3", "b1")


class StockSubscriber:
    """paho-mqtt on a thread of its own; what it gets, by topic."""

    def __init__(self, port: int, qos: int, version: int) -> None:
        self.got: dict[str, list[int]] = {"t/1": [], "t/4": [], "t/own": []}
        self.disconnects = 0
        self._stock = Stock("stock", version, port)
        self._stock.client.on_message = self._note
        self._stock.client.on_disconnect = self._disconnected
        self._stock.client.subscribe("t/+", qos=qos)
        self._stock.subscribed.get(timeout=10)

    def _note(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        self.got[message.topic].append(int(message.payload))

    def _disconnected(self, *_: object) -> None:
        self.disconnects += 1

    def publish(self, number: int) -> None:
        self._stock.client.publish("t/own", str(number), qos=1).wait_for_publish(10)

    def close(self) -> None:
        self._stock.close()

    async def has_all(self, published: dict[str, int]) -> None:
        def complete() -> bool:
            return all(len(self.got[topic]) >= count for topic, count in published.items())

        await eventually(complete, f"{published} of which {self.got}")
        for topic, count in published.items():
            assert self.got[topic] == list(range(count)), topic


async def with_stock(
    running: LiveNetwork,
    then: Callable[[StockSubscriber, Voices], object],
    last: str = "b4",
    qos: int = 1,
    version: int = paho.MQTTv5,
) -> None:
    """A stock subscriber at b1 that must have had everything, at the end, on one connection."""
    port = address_of(running, "b1").mqtt
    stock = await asyncio.to_thread(StockSubscriber, port, qos, version)
    try:
        session = running.nodes["b1"].broker.clients.sessions["stock"]
        await eventually(lambda: not session.outbound.unsettled_subscriptions)
        async with voices(running, last) as speakers:
            await speakers.reach(10)
            done = then(stock, speakers)
            assert asyncio.iscoroutine(done)
            await done
            await stock.has_all(await speakers.stop())
        assert stock.disconnects == 0
    finally:
        await asyncio.to_thread(stock.close)


@pytest.mark.parametrize(
    ("qos", "version"), [(0, paho.MQTTv311), (1, paho.MQTTv311), (1, paho.MQTTv5)]
)
def test_a_stock_subscriber_under_load_is_moved_ten_times_and_misses_nothing(
    qos: int, version: int
) -> None:
    async def body() -> None:
        async with live(*CHAIN) as running:

            async def move(stock: StockSubscriber, speakers: Voices) -> None:
                place = "b1"
                for target in WAYS:
                    record = await reassigned(running, "stock", place, target)
                    assert (record.outcome, record.reason) == ("done", "")
                    place = target
                    await speakers.reach(15)
                    _, served = await asked(address_of(running, target).http, "GET", "/subscribers")
                    assert "stock" in served["clients"]

            await with_stock(running, move, qos=qos, version=version)
            brokers = {id: node.broker for id, node in running.nodes.items()}
            await eventually(
                lambda: not any(len([*b.tethered_subscribers]) for b in brokers.values())
            )
            assert not any(len([*b.subscriber_tethers]) for b in brokers.values())

    on_loop(body)


def test_a_place_that_stops_in_order_gives_its_subscribers_back() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3", "b4") as running:

            async def stop(stock: StockSubscriber, speakers: Voices) -> None:
                assert (await reassigned(running, "stock", "b1", "b3")).outcome == "done"
                await speakers.reach(10)
                (tether,) = running.nodes["b1"].broker.subscriber_tethers
                assert (tether.place, tether.state) == ("b3", State.ATTACHED)
                await running.nodes.pop("b3").stop()
                assert (tether.place, tether.state) == ("b1", State.ATTACHED)
                await speakers.reach(10)

            await with_stock(running, stop, last="b2")

    on_loop(body)


def test_one_that_publishes_and_subscribes_is_moved_in_both_ways_at_once() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3", "b4") as running:

            async def both(stock: StockSubscriber, speakers: Voices) -> None:
                await asyncio.to_thread(stock.publish, 0)
                session = running.nodes["b1"].broker.clients.sessions["stock"]
                await eventually(session.inbound.at_rest)
                moved = await asyncio.gather(
                    reassigned(running, "stock", "b1", "b4"),
                    relocated(running, "stock", "b1", "b3"),
                )
                assert [it.outcome for it in moved] == ["done", "done"]
                await asyncio.to_thread(stock.publish, 1)
                await speakers.reach(10)
                await eventually(lambda: stock.got["t/own"] == [0, 1])

            await with_stock(running, both)

    on_loop(body)
