"""Frames survive the way through bytes; bytes that are no frames are refused by name."""

from __future__ import annotations

import struct
from functools import cache
from typing import get_args

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.wire.guests import guest_messages, tether_messages

from gravitate.broker.messages.frames import (
    Acknowledge,
    Advertise,
    Carrying,
    Congested,
    Data,
    Drained,
    Draining,
    EndMove,
    Frame,
    Hello,
    MechanismMessage,
    Message,
    MoveAnswer,
    Ping,
    Pong,
    PrepareMove,
    Publications,
    Refusal,
    Settled,
    Subscribe,
    SyncEnd,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.messages.guests import TakeGuest, Wanted
from gravitate.broker.messages.tether import TetherWants
from gravitate.errors import LocalProtocolError, PeerError
from gravitate.model.canonical import any_of
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.scan import FRAMES_MAX
from gravitate.wire.peers import MALFORMED, OVERSIZED, FrameDecoder, encode

names = st.text(min_size=1, max_size=12)
numbers = st.integers(0, 2**40)
scalars = st.floats(allow_nan=False) | st.text(max_size=8) | st.booleans()
predicates = st.one_of(
    st.builds(Predicate, names, st.sampled_from([Op.EQ, Op.NE]), scalars),
    st.builds(Predicate, names, st.just(Op.IN), st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Predicate, names, st.just(Op.PREFIX), st.text(max_size=8)),
    st.builds(Predicate, names, st.just(Op.TOPIC), st.sampled_from(["a", "a/+", "a/#"])),
    st.builds(Predicate, names, st.sampled_from([Op.EXISTS, Op.MISSING]), st.none()),
)
filters = st.lists(st.lists(predicates, max_size=3), max_size=3).map(any_of)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    counters = sorted(draw(st.sets(st.integers(1, 2**40), min_size=1, max_size=5)))
    if draw(st.booleans()):
        counters = list(range(counters[0], counters[0] + len(counters)))
    events = [
        Event({"topic": f"a/{counter}", "price": str(counter % 7)}, draw(st.binary(max_size=20)))
        for counter in counters
    ]
    return Batch(
        draw(names),
        draw(numbers),
        counters,
        FrameBodies.from_events(events),
        qos=draw(st.integers(0, 1)),
        published_at=draw(st.floats(0, 1e10)),
        flood=draw(st.booleans()),
        covered=tuple(draw(st.lists(names, max_size=3))),
        trace_mark=draw(st.integers(0, 1)),
    )


paths = st.lists(names, min_size=1, max_size=3).map(tuple)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Advertise, names, names, numbers, filters, numbers, numbers),
    st.builds(PrepareMove, names, st.tuples(names, names), st.floats(0, 60)),
    st.builds(MoveAnswer, names, st.tuples(names, names), st.booleans(), names),
    st.builds(EndMove, names, st.tuples(names, names)),
    st.builds(Subscribe, names, filters, numbers),
    st.builds(Unsubscribe, names, numbers),
    st.builds(Unadvertise, names, numbers),
    st.builds(Settled, numbers),
    st.builds(SyncEnd, st.sampled_from(["advertisements", "subscriptions"])),
    st.builds(Congested, st.tuples(names, names), st.just((("p", 1),))),
    st.builds(Drained, st.tuples(names, names)),
    st.builds(MechanismMessage, names, st.binary(max_size=10)),
    st.builds(Publications, st.lists(batches(), max_size=3)),
    guest_messages(names, numbers, filters, paths, batches()),
    tether_messages(names, numbers, filters, paths, batches()),
)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Hello, names, names, numbers, numbers, numbers),
    st.builds(Data, numbers, numbers, st.lists(messages, max_size=4)),
    st.builds(Acknowledge, numbers),
    st.builds(Ping, st.floats(0, 1e10)),
    st.builds(Pong, st.floats(0, 1e10)),
    st.builds(Draining),
    st.builds(Refusal, names, names),
)


def test_every_kind_of_message_is_drawn() -> None:
    known = set(get_args(Message))

    @settings(max_examples=4000, phases=[Phase.generate], database=None, derandomize=True)
    @given(messages)
    def draw(message: Message) -> None:
        known.discard(type(message))

    draw()
    assert known == set()


def plain(frame: Frame) -> object:
    """A frame as values that compare: batches become tuples."""
    if not isinstance(frame, Data):
        return frame
    return (frame.sequence, frame.acknowledged, [_plain_message(m) for m in frame.messages])


def _plain_message(message: Message) -> object:
    if not isinstance(message, Carrying):
        return message
    rest = [getattr(message, name) for name in message.__struct_fields__ if name != "batches"]
    return [type(message), *rest] + [
        (
            batch.publisher,
            batch.incarnation,
            list(batch.counters),
            _content(batch),
            batch.qos,
            batch.published_at,
            batch.flood,
            batch.covered,
            batch.trace_mark,
        )
        for batch in message.batches
    ]


def _content(batch: Batch) -> list[bytes]:
    bodies = batch.bodies
    assert isinstance(bodies, FrameBodies)
    return [b"".join(bodies.select([i]).spans()) for i in range(len(bodies))]


def wire_bytes(frame: Frame) -> bytes:
    return b"".join(encode(frame))


@given(st.lists(frames, max_size=4), st.integers(1, 50))
def test_frames_come_back_however_the_stream_is_cut(sent: list[Frame], piece: int) -> None:
    stream = b"".join(wire_bytes(frame) for frame in sent)
    decoder = FrameDecoder()
    received = [
        frame
        for start in range(0, len(stream), piece)
        for frame in decoder.feed(stream[start : start + piece])
    ]
    assert [plain(frame) for frame in received] == [plain(frame) for frame in sent]


@given(st.binary(max_size=200))
def test_noise_is_refused_by_name_or_waited_for(noise: bytes) -> None:
    _, refusal = _fed(FrameDecoder(4096), noise)
    assert refusal in ("", MALFORMED, OVERSIZED)


def test_nesting_without_end_is_refused_by_name() -> None:
    content = b"\x01\x82\xa4type\xa4ping\xa1x" + b"\x91" * 100_000
    _, refusal = _fed(FrameDecoder(), struct.pack(">I", len(content)) + content)
    assert refusal == MALFORMED


@given(frames, st.data())
def test_a_damaged_frame_is_refused_by_name_or_still_a_frame(
    frame: Frame, data: st.DataObject
) -> None:
    damaged = bytearray(wire_bytes(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(4, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    received, refusal = _fed(FrameDecoder(), bytes(damaged))
    assert refusal in ("", MALFORMED)
    assert len(received) == (0 if refusal else 1)
    for whole in received:
        _read_everything(whole)


def _fed(decoder: FrameDecoder, data: bytes) -> tuple[list[Frame], str]:
    """The frames and the name of the refusal; anything else that is raised fails the test."""
    try:
        return decoder.feed(data), ""
    except PeerError as error:
        return [], error.name


def _read_everything(frame: Frame) -> None:
    """What routing would look at must be readable once a frame was taken."""
    if isinstance(frame, Data):
        for message in frame.messages:
            if isinstance(message, Publications):
                for batch in message.batches:
                    batch.bodies.topics()
                    batch.bodies.attributes(frozenset({"topic", "price", "payload.x"}))


@given(frames, st.integers(1, 60))
def test_a_frame_cut_short_is_refused_when_its_length_says_it_is_whole(
    frame: Frame, missing: int
) -> None:
    content = wire_bytes(frame)[4:]
    short = content[: max(0, len(content) - missing)]
    with pytest.raises(PeerError) as refused:
        FrameDecoder().feed(struct.pack(">I", len(short)) + short)
    assert refused.value.name == MALFORMED


def test_an_oversized_frame_is_refused_before_it_has_arrived() -> None:
    with pytest.raises(PeerError) as refused:
        FrameDecoder(1000).feed(struct.pack(">I", 1001))
    assert refused.value.name == OVERSIZED
    assert "1001" in str(refused.value)


def test_only_the_first_frame_has_the_limit_for_strangers() -> None:
    hello = Hello("net", "b1", 1, 0, 0)
    large = Data(1, 0, [Publications([_batch(range(1, 101))])])
    stream = wire_bytes(hello) + wire_bytes(large)
    assert len(FrameDecoder(first_bytes_max=200).feed(stream)) == 2
    with pytest.raises(PeerError) as refused:
        FrameDecoder(first_bytes_max=200).feed(wire_bytes(large))
    assert refused.value.name == OVERSIZED


def test_an_http_request_on_a_peer_port_is_refused() -> None:
    with pytest.raises(PeerError):
        FrameDecoder(4096).feed(b"GET / HTTP/1.1\r\n\r\n")


def _batch(counters: list[int] | range, size: int = 10) -> Batch:
    events = [Event({"topic": "t"}, bytes(size)) for _ in counters]
    return Batch("p", 1, counters, FrameBodies.from_events(events))


def _only_batch(frame: Frame) -> Batch:
    assert isinstance(frame, Data)
    (message,) = frame.messages
    assert isinstance(message, Publications)
    (batch,) = message.batches
    return batch


def test_gapless_counters_come_back_as_a_range() -> None:
    for counters in (range(5, 9), [5, 6, 7, 8]):
        (frame,) = FrameDecoder().feed(wire_bytes(Data(1, 0, [Publications([_batch(counters)])])))
        assert _only_batch(frame).counters == range(5, 9)


def test_bodies_of_one_frame_share_one_buffer_and_come_out_as_one_slice() -> None:
    sent = [_batch(range(1, 4)), _batch(range(7, 40))]
    (frame,) = FrameDecoder().feed(wire_bytes(Data(1, 0, [Publications(sent)])))
    assert isinstance(frame, Data)
    (message,) = frame.messages
    assert isinstance(message, Publications)
    few, many = (batch.bodies for batch in message.batches)
    assert isinstance(few, FrameBodies)
    assert isinstance(many, FrameBodies)
    assert few.buffer is many.buffer
    assert len(few.spans()) == len(many.spans()) == 1


def test_bodies_of_both_qualities_travel_in_one_frame() -> None:
    events = [Event({"topic": "t"}, b"x")]
    sent = [
        Batch("p", 1, range(1, 3), FrameBodies.from_events(events * 2, qos=1), qos=1),
        Batch("q", 1, range(1, 4), FrameBodies.from_events(events * 3, qos=0)),
        Batch("r", 1, range(1, 51), FrameBodies.from_events(events * 50, qos=1), qos=1),
    ]
    frame = Data(1, 0, [Publications(sent)])
    (received,) = FrameDecoder().feed(wire_bytes(frame))
    assert plain(received) == plain(frame)


@pytest.mark.parametrize("claimed", [1, 3])
def test_a_batch_with_too_few_or_too_many_bodies_is_refused(claimed: int) -> None:
    events = [Event({"topic": "t"})] * 2
    batch = Batch("p", 1, range(1, claimed + 1), FrameBodies.from_events(events))
    with pytest.raises(PeerError, match="bodies"):
        FrameDecoder().feed(wire_bytes(Data(1, 0, [Publications([batch])])))


def test_data_too_large_for_one_frame_is_split_with_consecutive_numbers() -> None:
    large = Data(7, 3, [Publications([_batch([i], size=600)]) for i in range(1, 11)])
    received = FrameDecoder(2000).feed(b"".join(encode(large, 2000)))
    assert len(received) > 1
    sequence = 7
    for frame in received:
        assert isinstance(frame, Data)
        assert (frame.sequence, frame.acknowledged) == (sequence, 3)
        sequence += len(frame.messages)
    assert sequence == 17


def test_a_message_too_large_for_any_frame_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="message 7"):
        encode(Data(7, 0, [Publications([_batch([1], size=3000)])]), 2000)


def test_bodies_that_are_no_bytes_are_our_own_mistake() -> None:
    batch = Batch("p", 1, range(1), PlainBodies([Event({})]))
    with pytest.raises(LocalProtocolError, match="PlainBodies"):
        encode(Data(1, 0, [Publications([batch])]))


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate("x", Op.IN, 5.0),
        Predicate("x", Op.LIKE, None),
        Predicate("x", Op.LT, ("a",)),
        Predicate("x", Op.LT, True),
        Predicate("x", Op.EQ, float("nan")),
        Predicate("x", Op.LIKE, "ends with its escape\\"),
        Predicate("x", Op.TOPIC, "a/#/b"),
        Predicate("", Op.EQ, 1.0),
    ],
)
def test_a_predicate_that_cannot_be_meant_is_refused(predicate: Predicate) -> None:
    frame = Data(1, 0, [Subscribe("s", Filter(((predicate,),)), 1)])
    with pytest.raises(PeerError, match="a filter that cannot be meant") as caught:
        FrameDecoder().feed(wire_bytes(frame))
    assert caught.value.name == MALFORMED


def test_a_filter_that_would_take_long_to_compare_is_refused() -> None:
    likes = sorted(f"%{number:03}%a" for number in range(250))
    heavy = Filter(tuple((Predicate("x", Op.LIKE, like),) for like in likes))
    frame = Data(1, 0, [Subscribe("s", heavy, 1)])
    with pytest.raises(PeerError, match="weighs at most 4096") as caught:
        FrameDecoder().feed(wire_bytes(frame))
    assert caught.value.name == MALFORMED


@given(st.integers(-(2**63), 2**64 - 1).filter(lambda qos: qos not in range(3)), st.booleans())
def test_a_quality_that_cannot_be_meant_is_refused(qos: int, is_guest: bool) -> None:
    wanted = (Wanted("first", EVERYTHING, 1), Wanted("second", EVERYTHING, qos))
    message = (
        TakeGuest("m", ("a", "b"), "sub", 1, wanted, 1.0) if is_guest else TetherWants(1, 1, wanted)
    )
    with pytest.raises(PeerError, match="qos") as caught:
        FrameDecoder().feed(wire_bytes(Data(1, 0, [message])))
    assert caught.value.name == MALFORMED


@pytest.mark.parametrize("lease_s", [-1.0, 3601.0, float("inf"), float("nan")])
def test_a_lease_that_cannot_be_meant_is_refused(lease_s: float) -> None:
    path = ("a", "b")
    for message in (PrepareMove("m", path, lease_s), TakeGuest("m", path, "sub", 1, (), lease_s)):
        with pytest.raises(PeerError, match="lease_s") as caught:
            FrameDecoder().feed(wire_bytes(Data(1, 0, [message])))
        assert caught.value.name == MALFORMED


def test_an_unknown_operator_is_refused() -> None:
    header = msgspec.msgpack.encode(
        [
            1,
            0,
            [
                {
                    "type": "sub",
                    "subscription": "s",
                    "filter": [[[["x", "~", 1]]]],
                    "token": 1,
                }
            ],
        ]
    )
    content = struct.pack(">BI", 2, len(header)) + header
    with pytest.raises(PeerError, match="'~'"):
        FrameDecoder().feed(struct.pack(">I", len(content)) + content)


def test_counters_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(PeerError, match="ascend"):
        FrameDecoder().feed(wire_bytes(Data(1, 0, [Publications([_batch([3, 9, 4])])])))


def test_messages_without_publications_need_no_bodies() -> None:
    frame = Data(1, 0, [Advertise("a", "p", 1, EVERYTHING, 4)])
    assert FrameDecoder().feed(wire_bytes(frame)) == [frame]


SIZES = st.sampled_from([1, 2, FRAMES_MAX - 1, FRAMES_MAX, FRAMES_MAX + 1, 2 * FRAMES_MAX])


@settings(max_examples=20)
@given(st.lists(st.tuples(SIZES, st.integers(0, 1)), min_size=1, max_size=4))
def test_every_frame_that_is_made_can_be_read_however_many_bodies_it_has(
    sizes: list[tuple[int, int]],
) -> None:
    """Bodies are found so many at a time; a batch may lie across the end of one search."""
    batches = [
        Batch(f"p{n}", 1, range(1, size + 1), plain_bodies(size, qos), qos=qos)
        for n, (size, qos) in enumerate(sizes)
    ]
    (frame,) = FrameDecoder().feed(wire_bytes(Data(1, 0, [Publications([b]) for b in batches])))
    assert isinstance(frame, Data)
    read = [message.batches[0] for message in frame.messages]  # type: ignore[union-attr]
    assert [len(batch.bodies) for batch in read] == [size for size, _ in sizes]
    assert [batch.bodies.size_bytes() for batch in read] == [
        batch.bodies.size_bytes() for batch in batches
    ]


@cache
def plain_bodies(count: int, qos: int) -> FrameBodies:
    return FrameBodies.from_events([Event({"topic": "t"}, b"x")] * count, qos=qos)
