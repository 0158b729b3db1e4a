"""GRAPE's tracing: what the first broker learns is what happened, and nothing stays behind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.adapt.grape import Grape, GrapeSettings, TraceRequest
from gravitate.adapt.tracer import Trace
from gravitate.broker.interface.effects import CloseLink
from gravitate.broker.interface.inputs import ClientConnected, ClientDisconnected, ClientPublished
from gravitate.model.events import Event, PlainBodies
from gravitate.overlay.shapes import random_tree
from gravitate.plan.placement.grape import Answer, GrapeParameters, select
from tests.support.wired import Wired, at


class Recording(Grape):
    """Keeps the answers of sessions instead of acting on them."""

    def __init__(self, settings: GrapeSettings) -> None:
        super().__init__(settings)
        self.retrieved: list[list[Answer]] = []

    def _select(self, publisher: str, answers: list[Answer], now: float) -> None:
        self.retrieved.append(answers)


class Scene:
    """A publisher at b0 of a tree, with a subscriber of `x = value` wherever one is wanted."""

    def __init__(
        self,
        links: list[tuple[int, int]],
        wanted: list[tuple[int, int]],
        session_publications: int = 6,
    ) -> None:
        names = [(f"b{one}", f"b{other}") for one, other in links]
        chosen = GrapeSettings(
            session_publications=session_publications, session_s_max=20.0, answer_s_max=5.0
        )
        self.mechanisms = {
            name: Recording(chosen) for name in sorted({n for link in names for n in link})
        }
        self.wired = Wired(names, mechanisms={n: [m] for n, m in self.mechanisms.items()})
        for number, (broker, value) in enumerate(wanted):
            self.wired.connect(f"b{broker}", f"s{number}")
            self.wired.subscribe(f"b{broker}", f"s{number}", f"x = {value}")
        self.wired.tell("b0", ClientConnected(at("pub"), "pub", 1, 65535, True, 1, follows=True))
        self.published = 0

    def publish(self, *values: int) -> None:
        """All values in one batch."""
        events = [Event({"topic": "t", "x": value}) for value in values]
        self.wired.tell(
            "b0", ClientPublished(at("pub"), PlainBodies(events), 1, self.published + 1)
        )
        self.published += len(values)

    def first(self) -> Recording:
        return self.mechanisms["b0"]

    def is_idle(self) -> bool:
        return all(mechanism.is_idle() for mechanism in self.mechanisms.values())


def bits(answer: Answer) -> set[int]:
    vector = int.from_bytes(answer.delivered, "little")
    return {at for at in range(vector.bit_length()) if vector >> at & 1}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=8),
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=9),
)
def test_answers_tell_what_was_delivered_where(
    brokers: int, seed: int, wanted: list[tuple[int, int]], batches: list[list[int]]
) -> None:
    wanted = [(broker % brokers, value) for broker, value in wanted]
    scene = Scene(random_tree(brokers, seed), wanted)
    # What the first session holds: whole batches, until it is full.
    traced: list[int] = []
    for batch in batches:
        if len(traced) < 6:
            traced += batch
        scene.publish(*batch)
        scene.wired.pass_time(0.1)
    if len(traced) < 6:
        assert scene.first().retrieved == []
    else:
        answers = {answer.broker: answer for answer in scene.first().retrieved[0]}
        for name in (f"b{number}" for number in range(brokers)):
            local = [value for broker, value in wanted if f"b{broker}" == name]
            expected = {at for at, value in enumerate(traced) if value in local}
            if expected or name == "b0":
                assert bits(answers[name]) == expected
                deliveries = sum(local.count(value) for value in traced)
                assert answers[name].measured().deliveries == deliveries
            elif name in answers:
                assert bits(answers[name]) == set()
    scene.wired.pass_time(60)
    assert scene.is_idle()


def test_a_selection_needs_no_more_than_the_answers() -> None:
    """The answers of a retrieval are fit for `plan.placement.grape`."""
    scene = Scene([(0, 1), (1, 2)], [(2, 1)])
    scene.publish(*[1] * 6)
    scene.wired.pass_time(1)
    (answers,) = scene.first().retrieved
    choice = select(answers, "b0", GrapeParameters("load"))
    assert choice.target == "b2"
    assert choice.figures("b0").messages == 18
    assert choice.figures("b2").messages == 6


def test_a_neighbour_that_has_forgotten_voids_the_session_and_the_next_one_counts() -> None:
    scene = Scene([(0, 1), (1, 2)], [(2, 1)])
    scene.publish(1, 1, 1)
    scene.wired.lose("b1", "b2")
    scene.wired.boot("b2", 2, [Recording(GrapeSettings(session_publications=6))])
    scene.wired.heal("b1", "b2")
    scene.wired.connect("b2", "s0")
    scene.wired.subscribe("b2", "s0", "x = 1")
    for _ in range(3):
        scene.publish(1)
    scene.wired.pass_time(1)
    first_try = len(scene.first().retrieved)
    scene.publish(*[1] * 6)
    scene.wired.pass_time(1)
    assert len(scene.first().retrieved) == first_try + 1
    assert {answer.broker for answer in scene.first().retrieved[-1]} == {"b0", "b1", "b2"}


def test_a_neighbour_that_does_not_answer_leaves_nothing_open() -> None:
    scene = Scene([(0, 1), (1, 2)], [(2, 1)])
    scene.publish(*[1] * 5)
    scene.wired.lose("b1", "b2")
    scene.publish(1)
    scene.wired.pass_time(60)
    assert scene.first().retrieved == []
    assert scene.is_idle()


def test_a_session_that_is_not_full_in_time_is_void() -> None:
    scene = Scene([(0, 1)], [(1, 1)])
    scene.publish(1, 1, 1)
    assert not scene.is_idle()
    scene.wired.pass_time(30)
    assert scene.is_idle()
    scene.publish(*[1] * 3)
    scene.wired.pass_time(1)
    assert scene.first().retrieved == []


def test_a_publisher_that_leaves_takes_its_session_along() -> None:
    scene = Scene([(0, 1)], [(1, 1)])
    scene.publish(1, 1, 1)
    scene.wired.tell("b0", ClientDisconnected(at("pub")))
    assert scene.first().is_idle()


def test_counters_far_apart_begin_a_new_session() -> None:
    scene = Scene([(0, 1)], [(1, 1)])
    scene.publish(1, 1, 1)
    scene.published += 10_000_000
    scene.publish(*[1] * 6)
    scene.wired.pass_time(1)
    (answers,) = scene.first().retrieved
    assert max(len(answer.delivered) for answer in answers) == 8


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"\x82\xa4type\xa3tir\xa5trace\x01",
        b"\x81\xa4type\xa1\xff",
        b"\x82\xa4type\xa3tir\xa1x" + b"\x91" * 100_000,
    ],
)
def test_nonsense_from_a_neighbour_ends_the_connection(body: bytes) -> None:
    scene = Scene([(0, 1)], [])
    scene.mechanisms["b1"].post.send("b0", body)
    scene.wired.tell("b1")
    closed = [e for e in scene.wired.effects["b0"] if isinstance(e, CloseLink)]
    assert "mechanism-message" in closed[0].reason


def test_a_request_for_something_never_seen_is_answered_so() -> None:
    scene = Scene([(0, 1)], [])
    scene.mechanisms["b1"].send("b0", TraceRequest(Trace("nobody", 1, 1)))
    scene.wired.tell("b1")
    assert scene.is_idle()
