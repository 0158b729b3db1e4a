"""The small parts of a broker, each on its own."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.broker.links.tail import Tail
from gravitate.broker.messages.guests import GuestCut, TakeGuest
from gravitate.broker.moves.guest import Guest
from gravitate.broker.moves.path import MoveLock
from gravitate.broker.routing.content.table import AdvertisementEntry, RoutingTable
from gravitate.broker.routing.settlement import Asker, Request, Settlement
from gravitate.broker.sessions.backlog import Backlog, parts_of
from gravitate.broker.sessions.inbound import common_levels
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.filters import EVERYTHING
from tests.support.wired import Wired


@given(st.lists(st.one_of(st.integers(1, 5), st.floats(0, 1)), max_size=40))
def test_a_tail_holds_exactly_what_is_not_acknowledged(steps: list[int | float]) -> None:
    """A whole number pushes an item of that size, a fraction acknowledges that share."""
    tail: Tail[str] = Tail()
    items: deque[tuple[int, str]] = deque()
    for step in steps:
        if isinstance(step, int):
            first = tail.push(f"item {tail.last}", step)
            items.append((first + step - 1, f"item {first - 1}"))
        else:
            number = tail.acknowledged + int(step * len(tail))
            released = tail.acknowledge(number)
            assert released == [items.popleft()[1] for last, _ in list(items) if last <= number]
        assert list(tail) == [item for _, item in items]
        for number in (tail.acknowledged, (tail.acknowledged + tail.last) // 2, tail.last):
            assert tail.after(number) == [item for last, item in items if last > number]


def test_a_tail_refuses_acknowledgement_of_what_was_never_sent() -> None:
    with pytest.raises(AssertionError, match="only 0 were sent"):
        Tail[str]().acknowledge(1)


def test_a_request_settles_with_its_last_token() -> None:
    settlement, answers = Settlement(), list[str]()
    request = Request()
    first, second = settlement.token("b"), settlement.token("c")
    for peer, token in (("b", first), ("c", second)):
        settlement.wait(request, peer, token)
    settlement.seal(request, Asker("a", lambda: answers.append("settled")))
    settlement.answered("b", first)
    settlement.answered("b", second)
    assert answers == []
    settlement.answered("c", second)
    settlement.answered("c", second)
    assert answers == ["settled"]


def test_a_message_sent_again_is_waited_for_under_its_new_token() -> None:
    settlement, answers = Settlement(), list[str]()
    request, old = Request(), settlement.token("b")
    settlement.wait(request, "b", old)
    settlement.seal(request, Asker(None, lambda: answers.append("settled")))
    new = settlement.token("b")
    settlement.replace("b", old, new)
    settlement.answered("b", old)
    assert answers == []
    settlement.answered("b", new)
    assert answers == ["settled"]


def test_a_request_settles_partly_where_neighbours_cannot_be_reached() -> None:
    settlement, answers = Settlement(), list[object]()
    request = Request()
    there, away = settlement.token("b"), settlement.token("c")
    settlement.wait(request, "b", there)
    settlement.wait(request, "c", away)
    asker = Asker("a", lambda: answers.append("settled"), lambda open: answers.append(set(open)))
    settlement.seal(request, asker)
    settlement.absent("c")
    assert answers == []  # b is there and has not answered
    settlement.answered("b", there, frozenset(("x", "y")))
    settlement.answered("b", there, frozenset(("y",)))
    settlement.answered("b", there)
    assert answers == [{"c", "x", "y"}, {"c", "y"}, {"c"}]
    settlement.away.discard("c")
    late = Asker("d", lambda: answers.append("d too"), lambda open: answers.append(["d", *open]))
    settlement.seal(request, late)
    settlement.answered("c", away, frozenset(("z",)))
    settlement.answered("c", away)
    assert answers[3:] == [{"z"}, ["d", "z"], "settled", "d too"]


def test_a_message_sent_anew_is_settled_partly_as_what_replaces_it_is() -> None:
    settlement, answers = Settlement(), list[object]()
    request, old = Request(), settlement.token("b")
    settlement.wait(request, "b", old)
    settlement.seal(
        request, Asker(None, lambda: answers.append("settled"), lambda open: answers.append(open))
    )
    new = settlement.token("b")
    settlement.renew("b", {new})
    settlement.answered("b", new, frozenset(("x",)))
    settlement.answered("b", new)
    assert answers == [frozenset(("x",)), "settled"]


def test_who_forgot_what_it_asked_is_not_answered() -> None:
    settlement, answers = Settlement(), list[str]()
    request, token = Request(), settlement.token("b")
    settlement.wait(request, "b", token)
    settlement.seal(request, Asker("a", lambda: answers.append("to a")))
    settlement.seal(request, Asker("c", lambda: answers.append("to c")))
    settlement.drop_answers("a")
    settlement.forget("b")
    assert answers == ["to c"]


ADVERTISED = st.tuples(st.sampled_from(["p", "q"]), st.integers(1, 2), st.integers(0, 3))


@given(st.lists(ADVERTISED, max_size=30))
def test_a_table_has_the_advertisements_of_each_life_of_a_publisher(
    steps: list[tuple[str, int, int]],
) -> None:
    """Each step enters an advertisement, or ends it if it is there."""
    ended: list[tuple[str, int]] = []
    table = RoutingTable(ended.append)
    for publisher, incarnation, number in steps:
        id = f"{publisher}#{incarnation}/{number}"
        if id in table.advertisements:
            table.leave(table.advertisements[id])
            is_last = (publisher, incarnation) not in table.by_publisher
            assert ended == ([(publisher, incarnation)] if is_last else [])
            ended.clear()
        else:
            table.enter(AdvertisementEntry(id, (publisher, incarnation), EVERYTHING, None))
        lives: dict[tuple[str, int], list[AdvertisementEntry]] = {}
        for entry in table.advertisements.values():
            lives.setdefault(entry.life, []).append(entry)
        assert {life: [*own.values()] for life, own in table.by_publisher.items()} == lives


def test_locks_are_shared_or_exclusive_and_never_waited_for() -> None:
    lock = MoveLock()
    assert lock.request("m1", exclusive=False, lease_s=10, now=0)
    assert lock.request("m2", exclusive=False, lease_s=10, now=0)
    assert not lock.request("m3", exclusive=True, lease_s=10, now=0)
    lock.release("m2")
    assert lock.request("m1", exclusive=True, lease_s=10, now=1)
    assert not lock.request("m2", exclusive=False, lease_s=10, now=10)
    assert lock.request("m2", exclusive=False, lease_s=10, now=11)
    assert list(lock.held(now=11)) == ["m2"]


@pytest.mark.parametrize(
    ("topics", "shared"),
    [
        (["a/b/c", "a/b/d"], "a/b"),
        (["a/b", "a/b/c"], "a/b"),
        (["ab/c", "abc/d"], ""),
        (["a", "a-1", "a/b"], ""),
        (["x/a", "x/a.b", "x/a/b"], "x"),
        (["a", "b"], ""),
        (["$SYS/a", "$SYS/b"], ""),
    ],
)
def test_common_levels_are_whole_levels(topics: list[str], shared: str) -> None:
    assert common_levels(topics) == shared


def _backlog(sizes_bytes: list[int]) -> Backlog:
    """One batch of one event for each size."""
    return tuple(
        (Batch("p", 1, [counter], PlainBodies([Event({}, bytes(size))]), 1), counter % 2)
        for counter, size in enumerate(sizes_bytes, 1)
    )


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 5), st.integers(0, 20))
def test_a_backlog_in_parts_is_whole_and_each_part_within_its_bounds(
    sizes_bytes: list[int], batches_max: int, bytes_max: int
) -> None:
    backlog = _backlog(sizes_bytes)
    parts = parts_of(backlog, batches_max, bytes_max)
    assert tuple(one for part in parts for one in part) == backlog
    assert len(parts) == 1 or all(parts)
    for part in parts:
        assert len(part) <= batches_max
        assert len(part) <= 1 or sum(b.bodies.size_bytes() for b, _ in part) <= bytes_max


@given(st.integers(1, 6), st.lists(st.sets(st.integers(0, 5)), max_size=4))
def test_a_cut_is_whole_once_each_of_its_parts_has_come_in_its_turn(
    count: int, losses: list[set[int]]
) -> None:
    """Each time it is told, some parts are lost; the last time none is."""
    backlog = _backlog([1] * count)
    request = TakeGuest("m", ("a", "b"), "sub", 1, (), 1.0)
    wired = Wired([("a", "b")])
    wired.connect("a", "sub")
    guest = Guest(request, wired.brokers["a"].clients.sessions["sub"].outbound, since=0.0)
    for lost in [*losses, set[int]()]:
        for number, part in enumerate(parts_of(backlog, 1, 1)):
            if number in lost:
                continue
            qos, batches = tuple(q for _, q in part), tuple(b for b, _ in part)
            more = number < count - 1
            is_whole = guest.add_part(GuestCut("m", ("a", "b"), (), qos, batches, number, more))
            if is_whole:
                assert tuple(guest.backlog) == backlog
    assert is_whole
