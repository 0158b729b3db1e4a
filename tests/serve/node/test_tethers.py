"""A stock MQTT publisher is moved without being told: its broker hands over what it publishes."""

from __future__ import annotations

import asyncio
import threading

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.client.moving import address_of, asked, audience, door_of, live, relocated
from tests.serve.mqtt.talk import Raw, on_loop

from gravitate.broker.links.link import LinkState
from gravitate.serve.control.network import LiveNetwork

RATE_PER_S = 500


class StockPublisher:
    """paho-mqtt on a thread of its own, publishing numbers until it is told to stop."""

    def __init__(self, port: int, client_id: str = "stock") -> None:
        self.published = 0
        self.disconnects = 0
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5
        )
        self._client.on_disconnect = self._disconnected
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _disconnected(self, *_: object) -> None:
        self.disconnects += 1

    def _publish(self) -> None:
        while not self._stopping.wait(1 / RATE_PER_S):
            number = self.published
            sent = self._client.publish(f"t/{number % 3}", str(number), qos=number % 2)
            self.published += 1
            if number % 50 == 49:
                sent.wait_for_publish(10)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def tether_links(running: LiveNetwork) -> set[tuple[str, str]]:
    return {
        (id, link.peer)
        for id, node in running.nodes.items()
        for link in node.broker.links
        if link.tethers
    }


def test_a_stock_publisher_under_load_is_moved_ten_times_and_nothing_is_missed() -> None:
    ways = ("b4", "b2", "b3", "b1", "b3", "b4", "b1", "b4", "b3", "b2")

    async def body() -> None:
        async with (
            live("b1", "b2", "b3", "b4") as running,
            audience(running, "b1", "b2", "b4") as everybody,
        ):
            port = address_of(running, "b1").mqtt
            stock = await asyncio.to_thread(StockPublisher, port)
            try:
                place = "b1"
                for target in ways:
                    before = stock.published
                    async with asyncio.timeout(20):
                        while stock.published < before + 40:
                            await asyncio.sleep(0.002)
                        # What has just been advertised for it may not have settled yet.
                        while (
                            record := await relocated(running, "stock", place, target)
                        ).outcome == "refused":
                            await asyncio.sleep(0.01)
                    assert record.outcome == "done", record
                    place = target
                session = running.nodes["b1"].broker.clients.sessions["stock"]
                assert session.inbound.place == "b2"
                assert [one.id for one in running.nodes["b2"].broker.tethered] == ["stock"]
            finally:
                await asyncio.to_thread(stock.stop)
            await everybody.has_all(stock.published)
            assert stock.disconnects == 0
            await asyncio.to_thread(stock.close)

    on_loop(body)


def test_a_tether_is_a_link_of_its_own_and_goes_with_its_client() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, audience(running, "b3") as everybody:
            stock = await asyncio.to_thread(StockPublisher, address_of(running, "b1").mqtt)
            await asyncio.sleep(0)
            async with asyncio.timeout(20):
                while (await relocated(running, "stock", "b1", "b3")).outcome != "done":
                    await asyncio.sleep(0.01)
            assert tether_links(running) == {("b1", "b3"), ("b3", "b1")}
            _, status = await asked(address_of(running, "b1").http, "GET", "/status")
            assert {link["peer"] for link in status["links"]} == {"b2", "b3"}
            await asyncio.to_thread(stock.stop)
            await everybody.has_all(stock.published)
            await asyncio.to_thread(stock.close)
            async with asyncio.timeout(20):
                while tether_links(running):
                    await asyncio.sleep(0.01)
            assert not [*running.nodes["b1"].broker.tethers]

    on_loop(body)


def test_a_broker_that_only_dials_tethers_to_one_that_listens() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3", without={"b1": "peer"}) as running,
            audience(running, "b3") as everybody,
        ):
            raw = await Raw.connected(door_of(running, "b1"), "p")
            await raw.publish("t/x", b"0", number=1)
            await everybody.has_all(1)
            assert (await relocated(running, "p", "b1", "b3")).outcome == "done"
            assert tether_links(running) == {("b1", "b3"), ("b3", "b1")}
            await raw.publish("t/x", b"1", number=2)
            await everybody.has_all(2)
            raw.close()

    on_loop(body)


def test_a_broker_that_cannot_be_dialled_refuses_a_tether() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", "b3", without={"b3": "peer"}) as running,
            audience(running, "b3") as everybody,
        ):
            raw = await Raw.connected(door_of(running, "b1"), "p")
            await raw.publish("t/x", b"0", number=1)
            await everybody.has_all(1)
            record = await relocated(running, "p", "b1", "b3")
            assert record.outcome == "refused"
            assert record.reason == "b3 can make no link to b1, where the client is"
            assert tether_links(running) == set()
            await raw.publish("t/x", b"1", number=2)
            await everybody.has_all(2)
            raw.close()

    on_loop(body)


def test_a_tether_that_is_cut_goes_on_when_it_is_back() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, audience(running, "b1", "b3") as everybody:
            stock = await asyncio.to_thread(StockPublisher, address_of(running, "b1").mqtt)
            async with asyncio.timeout(20):
                while (await relocated(running, "stock", "b1", "b3")).outcome != "done":
                    await asyncio.sleep(0.01)
                # There is no other link between these two.
                assert tether_links(running) == {("b1", "b3"), ("b3", "b1")}
                node = running.nodes["b1"]
                (tether,) = (link for link in node.broker.links if link.peer == "b3")
                for _ in range(3):
                    before, used = stock.published, tether.connection
                    while not node.links.cut("b3", 0.05):
                        await asyncio.sleep(0.005)
                    while tether.state is not LinkState.DOWN:
                        await asyncio.sleep(0.001)
                    while tether.state is not LinkState.UP or stock.published < before + 60:
                        await asyncio.sleep(0.005)
                    assert tether.connection != used
            await asyncio.to_thread(stock.stop)
            await everybody.has_all(stock.published)
            await asyncio.to_thread(stock.close)

    on_loop(body)
