from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.client.outgoing import Outgoing


def added(outgoing: Outgoing[bytes], body: bytes, qos: int) -> int:
    return outgoing.add(body, qos, len(body)).counter


def kept(outgoing: Outgoing[bytes]) -> list[bytes]:
    return [one.body for one in outgoing]


def test_nothing_is_kept_while_nothing_is_unacknowledged() -> None:
    outgoing: Outgoing[bytes] = Outgoing()
    assert [added(outgoing, b"0", 0) for _ in range(3)] == [1, 2, 3]
    assert kept(outgoing) == []
    assert outgoing.first_counter == 4


def test_everything_from_the_first_unacknowledged_on_is_sent_again() -> None:
    outgoing: Outgoing[bytes] = Outgoing()
    added(outgoing, b"a", 0)
    first = outgoing.next_packet_id()
    added(outgoing, b"b", 1)
    added(outgoing, b"c", 0)
    second = outgoing.next_packet_id()
    added(outgoing, b"d", 1)
    added(outgoing, b"e", 0)
    assert kept(outgoing) == [b"b", b"c", b"d", b"e"]
    assert outgoing.first_counter == 2
    outgoing.acknowledge(first)
    assert kept(outgoing) == [b"d", b"e"]
    assert outgoing.first_counter == 4
    outgoing.acknowledge(second)
    assert kept(outgoing) == []
    assert outgoing.first_counter == 6
    assert outgoing.acknowledge(second) is None


@given(st.lists(st.sampled_from(["send 0", "send 1", "acknowledge"]), max_size=60), st.data())
def test_counters_sent_again_are_consecutive(steps: list[str], data: st.DataObject) -> None:
    outgoing: Outgoing[bytes] = Outgoing()
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
        counter = added(outgoing, str(outgoing.next_counter).encode(), qos)
        if qos:
            open_ids[number] = counter
    again = [int(body) for body in kept(outgoing)]
    assert again == list(range(outgoing.first_counter, outgoing.next_counter))[: len(again)]
    assert outgoing.unacknowledged == len(open_ids)
    if open_ids:
        assert outgoing.first_counter == min(open_ids.values())
        assert again[-1] == outgoing.next_counter - 1
    else:
        assert again == []


def test_while_it_holds_nothing_is_forgotten() -> None:
    outgoing: Outgoing[bytes] = Outgoing()
    added(outgoing, b"a", 0)
    outgoing.hold()
    added(outgoing, b"b", 0)
    number = outgoing.next_packet_id()
    added(outgoing, b"c", 1)
    added(outgoing, b"d", 0)
    outgoing.acknowledge(number)
    assert kept(outgoing) == [b"b", b"c", b"d"]
    assert [one.body for one in outgoing.due()] == [b"a", b"b", b"c", b"d"]
    assert (outgoing.first_counter, outgoing.bytes) == (2, 3)
    outgoing.release()
    assert kept(outgoing) == []
    assert (outgoing.first_counter, outgoing.bytes) == (5, 0)


@given(
    st.lists(st.sampled_from(["send 0", "send 1", "acknowledge", "hold", "release"]), max_size=60)
)
def test_what_is_kept_is_what_may_be_needed(steps: list[str]) -> None:
    """Against a plain list: a publication is needed while it, or one before it, is open."""
    outgoing: Outgoing[bytes] = Outgoing()
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
                counter = added(outgoing, b"x" * outgoing.next_counter, qos)
                open_now.append((counter, bool(qos) or holding))
                if qos:
                    packet_ids[counter] = number
        first = next((c for c, is_open in open_now if is_open), outgoing.next_counter)
        needed = [counter for counter, _ in open_now if counter >= first]
        assert [len(body) for body in kept(outgoing)] == needed
        assert outgoing.bytes == sum(needed)
        assert outgoing.first_counter == first


def test_each_is_written_once_on_every_connection() -> None:
    outgoing: Outgoing[bytes] = Outgoing()
    for number, qos in enumerate((0, 1, 0, 1)):
        added(outgoing, b"%d" % number, qos)
    assert [one.body for one in outgoing.due()] == [b"0", b"1", b"2", b"3"]
    assert outgoing.due() == []
    outgoing.acknowledge(1)
    outgoing.renew()
    assert [one.body for one in outgoing.due()] == [b"3"]
