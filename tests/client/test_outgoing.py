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
