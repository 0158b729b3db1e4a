"""GRAPE with publishers that measure: what they say counts, and nothing waits for them in vain."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from gravitate.adapt.grape import PING_S_MAX, PINGED_MAX, Grape, GrapeSettings, _Sighting
from gravitate.broker.interface.effects import PingBrokers
from gravitate.broker.interface.inputs import (
    BrokersPinged,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
)
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.config.network import LinkSpec
from gravitate.config.script import Script
from gravitate.model.events import Event, PlainBodies
from gravitate.model.moves import Rationale
from gravitate.plan.placement.grape import Answer
from tests.support.scenes import GRAPE_DELAY, Mechanisms, played, script
from tests.support.wired import Wired, at, words

SETTINGS = GrapeSettings(
    prioritised="load",
    weight_percent=50,
    session_publications=4,
    session_s_max=20.0,
    answer_s_max=2.0,
    pings=True,
)


class Recording(Grape):
    """Keeps what was selected instead of acting on it."""

    def __init__(self, settings: GrapeSettings) -> None:
        super().__init__(settings)
        self.found: list[tuple[str, ...]] = []
        self.why: Callable[[str], Rationale | None] = lambda broker: None

    def selected(
        self,
        publisher: str,
        path: tuple[str, ...],
        why: Callable[[str], Rationale | None],
        now: float,
    ) -> None:
        self.found.append(path)
        self.why = why


class Scene:
    """A publisher at b0 of a chain, and a subscriber of everything at its end. By load b2 is the
    best of three and b1 is good enough, so that delay decides between them."""

    def __init__(
        self,
        settings: GrapeSettings = SETTINGS,
        follows: bool = True,
        brokers: int = 3,
    ) -> None:
        names = [f"b{number}" for number in range(brokers)]
        self.mechanisms = {name: Recording(settings) for name in names}
        given: dict[str, list[Mechanism]] = {name: [m] for name, m in self.mechanisms.items()}
        self.wired = Wired(pairwise(names), mechanisms=given)
        self.wired.connect(names[-1], "sub")
        self.wired.subscribe(names[-1], "sub", "x > 0")
        self.wired.tell("b0", ClientConnected(at("pub"), "pub", 1, 65535, True, 1, follows=follows))
        self.published = 0

    def publish(self, count: int = 4) -> None:
        events = [Event({"topic": "t", "x": 1}) for _ in range(count)]
        self.wired.tell(
            "b0", ClientPublished(at("pub"), PlainBodies(events), 1, self.published + 1)
        )
        self.published += count
        self.wired.pass_time(0.1)

    def asked(self) -> list[PingBrokers]:
        return words(self.wired.effects["b0"], PingBrokers)

    def answer(self, token: int, **round_trips_s: float) -> None:
        self.wired.tell("b0", BrokersPinged(at("pub"), token, round_trips_s))

    @property
    def grape(self) -> Recording:
        return self.mechanisms["b0"]

    @property
    def found(self) -> list[tuple[str, ...]]:
        return self.grape.found


def test_the_publishers_own_way_decides_between_candidates() -> None:
    scene = Scene()
    scene.publish()
    (asked,) = scene.asked()
    assert asked.brokers == ("b0", "b2", "b1")
    assert scene.found == []
    scene.answer(asked.token, b0=0.0, b1=0.01, b2=0.09)
    assert scene.found == [("b0", "b1")]
    scene.publish()
    scene.answer(scene.asked()[-1].token, b0=0.0, b1=0.09, b2=0.01)
    assert scene.found[1:] == [("b0", "b1", "b2")]


@pytest.mark.parametrize("pings", [False, True])
def test_an_answer_that_contradicts_its_own_record_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, pings: bool
) -> None:
    scene = Scene(msgspec.structs.replace(SETTINGS, pings=pings))
    honest = scene.mechanisms["b1"]._own_answer

    def lying(sighting: _Sighting, neighbours: list[str]) -> Answer:
        elsewhere = tuple(f"not-{near}" for near in neighbours)
        return msgspec.structs.replace(honest(sighting, neighbours), neighbours=elsewhere)

    monkeypatch.setattr(scene.mechanisms["b1"], "_own_answer", lying)
    scene.publish()
    for asked in scene.asked():
        scene.answer(asked.token, b0=0.0, b1=0.09, b2=0.01)
    assert len(scene.asked()) == pings
    assert scene.found == []
    scene.wired.pass_time(60)
    assert all(mechanism.is_idle() for mechanism in scene.mechanisms.values())


def test_half_of_a_round_trip_is_the_way() -> None:
    scene = Scene(msgspec.structs.replace(SETTINGS, prioritised="delay", margin_percent=0.0))
    scene.publish()
    scene.answer(scene.asked()[0].token, b0=0.5, b1=0.1, b2=0.1)
    why = scene.grape.why("b2")
    assert why is not None
    assert (why.figures["delay_s_before"], why.figures["delay_s_after"]) == (0.25, 0.05)


def test_a_broker_that_did_not_answer_is_not_gone_to() -> None:
    scene = Scene()
    scene.publish()
    scene.answer(scene.asked()[0].token, b0=0.0, b1=0.01)
    assert scene.found == [("b0", "b1")]
    assert scene.grape.why("b2") is None


def test_without_an_answer_the_choice_is_made_without_it() -> None:
    scene = Scene()
    scene.publish()
    scene.wired.pass_time(PING_S_MAX - 0.2)
    assert scene.found == []
    scene.wired.pass_time(0.2)
    assert scene.found == [("b0", "b1", "b2")]
    scene.answer(scene.asked()[0].token, b0=0.0, b1=0.01, b2=0.09)
    assert len(scene.found) == 1


@pytest.mark.parametrize(
    ("changes", "follows"),
    [
        ({"pings": False}, True),
        ({"weight_percent": 100.0}, True),
        ({}, False),
    ],
)
def test_nobody_is_asked_whose_answer_would_not_count(
    changes: dict[str, float], follows: bool
) -> None:
    scene = Scene(msgspec.structs.replace(SETTINGS, **changes), follows)
    scene.publish()
    assert scene.asked() == []
    assert scene.found == [("b0", "b1", "b2")]


def test_no_session_begins_while_the_publisher_measures() -> None:
    scene = Scene()
    scene.publish()
    assert not scene.grape.is_idle()
    scene.publish(8)
    assert len(scene.asked()) == 1
    scene.answer(scene.asked()[0].token, b0=0.0)
    assert scene.grape.is_idle()
    scene.publish()
    assert len(scene.asked()) == 2


def test_a_publisher_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    scene = Scene()
    scene.publish()
    scene.wired.tell("b0", ClientDisconnected(at("pub")))
    assert scene.grape.is_idle()
    scene.wired.pass_time(60)
    assert scene.found == []


def test_a_link_that_is_lost_meanwhile_makes_the_choice_void() -> None:
    scene = Scene()
    scene.publish()
    scene.wired.lose("b0", "b1")
    scene.wired.boot("b1", 2, [Recording(SETTINGS)])
    scene.wired.heal("b0", "b1")
    scene.answer(scene.asked()[0].token, b0=0.0, b1=0.01, b2=0.09)
    assert scene.found == []
    scene.wired.pass_time(60)
    assert scene.grape.is_idle()


def test_only_the_best_are_measured() -> None:
    scene = Scene(brokers=PINGED_MAX + 10)
    scene.publish()
    (asked,) = scene.asked()
    assert len(asked.brokers) == PINGED_MAX
    assert asked.brokers[:3] == ("b0", "b25", "b24")


# In worlds -----------------------------------------------------------------------------------

PINGS: Mechanisms = {"grape": {**GRAPE_DELAY["grape"], "pings": True}}


def fork(mechanisms: Mechanisms) -> Script:
    """a - b - c with links of 10 ms, and two thirds of the audience 200 ms from b at d."""
    scene = script(
        [("a", "b"), ("b", "c"), ("b", "d")],
        mechanisms,
        [("c", "x > 0"), ("d", "x > 0"), ("d", "x > 0")],
    )
    far = LinkSpec(("b", "d"), 200.0)
    links = (*scene.network.links[:2], far)
    network = msgspec.structs.replace(scene.network, links=links)
    return msgspec.structs.replace(scene, network=network)


def test_without_pings_a_publisher_goes_far_away_and_with_them_it_stays() -> None:
    _, watch = played(fork(GRAPE_DELAY))
    assert watch.done() == [("a", "d")]
    _, watch = played(fork(PINGS))
    assert watch.moves == []
