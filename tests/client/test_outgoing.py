from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.client.outgoing import Outgoing


def test_nothing_is_kept_while_nothing_is_unacknowledged() -> None:
    outgoing = Outgoing()
    assert [outgoing.sent(b"0", 0, None) for _ in range(3)] == [1, 2, 3]
    assert outgoing.frames() == []
    assert outgoing.first_counter == 4


def test_everything_from_the_first_unacknowledged_on_is_sent_again() -> None:
    outgoing = Outgoing()
    outgoing.sent(b"a", 0, None)
    first = outgoing.next_packet_id()
    outgoing.sent(b"b", 1, None)
    outgoing.sent(b"c", 0, None)
    second = outgoing.next_packet_id()
    outgoing.sent(b"d", 1, None)
    outgoing.sent(b"e", 0, None)
    assert outgoing.frames() == [b"b", b"c", b"d", b"e"]
    assert outgoing.first_counter == 2
    outgoing.acknowledge(first)
    assert outgoing.frames() == [b"d", b"e"]
    assert outgoing.first_counter == 4
    outgoing.acknowledge(second)
    assert outgoing.frames() == []
    assert outgoing.first_counter == 6
    assert outgoing.acknowledge(second) is None


@given(st.lists(st.sampled_from(["send 0", "send 1", "acknowledge"]), max_size=60), st.data())
def test_counters_sent_again_are_consecutive(steps: list[str], data: st.DataObject) -> None:
    outgoing = Outgoing()
    open_ids: dict[int, int] = {}
    for step in steps:
        if step == "acknowledge":
            if open_ids:
                number = data.draw(st.sampled_from(sorted(open_ids)))
                sent = outgoing.acknowledge(number)
                assert sent is not None
                assert sent.counter == open_ids.pop(number)
            continue
        qos = int(step[-1])
        number = outgoing.next_packet_id()
        counter = outgoing.sent(str(outgoing.next_counter).encode(), qos, None)
        if qos:
            open_ids[number] = counter
    kept = [int(frame) for frame in outgoing.frames()]
    assert kept == list(range(outgoing.first_counter, outgoing.next_counter))[: len(kept)]
    assert outgoing.unacknowledged == len(open_ids)
    if open_ids:
        assert outgoing.first_counter == min(open_ids.values())
        assert kept[-1] == outgoing.next_counter - 1
    else:
        assert kept == []


def test_while_it_holds_nothing_is_forgotten() -> None:
    outgoing = Outgoing()
    outgoing.sent(b"a", 0, None)
    outgoing.hold()
    outgoing.sent(b"b", 0, None)
    number = outgoing.next_packet_id()
    outgoing.sent(b"c", 1, None)
    outgoing.sent(b"d", 0, None)
    outgoing.acknowledge(number)
    assert outgoing.frames() == [b"b", b"c", b"d"]
    assert outgoing.frames(after=3) == [b"d"]
    assert (outgoing.first_counter, outgoing.bytes) == (2, 3)
    outgoing.release()
    assert outgoing.frames() == []
    assert (outgoing.first_counter, outgoing.bytes) == (5, 0)


@given(
    st.lists(st.sampled_from(["send 0", "send 1", "acknowledge", "hold", "release"]), max_size=60)
)
def test_what_is_kept_is_what_may_be_needed(steps: list[str]) -> None:
    """Against a plain list: a publication is needed while it, or one before it, is open."""
    outgoing = Outgoing()
    open_now: list[tuple[int, bool]] = []
    packet_ids: dict[int, int] = {}
    holding = False
    for step in steps:
        match step:
            case "hold":
                outgoing.hold()
                holding = True
            case "release":
                outgoing.release()
                holding = False
                open_now = [
                    (counter, is_open and counter in packet_ids) for counter, is_open in open_now
                ]
            case "acknowledge":
                if packet_ids:
                    counter, number = packet_ids.popitem()
                    outgoing.acknowledge(number)
                    open_now = [(c, is_open and c != counter) for c, is_open in open_now]
            case _:
                qos = int(step[-1])
                number = outgoing.next_packet_id()
                counter = outgoing.sent(b"x" * outgoing.next_counter, qos, None)
                open_now.append((counter, bool(qos) or holding))
                if qos:
                    packet_ids[counter] = number
        first = next((c for c, is_open in open_now if is_open), outgoing.next_counter)
        kept = [counter for counter, _ in open_now if counter >= first]
        assert [len(frame) for frame in outgoing.frames()] == kept
        assert outgoing.bytes == sum(kept)
        assert outgoing.first_counter == first
