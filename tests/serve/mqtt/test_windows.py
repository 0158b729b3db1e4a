from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravitate.serve.mqtt.windows import AcceptQueue, DeliveryWindow
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5
from gravitate.wire.mqtt.emit import packet_id
from gravitate.wire.mqtt.scan import Frames, scan_long, scan_short


def frames_of(packets: list[p.Packet], long: bool) -> Frames:
    data = b"".join(encode(packet, V5) for packet in packets)
    return (scan_long if long else scan_short)(data, 0, V5, 1 << 20)[0]


@given(
    st.lists(st.lists(st.integers(1, 65535), min_size=1, max_size=20), max_size=5),
    st.booleans(),
    st.data(),
)
def test_acknowledgements_come_in_the_order_of_the_publications(
    reads: list[list[int]], long: bool, data: st.DataObject
) -> None:
    queue = AcceptQueue()
    for ids in reads:
        queue.received(frames_of([p.Publish("t", b"", 1, number) for number in ids], long))
    expected = [number for ids in reads for number in ids]
    assert queue.waiting == len(expected)
    got: list[int] = []
    while queue.waiting:
        out = queue.accepted(data.draw(st.integers(1, queue.waiting)))
        got += [packet.packet_id for packet in PacketReader().feed(b"".join(out))]  # type: ignore[union-attr]
    assert got == expected


@given(st.integers(0, 200_000), st.integers(1, 40), st.booleans(), st.data())
def test_the_window_moves_with_the_oldest_unacknowledged_delivery(
    before: int, count: int, long: bool, data: st.DataObject
) -> None:
    window = DeliveryWindow()
    window.acknowledged, window.delivered = before, before + count
    order = data.draw(st.permutations(range(before + 1, before + count + 1)))
    seen: set[int] = set()
    while order:
        size = data.draw(st.integers(1, len(order)))
        part, order = order[:size], order[size:]
        window.settle_frames(frames_of([p.Puback(packet_id(n)) for n in part], long))
        seen |= set(part)
        expected = before
        while expected + 1 in seen:
            expected += 1
        assert window.acknowledged == expected


def test_acknowledgements_of_what_was_never_delivered_change_nothing() -> None:
    for long in (True, False):
        window = DeliveryWindow()
        window.delivered = 2
        window.settle_frames(frames_of([p.Puback(n) for n in (1, 2, 3, 4, 65535)], long))
        assert window.acknowledged == 2
        window.settle_packet(1)
        assert window.acknowledged == 2
        window.delivered = 4
        window.settle_frames(frames_of([p.Puback(3)], long))
        assert window.acknowledged == 3


def test_a_full_window_of_packet_ids_is_told_apart() -> None:
    window = DeliveryWindow()
    window.acknowledged, window.delivered = 100, 100 + 65535
    numbers = np.arange(101, 101 + 65535)
    window.settle_packet(packet_id(int(numbers[-1])))
    assert window.acknowledged == 100
    for number in numbers[:-1].tolist():
        window.settle_packet(packet_id(number))
    assert window.acknowledged == 100 + 65535
