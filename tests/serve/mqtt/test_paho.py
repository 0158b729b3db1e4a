"""paho-mqtt, unchanged, talks to a node: both versions, with and without a filter."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from tests.serve.mqtt.talk import on_loop, serving

DEADLINE_S = 10.0


class Stock:
    """A paho client on its own thread; what happens to it arrives in queues."""

    def __init__(self, client_id: str, version: int, port: int) -> None:
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.subscribed: queue.Queue[list[Any]] = queue.Queue()
        self.connected: queue.Queue[Any] = queue.Queue()
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version
        )
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_subscribe = lambda client, data, mid, reasons, told: self.subscribed.put(
            reasons
        )
        self.client.on_connect = lambda client, data, flags, reason, told: self.connected.put(
            reason
        )
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self.connected.get(timeout=DEADLINE_S) == 0

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def user_properties(packet: int, **pairs: str) -> Properties:
    properties = Properties(packet)
    properties.UserProperty = [(name.replace("where", "$where"), v) for name, v in pairs.items()]
    return properties


def with_filter(port: int) -> None:
    subscriber = Stock("subscriber", paho.MQTTv5, port)
    publisher = Stock("publisher", paho.MQTTv5, port)
    try:
        wanted = user_properties(PacketTypes.SUBSCRIBE, where="volume > 1000000")
        subscriber.client.subscribe("stocks/+", options=SubscribeOptions(qos=1), properties=wanted)
        assert [code.value for code in subscriber.subscribed.get(timeout=DEADLINE_S)] == [1]
        refused = user_properties(PacketTypes.SUBSCRIBE, where="volume >")
        subscriber.client.subscribe("stocks/+", options=SubscribeOptions(qos=1), properties=refused)
        assert [code.value for code in subscriber.subscribed.get(timeout=DEADLINE_S)] == [0x83]
        for volume in ("10", "2000000", "30", "4000000"):
            told = user_properties(PacketTypes.PUBLISH, volume=volume)
            sent = publisher.client.publish("stocks/x", volume, qos=1, properties=told)
            sent.wait_for_publish(DEADLINE_S)
        got = [subscriber.messages.get(timeout=DEADLINE_S) for _ in range(2)]
        assert [message.payload for message in got] == [b"2000000", b"4000000"]
        assert got[0].properties is not None
        assert got[0].properties.UserProperty == [("volume", "2000000")]
    finally:
        subscriber.close()
        publisher.close()


def without_filter(version: int, qos: int, port: int) -> None:
    subscriber = Stock("subscriber", version, port)
    publisher = Stock("publisher", version, port)
    try:
        subscriber.client.subscribe("a/#", qos=qos)
        assert len(subscriber.subscribed.get(timeout=DEADLINE_S)) == 1
        for number in range(100):
            sent = publisher.client.publish("a/b", b"%d" % number, qos=qos)
        sent.wait_for_publish(DEADLINE_S)
        got = [subscriber.messages.get(timeout=DEADLINE_S).payload for _ in range(100)]
        assert got == [b"%d" % number for number in range(100)]
    finally:
        subscriber.close()
        publisher.close()


def test_paho_subscribes_with_a_condition() -> None:
    async def body() -> None:
        async with serving() as door:
            await asyncio.to_thread(with_filter, door.port)

    on_loop(body)


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("qos", [0, 1])
def test_paho_publishes_and_subscribes(version: int, qos: int) -> None:
    async def body() -> None:
        async with serving() as door:
            await asyncio.to_thread(without_filter, version, qos, door.port)

    on_loop(body)
