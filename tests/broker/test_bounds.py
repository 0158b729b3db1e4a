"""What a broker holds is bounded in bytes, and reaching a bound costs who reached it."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from gravitate.broker.interface.effects import CloseSession, Deliver, HoldReading, Send, Tell
from gravitate.broker.interface.inputs import (
    ClientAcknowledged,
    ClientConnected,
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
)
from gravitate.broker.messages.frames import Data, Publications
from gravitate.broker.messages.parcels import framed, publications, weight_bytes
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.content import table
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.topics import topic_filter
from tests.support.wired import QUIET, Wired, at

KB = 1024
MB = 1024 * KB
CHAIN = [("a", "b"), ("b", "c")]


def options(**changes: int) -> BrokerOptions:
    return msgspec.structs.replace(QUIET, **changes)


def large(size_bytes: int, topic: str = "t") -> Event:
    return Event({"topic": topic, "x": 1}, b"\0" * size_bytes)


def publish(wired: Wired, name: str, client: str, size_bytes: int, topic: str = "t") -> None:
    wired.tell(name, ClientPublished(at(client), PlainBodies([large(size_bytes, topic)]), 1))


def given(wired: Wired, name: str, client: str) -> int:
    return len(wired.delivered(name, client))


# Links ---------------------------------------------------------------------------------------


def test_what_waited_long_leaves_in_messages_that_fit_a_frame() -> None:
    """A publication waits for its advertisement, eighty others behind it; all go out at once."""
    wired = Wired(CHAIN, options(hold_bytes_max=100 * MB, session_window_bytes_max=100 * MB))
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    wired.connect("a", "pub")
    wired.lose("b", "c")
    wired.run()
    for _ in range(80):
        publish(wired, "a", "pub", MB)
    wired.pass_time(QUIET.hold_s_max)
    wired.heal("b", "c")
    assert wired.delivered("c", "sub") == [("pub", number) for number in range(1, 81)]
    for name in "ab":
        for effect in wired.effects[name]:
            if isinstance(effect, Send) and isinstance(effect.frame, Data):
                frame = effect.frame.messages
                assert len(frame) == 1 or sum(map(weight_bytes, frame)) <= QUIET.frame_bytes_max
                assert all(len(m.batches) == 1 for m in frame if isinstance(m, Publications))


def test_parcels_carry_everything_in_order() -> None:
    sizes = [300 * KB, 800 * KB, 10, 10, 3 * MB, 200 * KB, 900 * KB]
    batches = [
        Batch("p", 1, [number], PlainBodies([large(size)])) for number, size in enumerate(sizes, 1)
    ]
    messages = list(publications(batches, 1000, MB))
    assert [batch for message in messages for batch in message.batches] == batches
    assert [len(message.batches) for message in messages] == [1, 3, 1, 1, 1]
    frames = list(framed(messages, 1000, MB))
    assert [message for frame in frames for message in frame] == messages
    assert all(len(frame) == 1 for frame in frames)


def test_parcels_are_bounded_in_events() -> None:
    counts = [3, 10, 1, 1, 1, 25]
    batches = [
        Batch(f"p{n}", 1, range(1, count + 1), PlainBodies([large(1)] * count))
        for n, count in enumerate(counts)
    ]
    messages = list(publications(batches, 10, MB))
    carried = [[len(batch) for batch in message.batches] for message in messages]
    assert carried == [[3], [10], [1, 1, 1], [10], [10], [5]]
    counters = [n for m in messages for b in m.batches if b.publisher == "p5" for n in b.counters]
    assert counters == list(range(1, 26))
    frames = list(framed(messages, 15, MB))
    assert [message for frame in frames for message in frame] == messages
    assert [len(frame) for frame in frames] == [2, 2, 2]


def test_a_link_with_too_many_bytes_holds_publishers_until_it_drains() -> None:
    wired = Wired(CHAIN, options(link_queue_bytes_max=100 * KB))
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    publish(wired, "a", "pub", 10)
    wired.lose("b", "c")
    wired.run()
    publish(wired, "a", "pub", 90 * KB)
    assert Tell(at("pub"), HoldReading(True)) not in wired.effects["a"]
    publish(wired, "a", "pub", 90 * KB)
    assert Tell(at("pub"), HoldReading(True)) in wired.effects["a"]
    wired.heal("b", "c")
    assert Tell(at("pub"), HoldReading(False)) in wired.effects["a"]
    assert given(wired, "c", "sub") == 3
    assert wired.brokers["b"].links.queued.size_bytes == 0


def test_a_link_that_is_down_does_not_remember_all_that_was_asked_meanwhile() -> None:
    wired = Wired(CHAIN, options(link_control_bytes_max=20 * KB))
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    publish(wired, "a", "pub", 10)
    wired.lose("b", "c")
    wired.run()
    publish(wired, "a", "pub", 10)
    for number in range(300):
        wired.tell("c", ClientSubscribed(at("sub"), "other", parse(f"x > {number}"), 1))
    wired.tell("c", ClientUnsubscribed(at("sub"), "other"))
    assert wired.brokers["c"].links["b"].control_bytes <= 20 * KB
    wired.heal("b", "c")
    assert [c for _, c in wired.delivered("c", "sub")] == [1, 2]
    own = wired.brokers["c"].clients.sessions["sub"].outbound.subscriptions["x > 0"].id
    assert wired.table("a") == {own: "b"}
    assert wired.table("b") == {own: "c"}


# Publishers ----------------------------------------------------------------------------------


def test_a_publisher_whose_publications_wait_is_held_by_their_bytes() -> None:
    wired = Wired(CHAIN, options(hold_bytes_max=100 * KB))
    wired.connect("a", "pub")
    wired.lose("a", "b")
    wired.run()
    publish(wired, "a", "pub", 60 * KB)
    assert Tell(at("pub"), HoldReading(True)) not in wired.effects["a"]
    publish(wired, "a", "pub", 60 * KB)
    assert Tell(at("pub"), HoldReading(True)) in wired.effects["a"]
    wired.heal("a", "b")
    assert wired.effects["a"].count(Tell(at("pub"), HoldReading(False))) == 1


# Sessions ------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> Wired:
    """A subscriber that does not acknowledge, with 100 kB of window and 1 MB of queue."""
    wired = Wired(CHAIN, options(session_window_bytes_max=100 * KB, session_queue_bytes_max=1 * MB))
    wired.connect("a", "pub")
    wired.connect("c", "slow")
    wired.subscribe("c", "slow", "x > 0")
    return wired


def test_what_a_client_has_not_acknowledged_is_bounded_in_bytes(slow: Wired) -> None:
    for _ in range(20):
        publish(slow, "a", "pub", 30 * KB)
    assert given(slow, "c", "slow") == 3
    slow.tell("c", ClientAcknowledged(at("slow"), 1))
    assert given(slow, "c", "slow") == 4
    slow.tell("c", ClientAcknowledged(at("slow"), 4))
    assert given(slow, "c", "slow") == 7
    for sequence in range(5, 21):
        slow.tell("c", ClientAcknowledged(at("slow"), sequence))
    assert slow.delivered("c", "slow") == [("pub", number) for number in range(1, 21)]


def test_events_of_one_batch_are_given_as_far_as_they_fit(slow: Wired) -> None:
    events = PlainBodies([large(30 * KB) for _ in range(10)])
    slow.tell("a", ClientPublished(at("pub"), events, 1))
    assert given(slow, "c", "slow") == 3
    for sequence in range(1, 11):
        slow.tell("c", ClientAcknowledged(at("slow"), sequence))
    assert slow.delivered("c", "slow") == [("pub", number) for number in range(1, 11)]


def test_an_event_larger_than_the_window_is_given_alone(slow: Wired) -> None:
    for size in (300 * KB, 10, 300 * KB, 300 * KB):
        publish(slow, "a", "pub", size)
    for acknowledged in range(4):
        slow.tell("c", ClientAcknowledged(at("slow"), acknowledged))
        assert given(slow, "c", "slow") == acknowledged + 1


def test_a_client_that_is_too_many_bytes_behind_is_closed(slow: Wired) -> None:
    slow.connect("c", "quick")
    slow.subscribe("c", "quick", "x > 0")
    for number in range(1, 61):
        publish(slow, "a", "pub", 30 * KB)
        slow.tell("c", ClientAcknowledged(at("quick"), number))
    assert Tell(at("slow"), CloseSession("overloaded")) in slow.effects["c"]
    assert given(slow, "c", "quick") == 60
    waited = slow.effects["c"].index(Tell(at("slow"), CloseSession("overloaded")))
    before = [e for e in slow.effects["c"][:waited] if isinstance(e, Deliver)]
    assert sum(e.connection == at("quick") for e in before) <= 3 + MB // (30 * KB) + 1


def test_counters_of_what_is_given_after_waiting_ascend(slow: Wired) -> None:
    for number in range(30):
        publish(slow, "a", "pub", (number % 4 + 1) * 10 * KB)
        slow.tell("c", ClientAcknowledged(at("slow"), number // 2))
    sequences = [
        (e.sequence, e.sequence + len(e.batch))
        for e in slow.effects["c"]
        if isinstance(e, Deliver) and e.connection == at("slow")
    ]
    assert all(after == before for (_, after), (before, _) in pairwise(sequences))


# Publishers that a session remembers -----------------------------------------------------------


LONG = "-" * 200
"""Ends names, so that few of them are much to remember."""


def many_publishers(wired: Wired, count: int) -> None:
    for number in range(count):
        wired.connect("a", f"p{number}{LONG}")
        publish(wired, "a", f"p{number}{LONG}", 10)


def resend_after_restart(wired: Wired) -> list[tuple[str, int]]:
    """What a client gets of 300 publishers at `a` when `b`, between the two, has passed on their
    second events and is lost before it has acknowledged them."""
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    many_publishers(wired, 300)
    for number in range(300):
        publish(wired, "a", f"p{number}{LONG}", 10)
    assert len(wired.brokers["a"].links["b"].tail), "nothing is left to send again"
    wired.lose("a", "b")
    wired.boot("b", 2)
    wired.heal("a", "b")
    wired.pass_time(5.0)
    return wired.delivered("c", "sub")


def test_what_comes_again_is_recognised_however_many_publishers_there_are() -> None:
    wired = Wired(CHAIN, options(acknowledge_every=100_000))
    delivered = resend_after_restart(wired)
    assert len(delivered) == len(set(delivered)) == 600
    assert wired.brokers["c"].lives.forgotten == 0


def test_what_the_bound_forces_out_comes_twice_and_is_counted() -> None:
    wired = Wired(CHAIN, options(acknowledge_every=100_000, session_seen_bytes_max=70_000))
    delivered = resend_after_restart(wired)
    assert len(set(delivered)) == 600 < len(delivered)
    assert wired.brokers["c"].lives.forgotten > 0


def test_publishers_that_left_long_ago_are_forgotten_and_nobody_else() -> None:
    wired = Wired(CHAIN, options(link_grace_s=100))
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    wired.connect("a", "stays")
    publish(wired, "a", "stays", 10)
    session = wired.brokers["c"].clients.sessions["sub"].outbound
    for round in range(30):
        for number in range(50):
            client = f"r{round}-{number}{LONG}"
            wired.connect("a", client)
            publish(wired, "a", client, 10)
            wired.disconnect("a", client)
        wired.pass_time(50)
    assert len(session.seen()) < 400
    assert ("stays", 1, 1) in session.seen()
    assert wired.brokers["c"].lives.forgotten == 0


def test_beyond_the_bound_the_longest_silent_are_forgotten_and_counted() -> None:
    wired = Wired(CHAIN, options(session_seen_bytes_max=70_000))
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    many_publishers(wired, 500)
    session = wired.brokers["c"].clients.sessions["sub"].outbound
    remembered = [publisher for publisher, _, _ in session.seen()]
    assert remembered == [f"p{number}{LONG}" for number in range(500)][-len(remembered) :]
    assert 200 < len(remembered) < 300
    assert wired.brokers["c"].lives.forgotten == 500 - len(remembered)


def test_answers_that_are_remembered_by_topic_are_bounded_by_what_they_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "TOPICS_BYTES_MAX", 200_000)
    wired = Wired([("a", "b")])
    for number in range(100):
        wired.tell("a", ClientConnected(at(f"c{number}"), f"c{number}", 1))
        wired.tell("a", ClientSubscribed(at(f"c{number}"), "s", topic_filter("#"), 0))
    wired.tell("a", ClientConnected(at("p"), "p", 1))
    for number in range(200):
        events = PlainBodies([Event({"topic": f"t/{number}"})])
        wired.tell("a", ClientPublished(at("p"), events))
    known = wired.brokers["a"].router.table._by_topic
    assert known
    assert sum(map(len, known.values())) < 200_000 / 36 + 200
