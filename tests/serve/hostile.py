"""Clients that mean harm: packets drawn at random, damaged, cut and sent.

`python -m tests.serve.hostile` feeds two brokers in processes of their own with all of it at once,
beside a publisher and a subscriber that must not notice, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.serve.watching import memory_mb, status

from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network, save
from gravitate.errors import GravitateError
from gravitate.serve.control.network import on_free_ports
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5, V311
from gravitate.wire.mqtt.control import (
    ADVERTISE,
    ARRIVED,
    PAUSED,
    PONG,
    UNADVERTISE,
    WHERE,
    ClientMark,
)
from gravitate.wire.mqtt.properties import Properties, Property

TOPICS: Final = ("a", "a/b", "a/b/c", "x/1", "x/2", "big/1", "ä/ö")
NO_TOPICS: Final = ("", "$SYS/x", "$gravitate/settled")
FILTERS: Final = (
    *TOPICS,
    *NO_TOPICS,
    "a/+",
    "a/#",
    "+/b",
    "#",
    "+",
    "$share/g/a",
    "a/#/b",
    "a?v=1",
    "x/+?v>2",
)
CONDITIONS: Final = (
    "v > 1",
    "v = 'x' OR w LIKE '%a%' AND NOT v IN (1, 2)",
    "payload.n >= 3",
    "v <> 1 AND v <> 2",
    "v >",
    "topic MATCHES 'a/#'",
    "\ud83d",
)
PATIENCE_S: Final = 0.2
"""How long an attacker waits for a broker that does not read from it."""
GONE: Final = (OSError, TimeoutError, RuntimeError)
"""What writing to a broker raises that has closed the connection; uvloop says it by the last."""
CONTROL: Final = (ADVERTISE, UNADVERTISE, PAUSED, ARRIVED, PONG, "$gravitate/no")


# What is sent -------------------------------------------------------------------------------------


def told(draw: random.Random, **fields: str) -> Properties:
    pairs = [*fields.items()]
    pairs += [(draw.choice("vw"), draw.choice(("1", "2.5", "x", "true", "")))] * draw.randrange(3)
    return {Property.USER_PROPERTY: tuple(pairs)} if pairs else {}


def connect(draw: random.Random, id: str) -> p.Connect:
    version = draw.choice((V5, V5, V311))
    properties: Properties = {}
    if version == V5:
        if draw.random() < 0.3:
            properties[Property.RECEIVE_MAXIMUM] = draw.choice((1, 2, 65535))
        if draw.random() < 0.2:
            properties[Property.MAXIMUM_PACKET_SIZE] = draw.choice((1, 20, 100, 5000))
        if draw.random() < 0.4:
            mark = ClientMark(
                draw.randint(1, 3),
                draw.randint(1, 5),
                draw.randint(0, 3),
                draw.random() < 0.5,
                draw.choice(("", "", "moved", "back")),
            )
            properties[Property.USER_PROPERTY] = mark.user_properties()
    will = p.Will("w", b"gone") if draw.random() < 0.03 else None
    return p.Connect(
        id, version, draw.random() < 0.9, draw.choice((0, 1, 60)), None, None, will, properties
    )


def packet(draw: random.Random, version: int, control: float) -> p.Packet:
    number = draw.choice((1, 1, 2, 3, draw.randint(1, 65535)))
    kind = draw.random()
    if kind < 0.45:
        return publish(draw, version, number, control)
    if kind < 0.65:
        requests = tuple(
            p.TopicRequest(
                draw.choice(FILTERS), draw.randint(0, 2), version == V5 and draw.random() < 0.3
            )
            for _ in range(draw.choice((1, 1, 2, 5)))
        )
        condition = {WHERE: draw.choice(CONDITIONS[:-1])} if draw.random() < 0.4 else {}
        return p.Subscribe(number, requests, told(draw, **condition) if version == V5 else {})
    if kind < 0.75:
        filters = tuple(draw.choice(FILTERS) for _ in range(draw.randint(1, 3)))
        return p.Unsubscribe(number, filters)
    if kind < 0.98:
        return draw.choice((p.Puback(number), p.Pingreq()))
    return draw.choice(
        (
            p.Pingreq(),
            p.Pingresp(),
            p.Pubrec(number),
            p.Pubrel(number),
            p.Pubcomp(number),
            p.Disconnect(),
            p.Auth(),
            p.Connect("again", version),
            p.Connack(),
            p.Suback(number, b"\0"),
        )
    )


def publish(draw: random.Random, version: int, number: int, control: float) -> p.Publish:
    qos = draw.choice((0, 1)) if draw.random() < 0.99 else 2
    payload = draw.choice(
        (b"", b"x", b'{"n": 3}', b'{"n": [1, {', draw.randbytes(draw.choice((5, 300))))
    )
    properties = told(draw) if version == V5 else {}
    topic = draw.choice(TOPICS if draw.random() < 0.99 else NO_TOPICS)
    if version == V5 and draw.random() < control:
        topic, qos = draw.choice(CONTROL), draw.choice((0, 0, 0, 1))
        fields = {"name": draw.choice(("n1", "n2", ""))}
        if draw.random() < 0.5:
            fields["topic"] = draw.choice(FILTERS)
        if draw.random() < 0.3:
            fields[WHERE] = draw.choice(CONDITIONS[:-1])
        properties = {Property.USER_PROPERTY: tuple(fields.items())}
        if topic == PONG:
            payload = draw.choice((b'{"token": 1, "round_trips_s": {"b02": 0.1}}', b'{"token": -1'))
    return p.Publish(
        topic, payload, qos, number if qos else 0, draw.random() < 0.01, False, properties
    )


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Bytes changed, left out, doubled, or cut off."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(changed)) if changed else 0
        match draw.randrange(6):
            case 0 | 1:
                if changed:
                    changed[at] = draw.randrange(256)
            case 2:
                if changed:
                    changed[at] ^= 1 << draw.randrange(8)
            case 3:
                del changed[at : at + draw.randint(1, 4)]
            case 4:
                changed[at:at] = draw.randbytes(draw.randint(1, 8))
            case 5:
                changed[at:at] = changed[at : at + draw.randint(1, 20)]
    return bytes(changed)


def encoded(draw: random.Random, hello: p.Connect, damage: float) -> bytes:
    """A packet, drawn again while it cannot be encoded."""
    control = 0.2 if Property.USER_PROPERTY in hello.properties else 0.005
    while True:
        with contextlib.suppress(GravitateError, UnicodeEncodeError):
            data = encode(packet(draw, hello.version, control), hello.version)
            return damaged(draw, data) if draw.random() < damage else data


# Who sends ----------------------------------------------------------------------------------------


class Attacker:
    """Connects again and again, under few names, and sends; acknowledges some of what it gets."""

    def __init__(self, address: Address, seed: int, packets: int, damage: float = 0.3) -> None:
        self.address = address
        self.left = packets
        self.connections = 0
        self._seed = seed
        self._draw = random.Random(seed)
        self._damage = damage

    async def run(self) -> None:
        while self.left > 0:
            await self._connection()

    async def _connection(self) -> None:
        draw = self._draw
        reader, writer = await asyncio.open_connection(self.address.host, self.address.mqtt)
        self.connections += 1
        hello = connect(draw, f"evil-{draw.choice((self._seed, 0))}-{draw.randrange(6)}")
        version = hello.version
        data = encode(hello, version)
        if draw.random() < 0.1:
            data = damaged(draw, data)
        listening = asyncio.create_task(self._listen(reader, writer, version))
        try:
            for _ in range(draw.choice((1, 20, 60, 200))):
                if writer.is_closing() or listening.done():
                    break
                count = draw.choice((1, 1, 3, 10))
                data += b"".join(encoded(draw, hello, self._damage) for _ in range(count))
                self.left -= count
                at = draw.randint(0, len(data)) if draw.random() < 0.2 else len(data)
                writer.write(data[:at])
                data = data[at:]
                await asyncio.wait_for(writer.drain(), PATIENCE_S)
                await asyncio.sleep(0.001)
            if draw.random() < 0.5:
                writer.write(data)
                await asyncio.wait_for(listening, 0.02)
        except GONE:
            pass
        finally:
            listening.cancel()
            if draw.random() < 0.5:
                writer.transport.abort()
            writer.close()

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int
    ) -> None:
        packets = PacketReader(version)
        acknowledges = self._draw.random() < 0.7
        # It may hear an answer of another version than it speaks.
        with contextlib.suppress(*GONE, GravitateError):
            while data := await reader.read(65536):
                for one in packets.feed(data):
                    if isinstance(one, p.Publish) and one.qos and acknowledges:
                        writer.write(encode(p.Puback(one.packet_id), version))


# Who must not notice ------------------------------------------------------------------------------


class Bystanders:
    """A publisher at one broker and a subscriber at another, at so many events a second."""

    def __init__(self, source: Address, target: Address, rate_msgs_per_s: float = 50.0) -> None:
        self._source, self._target = source, target
        self._every_s = 1 / rate_msgs_per_s
        self.sent = 0
        self.late_s_max = 0.0
        self.numbers: Counter[int] = Counter()
        self.order: list[int] = []

    async def start(self) -> None:
        self._reader, self._subscriber = await _connected(self._target, "bystander-sub")
        request = p.Subscribe(1, (p.TopicRequest("bystander/t", 1),))
        self._subscriber.write(encode(request, V5))
        _, self._publisher = await _connected(self._source, "bystander-pub")
        self._listening = asyncio.create_task(self._listen())
        self._publishing = asyncio.create_task(self._publish())
        while not self.order:  # the first waits for its advertisement
            await asyncio.sleep(0.05)
        self.late_s_max = 0.0

    async def stop(self) -> None:
        self._publishing.cancel()
        for _ in range(100):
            if len(self.numbers) == self.sent:
                break
            await asyncio.sleep(0.05)
        self._listening.cancel()
        self._publisher.close()
        self._subscriber.close()

    async def _publish(self) -> None:
        at = time.monotonic()
        while True:
            self.sent += 1
            payload = f"{self.sent} {time.monotonic()}".encode()
            number = self.sent % 65535 + 1
            self._publisher.write(encode(p.Publish("bystander/t", payload, 1, number), V5))
            at += self._every_s
            await asyncio.sleep(max(0.0, at - time.monotonic()))

    async def _listen(self) -> None:
        packets = PacketReader(V5)
        while data := await self._reader.read(65536):
            for one in packets.feed(data):
                if isinstance(one, p.Publish):
                    number, sent_at = one.payload.split()
                    self.numbers[int(number)] += 1
                    self.order.append(int(number))
                    self.late_s_max = max(self.late_s_max, time.monotonic() - float(sent_at))
                    self._subscriber.write(encode(p.Puback(one.packet_id), V5))


async def _connected(
    address: Address, id: str, buffer_bytes: int = 0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    one = socket.create_connection((address.host, address.mqtt))
    if buffer_bytes:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    limit = buffer_bytes or 2**16
    reader, writer = await asyncio.open_connection(sock=one, limit=limit)
    writer.write(encode(p.Connect(id), V5))
    header = await reader.readexactly(2)
    assert header[0] == 0x20, "no CONNACK"
    await reader.readexactly(header[1])
    return reader, writer


# All at once --------------------------------------------------------------------------------------


async def large_to_a_slow_reader(address: Address, messages: int) -> None:
    """One that never reads, and messages of 1 MB for it."""
    _, subscriber = await _connected(address, "slow", 4096)
    subscriber.write(encode(p.Subscribe(1, (p.TopicRequest("big/#", 1),)), V5))
    reader, publisher = await _connected(address, "large")
    packets = PacketReader(V5)
    for number in range(1, messages + 1):
        publisher.write(encode(p.Publish("big/1", b"x" * 2**20, 1, number), V5))
        await publisher.drain()
        packets.feed(await reader.read(100))
    publisher.close()
    subscriber.transport.abort()


async def heavy_subscribes(address: Address, times: int) -> None:
    """50 topic filters under a condition of 250 LIKE patterns."""
    where = " OR ".join(f"a{n % 3} LIKE '%x{n}%y{n}%'" for n in range(250))
    requests = tuple(p.TopicRequest(f"t/x{n}/#", 1) for n in range(50))
    for number in range(times):
        reader, writer = await _connected(address, f"heavy-{number}")
        properties: Properties = {Property.USER_PROPERTY: ((WHERE, where),)}
        writer.write(encode(p.Subscribe(1, requests, properties), V5))
        await asyncio.wait_for(reader.read(100), 5)
        writer.close()
        await asyncio.sleep(0.5)


async def half_connects(address: Address, number: int) -> None:
    """CONNECTs of 16 MB that never end."""
    writers = []
    for _ in range(number):
        _, writer = await asyncio.open_connection(address.host, address.mqtt)
        writer.write(b"\x10\xff\xff\xff\x07\0\4MQTT\5" + bytes(2**20))
        writers.append(writer)
    for _ in range(12):
        for writer in writers:
            with contextlib.suppress(OSError):
                writer.write(bytes(2**20))
        await asyncio.sleep(0.2)
    for writer in writers:
        writer.transport.abort()


async def everything(packets: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        network = on_free_ports(
            Network(
                "hostile",
                tuple(map(BrokerSpec, ("b01", "b02"))),
                (LinkSpec(("b01", "b02")),),
            )
        )
        file = Path(folder) / "network.toml"
        save(network, file)
        running = []
        for broker in ("b01", "b02"):
            log = stack.enter_context((Path(folder) / f"{broker}.log").open("w"))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gravitate",
                "broker",
                str(file),
                broker,
                stderr=log,
                stdout=log,
            )
            running.append(process)
        try:
            return await _attacked(network, running[0].pid, packets, seed)
        finally:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            codes = [await process.wait() for process in running]
            logs = [(Path(folder) / f"{id}.log").read_text() for id in ("b01", "b02")]
            print(f"brokers ended with {codes}", file=sys.stderr)
            for text in logs:
                print(text[-2000:], file=sys.stderr)


async def _attacked(network: Network, pid: int, packets: int, seed: int) -> dict[str, Any]:
    one, two = (spec.address for spec in network.brokers[:2])
    for _ in range(200):
        with contextlib.suppress(AssertionError):
            if (await asyncio.to_thread(status, one))["links"][0]["state"] == "up":
                break
        await asyncio.sleep(0.1)
    bystanders = Bystanders(one, two)
    await bystanders.start()
    before = memory_mb(pid)
    most = before
    attackers = [
        Attacker(one, seed * 10 + n, packets // 4, damage)
        for n, damage in enumerate((0.3, 0.1, 0.03, 0.01))
    ]

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, memory_mb(pid))
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    await asyncio.gather(
        *(attacker.run() for attacker in attackers),
        large_to_a_slow_reader(one, 200),
        heavy_subscribes(one, 10),
        half_connects(one, 20),
    )
    took_s = time.monotonic() - began
    await bystanders.stop()
    watching.cancel()
    await asyncio.sleep(2)
    told = await asyncio.to_thread(status, one)
    return {
        "packets": packets,
        "connections": sum(attacker.connections for attacker in attackers),
        "took_s": round(took_s, 1),
        "memory_mb_before": round(before, 1),
        "memory_mb_more": round(most - before, 1),
        "bystander_sent": bystanders.sent,
        "bystander_missing": bystanders.sent - len(bystanders.numbers),
        "bystander_doubled": bystanders.numbers.total() - len(bystanders.numbers),
        "bystander_in_order": bystanders.order == sorted(bystanders.order),
        "bystander_late_s_max": round(bystanders.late_s_max, 3),
        "counters": told["counters"],
        "sessions": told["sessions"],
        "tables": told["tables"],
        "detached": told["detached"],
    }


if __name__ == "__main__":
    packets, seed = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (100_000, 1)
    print(json.dumps(asyncio.run(everything(packets, seed)), indent=2))
