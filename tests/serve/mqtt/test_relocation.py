"""What a client is told of a relocation, packet by packet: only if it asked for it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.client.moving import address_of, audience, door_of, live, relocated
from tests.serve.mqtt.talk import Raw, on_loop, recording

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.inputs import BrokersPinged, ClientConnected, ClientPaused
from gravitate.wire.mqtt import control
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.control import ClientMark
from gravitate.wire.mqtt.properties import Properties, Property, user_properties


def marked(attachment: int = 1, counter: int = 1, follows: bool = True) -> Properties:
    mark = ClientMark(7, counter, attachment, follows)
    return {Property.USER_PROPERTY: mark.user_properties()}


async def told(raw: Raw) -> tuple[str, dict[str, str]]:
    """The next control message."""
    packet = await raw.get(p.Publish)
    return packet.topic, dict(user_properties(packet.properties))


def test_a_client_that_follows_by_hand_is_sent_to_the_targets_address() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running, audience(running, "b1", "b2") as everybody:
            target = address_of(running, "b2")
            reference = f"{target.host}:{target.mqtt}"
            raw = await Raw.connected(door_of(running, "b1"), "p", properties=marked())
            assert await told(raw) == (control.ATTACHED, {})
            await raw.publish("t/x", b"0", number=1)
            moving = asyncio.create_task(relocated(running, "p", "b1", "b2"))
            assert await told(raw) == (control.REDIRECT, {"target": "b2", "server": reference})
            raw.send(p.Publish(control.PAUSED))
            farewell = await raw.get(p.Disconnect)
            assert farewell.reason == ReasonCode.SERVER_MOVED
            assert farewell.properties[Property.SERVER_REFERENCE] == reference
            assert await raw.ended()
            again = await Raw.connected(door_of(running, "b2"), "p", properties=marked(2, 2))
            again.send(p.Publish("t/x", b"1", 1, 1))
            assert await told(again) == (control.ATTACHED, {})
            assert (await again.get(p.Puback)).packet_id == 1
            assert (await moving).outcome == "done"
            await everybody.has_all(2)
            again.close()

    on_loop(body)


def test_the_greatest_attachment_travels_between_brokers_and_may_still_grow() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, audience(running, "b3") as everybody:
            greatest = marked(control.ATTACHMENT_MAX, follows=False)
            raw = await Raw.connected(door_of(running, "b1"), "p", properties=greatest)
            assert await told(raw) == (control.ATTACHED, {})
            await raw.publish("t/x", b"0", number=1)
            await everybody.has_all(1)
            assert (await relocated(running, "p", "b1", "b3")).outcome == "done"
            await raw.publish("t/x", b"1", number=2)
            await everybody.has_all(2)
            raw.close()

    on_loop(body)


def test_one_that_pauses_without_being_asked_is_told_to_stay() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            raw = await Raw.connected(door_of(running, "b1"), "p", properties=marked())
            assert await told(raw) == (control.ATTACHED, {})
            raw.send(p.Publish(control.PAUSED))
            assert await told(raw) == (control.STAY, {})
            raw.close()

    on_loop(body)


def test_a_stock_client_sees_nothing_of_it() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running, audience(running, "b1", "b2") as everybody:
            raw = await Raw.connected(door_of(running, "b1"), "p")
            await raw.publish("t/x", b"0", number=1)
            async with asyncio.timeout(20):
                # What has just been advertised for it may not have settled yet.
                while (record := await relocated(running, "p", "b1", "b2")).outcome == "refused":
                    await asyncio.sleep(0.01)
            assert record.outcome == "done", record
            assert "p" in running.nodes["b2"].attached()
            for number in (1, 2, 3):
                raw.send(p.Publish("t/x", b"%d" % number, 1, number))
            await everybody.has_all(4)
            raw.send(p.Pingreq())
            # Word of its move would have come before this.
            seen = [await raw.next() for _ in range(4)]
            assert [type(packet) for packet in seen] == [p.Puback] * 3 + [p.Pingresp], seen
            raw.close()

    on_loop(body)


def test_a_stock_client_may_not_say_that_it_pauses() -> None:
    async def body() -> None:
        async with live("b1") as running:
            raw = await Raw.connected(door_of(running, "b1"), "p")
            raw.send(p.Publish(control.PAUSED))
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.TOPIC_NAME_INVALID

    on_loop(body)


def test_a_broker_is_told_what_the_mark_says() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door, "p", properties=marked(3, 9))
            assert await recorder.get(ClientConnected) == ClientConnected(
                1, "p", 7, counts=True, attachment=3, follows=True
            )
            raw.send(p.Publish(control.PAUSED))
            assert await recorder.get(ClientPaused) == ClientPaused(1)
            stays = await Raw.connected(door, "q", properties=marked(follows=False))
            assert not (await recorder.get(ClientConnected)).follows
            for one in (raw, stays):
                one.close()

    on_loop(body)


def test_a_broker_that_listens_everywhere_is_where_the_client_is() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door, "p", properties=marked())
            connection: Any = recorder.attached["p"]
            recorder.mqtt_addresses |= {"b2": ("0.0.0.0", 5), "b3": ("fe80::1", 5)}
            connection.tell(e.Redirect("b2"))
            connection.flush()
            assert await told(raw) == (
                control.REDIRECT,
                {"target": "b2", "server": "127.0.0.1:5"},
            )
            connection.tell(e.Redirect("nobody"))
            connection.tell(e.Redirect("b3"))
            connection.flush()
            assert (await told(raw))[1]["server"] == "[fe80::1]:5"
            raw.close()

    on_loop(body)


def test_a_client_is_told_where_brokers_are_and_says_how_far() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door, "p", properties=marked())
            connection: Any = recorder.attached["p"]
            recorder.mqtt_addresses |= {"b2": ("0.0.0.0", 5), "b3": ("host", 6)}
            connection.tell(e.PingBrokers(("b2", "nobody", "b3"), 9))
            connection.flush()
            packet = await raw.get(p.Publish)
            assert (packet.topic, packet.qos) == (control.PING, 0)
            assert msgspec.json.decode(packet.payload) == {
                "brokers": {"b2": ["127.0.0.1", 5], "b3": ["host", 6]},
                "token": 9,
            }
            raw.send(p.Publish(control.PONG, b'{"token": 9, "round_trips_s": {"b2": 0.5}}'))
            assert await recorder.get(BrokersPinged) == BrokersPinged(1, 9, {"b2": 0.5})
            raw.close()

    on_loop(body)


@pytest.mark.parametrize(
    ("payload", "qos"),
    [
        (b"", 0),
        (b"{}", 0),
        (b'{"token": 9, "round_trips_s": {"b2": -1}}', 0),
        (b'{"token": 9, "round_trips_s": {"b2": "far"}}', 0),
        (b'{"token": 9, "round_trips_s": {"\xff": 1}}', 0),
        (b'{"x": ' + b"[" * 100_000, 0),
        (b'{"token": 9, "round_trips_s": {}}', 1),
    ],
)
def test_one_that_says_nonsense_is_closed(payload: bytes, qos: int) -> None:
    async def body() -> None:
        async with recording() as (door, _):
            raw = await Raw.connected(door, "p", properties=marked())
            raw.send(p.Publish(control.PONG, payload, qos, qos))
            expected = ReasonCode.TOPIC_NAME_INVALID if qos else ReasonCode.PAYLOAD_FORMAT_INVALID
            assert (await raw.get(p.Disconnect)).reason == expected

    on_loop(body)


@pytest.mark.parametrize("topic", [control.PING, control.PONG])
def test_a_stock_client_may_say_none_of_it(topic: str) -> None:
    async def body() -> None:
        async with live("b1") as running:
            raw = await Raw.connected(door_of(running, "b1"), "p")
            raw.send(p.Publish(topic, b'{"token": 1, "round_trips_s": {}}'))
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.TOPIC_NAME_INVALID

    on_loop(body)
