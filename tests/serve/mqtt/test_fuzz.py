"""Whatever a client sends, cut however: a connection answers, closes or goes on, never breaks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from tests.serve.mqtt.talk import Recorder
from tests.wire.mqtt.strategies import packets, plain_publishes, versions

from gravitate.broker.interface.inputs import ClientConnected, ClientDisconnected, ClientPublished
from gravitate.serve.mqtt.connection import Connection
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5


class Sink:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return ("test", 1)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert high > low

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def fed(chunks: list[bytes]) -> tuple[Recorder, Sink]:
    """A connection that got these reads and then ended."""

    async def main() -> tuple[Recorder, Sink]:
        recorder, sink = Recorder(), Sink()
        connection = Connection(recorder, DoorOptions(packet_bytes_max=5000), set())
        connection.connection_made(cast(asyncio.BaseTransport, sink))
        for chunk in chunks:
            connection.data_received(chunk)
        connection.connection_lost(None)
        return recorder, sink

    return asyncio.run(main())


def cut(stream: bytes, data: st.DataObject) -> list[bytes]:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(stream) - 1)), max_size=5)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]


@given(st.data(), versions, st.booleans())
def test_any_stream_is_answered_or_refused(
    data: st.DataObject, version: int, damaged: bool
) -> None:
    sent = data.draw(st.lists(packets(version), max_size=5))
    stream = bytearray(encode(p.Connect("c", version), version))
    stream += b"".join(encode(packet, version) for packet in sent)
    if damaged:
        for _ in range(data.draw(st.integers(1, 5))):
            stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    recorder, sink = fed(cut(bytes(stream), data))
    if not damaged:
        assert PacketReader(version).feed(sink.written)
    connected = sum(isinstance(one, ClientConnected) for one in recorder.inputs)
    left = sum(isinstance(one, ClientDisconnected) for one in recorder.inputs)
    assert connected == left <= 1
    assert recorder.attached == {}


@given(st.binary(min_size=1, max_size=100), st.data())
def test_any_bytes_are_answered_or_refused(stream: bytes, data: st.DataObject) -> None:
    fed(cut(stream, data))
    connect = encode(p.Connect("c"), V5)
    fed([connect, *cut(stream, data)])


@given(st.data(), versions, st.integers(0, 1))
def test_publications_arrive_whole_however_they_are_cut(
    data: st.DataObject, version: int, qos: int
) -> None:
    sent = data.draw(st.lists(plain_publishes(version, qos), min_size=1, max_size=12))
    stream = encode(p.Connect("c", version), version)
    stream += b"".join(encode(packet, version) for packet in sent)
    recorder, _ = fed(cut(stream, data))
    events = [
        (attributes["topic"], payload)
        for one in recorder.inputs
        if isinstance(one, ClientPublished)
        for attributes, payload in zip(
            one.bodies.every_attribute(),
            one.bodies.payloads(),  # type: ignore[attr-defined]
            strict=True,
        )
    ]
    assert events == [(packet.topic, packet.payload) for packet in sent]
