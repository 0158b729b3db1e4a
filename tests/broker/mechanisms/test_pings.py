"""A publisher measures for a mechanism how far brokers are; who cannot answers with nothing."""

from __future__ import annotations

import math

import pytest

from gravitate.broker.interface.effects import PingBrokers
from gravitate.broker.interface.inputs import (
    BrokersPinged,
    ClientConnected,
    ClientDisconnected,
    ClientSubscribed,
    MoveRequested,
    TimerFired,
)
from gravitate.broker.interface.timers import MechanismTimer
from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.model.filters import EVERYTHING
from gravitate.model.moves import Rationale, RelocatePublisher
from tests.support.wired import Wired, at, words


class Curious(Mechanism):
    """Asks when its timer says so, and writes down what it is told."""

    name = "curious"

    def __init__(self) -> None:
        self.wanted: tuple[str, ...] = ()
        self.heard: list[tuple[str, dict[str, float]]] = []

    def attach(self, post: Post, now: float) -> None:
        self.post = post

    def on_timer(self, key: str, now: float) -> None:
        self.post.ping("pub", self.wanted)

    def on_pinged(self, publisher: str, round_trips_s: dict[str, float], now: float) -> None:
        self.heard.append((publisher, round_trips_s))


class Scene:
    """A publisher `pub` at a, of a - b."""

    def __init__(self, follows: bool = True) -> None:
        self.curious = Curious()
        self.wired = Wired([("a", "b")], mechanisms={"a": [self.curious]})
        self.follows = follows
        self.connect(1)

    def connect(self, attachment: int) -> None:
        self.wired.tell(
            "a",
            ClientConnected(
                at("pub"), "pub", 1, counts=True, attachment=attachment, follows=self.follows
            ),
        )

    def asked(self, *brokers: str) -> list[PingBrokers]:
        """Everything that clients were asked to measure, after asking once more."""
        self.curious.wanted = brokers
        self.wired.tell("a", TimerFired(MechanismTimer("curious", "ask"), self.wired.now))
        return words(self.wired.effects["a"], PingBrokers)

    def answer(self, token: int, **round_trips_s: float) -> None:
        self.wired.tell("a", BrokersPinged(at("pub"), token, round_trips_s))


def test_the_mechanism_hears_what_the_publisher_measured() -> None:
    scene = Scene()
    (asked,) = scene.asked("a", "b")
    assert asked.brokers == ("a", "b")
    assert scene.curious.heard == []
    scene.answer(asked.token, a=0.001, b=0.02)
    assert scene.curious.heard == [("pub", {"a": 0.001, "b": 0.02})]


def test_brokers_that_did_not_answer_are_missing() -> None:
    scene = Scene()
    (asked,) = scene.asked("a", "b", "c")
    scene.answer(asked.token, b=0.02)
    assert scene.curious.heard == [("pub", {"b": 0.02})]


@pytest.mark.parametrize("nonsense", [-1.0, math.inf, math.nan])
def test_what_was_not_asked_for_and_what_is_no_time_is_left_out(nonsense: float) -> None:
    scene = Scene()
    (asked,) = scene.asked("a", "b")
    scene.answer(asked.token, a=nonsense, b=0.02, z=0.5)
    assert scene.curious.heard == [("pub", {"b": 0.02})]


def test_an_answer_counts_once_and_only_the_latest_request_is_answered() -> None:
    scene = Scene()
    (first,) = scene.asked("a")
    *_, second = scene.asked("b")
    scene.answer(first.token, a=0.1)
    assert scene.curious.heard == []
    scene.answer(second.token, b=0.1)
    scene.answer(second.token, b=0.1)
    assert scene.curious.heard == [("pub", {"b": 0.1})]


def test_nobody_hears_of_what_a_session_that_has_ended_was_asked() -> None:
    scene = Scene()
    (asked,) = scene.asked("a")
    scene.connect(2)
    scene.answer(asked.token, a=0.1)
    scene.wired.tell("a", ClientDisconnected(at("pub")))
    scene.answer(asked.token, a=0.1)
    assert scene.curious.heard == []


def test_a_client_that_does_not_follow_is_not_asked() -> None:
    scene = Scene(follows=False)
    assert scene.asked("a") == []
    assert scene.curious.heard == [("pub", {})]


def test_nor_one_that_subscribes() -> None:
    scene = Scene()
    scene.wired.tell("a", ClientSubscribed(at("pub"), "s", EVERYTHING))
    assert scene.asked("a") == []
    assert scene.curious.heard == [("pub", {})]


def test_nor_one_that_is_tethered_or_gone() -> None:
    scene = Scene(follows=False)
    why = Rationale("a test")
    move = RelocatePublisher("m", "pub", "a", "b", why, ("a", "b"))
    scene.wired.tell("a", MoveRequested(move))
    assert scene.wired.brokers["a"].clients.sessions["pub"].inbound.place is not None
    scene.asked("a")
    scene.wired.tell("a", ClientDisconnected(at("pub")))
    assert scene.asked("a") == []
    assert scene.curious.heard == [("pub", {}), ("pub", {})]
