"""A kind of move that no broker knows, on the engine of all moves: a token is handed over.

Shows what a protocol of two parts with a point of no return takes: its tables, and what they name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gravitate.broker.interface.inputs import MoveRequested, StopRequested
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.broker.moves.engine import Engine, Run
from gravitate.broker.moves.table import LEASE, On, Part, Row, Wait, opening, opening_waits
from gravitate.model.moves import Move, MoveOutcome
from tests.support.wired import Wired

# The protocol ----------------------------------------------------------------------------------


class HandOver(msgspec.Struct, frozen=True):
    id: str
    target: str
    path: tuple[str, ...] = ()


class Own(enum.Enum):
    ACCEPT = "the other would take it"
    GIVE = "the other has it no more"
    HAVE = "the other has it"


class Giving(enum.Enum):
    SEEKING = "seeking"
    ASKED = "asked"
    OFFERING = "offering"
    GIVEN = "given"
    DONE = "done"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"


class Taking(enum.Enum):
    OFFERED = "offered"
    TAKEN = "taken"
    DECLINED = "declined"


GIVER = Part(
    "hand-over, giver",
    Giving,
    {
        **opening_waits(Giving),
        Giving.OFFERING: Wait(2.0, "nobody would take it"),
        Giving.GIVEN: Wait(None, "it was not taken", again=(1.0, "give")),
    },
    [
        *opening(Giving, Giving.OFFERING, "offer"),
        Row(Giving.OFFERING, On.LATE, Giving.ROLLED_BACK),
        Row(Giving.OFFERING, On.LINK_LOST, Giving.ROLLED_BACK),
        Row(Giving.OFFERING, On.STOPPING, Giving.ROLLED_BACK),
        Row(Giving.OFFERING, Own.ACCEPT, Giving.GIVEN, "give"),
        Row(Giving.GIVEN, Own.HAVE, Giving.DONE),
    ],
)
TAKER = Part(
    "hand-over, taker",
    Taking,
    {Taking.OFFERED: Wait(LEASE, "it was not given")},
    [
        Row(Taking.OFFERED, Own.GIVE, Taking.TAKEN, "take"),
        Row(Taking.OFFERED, On.LATE, Taking.DECLINED),
        Row(Taking.OFFERED, On.ENDED, Taking.DECLINED),
    ],
)


class Tokens(Mechanism):
    """Plays both parts at one broker."""

    name = "tokens"

    engine: Engine

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)

    def attach(self, post: Any, now: float) -> None:
        self.post = post

    def objection(self, move: HandOver) -> str:
        return "" if move.id in self.tokens else f"{move.id} is not here"

    def begin(self, move: HandOver) -> tuple[str, str]:
        return move.id, ""

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        what, token = body.decode().split()
        if what == "OFFER":
            self.engine.join(TAKER, self, token, None, peer, lease_s=5.0)
            self.say(peer, "ACCEPT", token)
        elif not self.engine.tell(token, Own[what]) and what == "GIVE":
            self.tokens.add(token)  # it was offered before this broker lost its memory
        if what == "GIVE":
            self.say(peer, "HAVE", token)

    def say(self, peer: str, what: str, token: str) -> None:
        self.post.send(peer, f"{what} {token}".encode())

    def offer(self, run: Run, about: None) -> None:
        self.say(run.move.target, "OFFER", run.id)

    def give(self, run: Run, about: None) -> None:
        self.tokens.discard(run.id)
        self.say(run.move.target, "GIVE", run.id)

    def take(self, run: Run, about: None) -> None:
        self.tokens.add(run.id)


# What becomes of it ----------------------------------------------------------------------------


class Scene:
    """A token at a, and b beside it."""

    def __init__(self) -> None:
        self.at = {"a": Tokens("t"), "b": Tokens()}
        self.ends: list[tuple[str, str]] = []
        self.wired = Wired([("a", "b")], mechanisms={name: [it] for name, it in self.at.items()})
        for name in self.at:
            self.install(name)
        self.wired.brokers["a"].watch_moves(self.watch)

    def install(self, name: str) -> None:
        engine = self.at[name].engine = self.wired.brokers[name].engine
        engine.lead(HandOver, GIVER, self.at[name])

    def watch(self, move: Move, step: str, why: str, now: float) -> None:
        if step in set(MoveOutcome):
            self.ends.append((step, why))

    def hand_over(self, *path: str) -> None:
        self.wired.tell("a", MoveRequested(HandOver("t", "b", path)))  # type: ignore[arg-type]

    def until(self, state: enum.Enum) -> None:
        self.wired.queue.append(("a", MoveRequested(HandOver("t", "b", ("a", "b")))))  # type: ignore[arg-type]
        while not any(run.state is state for run in self.wired.brokers["a"].engine.under_way()):
            self.wired.step()

    def ended(self, outcome: MoveOutcome, why: str, *, at: str) -> None:
        assert self.ends == [(outcome.value, why)]
        assert [name for name, it in self.at.items() if it.tokens] == [at]
        self.wired.pass_time(10.0)
        for broker in self.wired.brokers.values():
            if not broker.stopped:
                assert not any(broker.engine.under_way())
                assert not broker._parts.paths.lock.held(self.wired.now)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("path", [("a", "b"), ()])
def test_it_is_done(scene: Scene, path: tuple[str, ...]) -> None:
    scene.hand_over(*path)
    scene.ended(MoveOutcome.DONE, "", at="b")


def test_it_is_refused_by_who_leads_it_and_by_a_lock_on_the_way(scene: Scene) -> None:
    scene.wired.brokers["b"]._parts.paths.lock.request("other", True, 5.0, scene.wired.now)
    scene.hand_over("a", "b")
    scene.ended(MoveOutcome.REFUSED, "b is locked by another move", at="a")
    scene.at["a"].tokens.clear()
    scene.hand_over("a", "b")
    assert scene.ends[1:] == [("refused", "t is not here")]


def test_a_second_one_is_refused_while_the_first_is_under_way(scene: Scene) -> None:
    scene.until(Giving.OFFERING)
    scene.hand_over("a", "b")
    assert scene.ends == [("refused", "a move 't' is under way already"), ("done", "")]


@pytest.mark.parametrize("deaf", ["a", "b"])
def test_it_is_late(scene: Scene, deaf: str) -> None:
    scene.at[deaf].on_message = lambda *_: None  # type: ignore[method-assign]
    scene.hand_over("a", "b")
    scene.wired.pass_time(3.0)
    scene.ended(MoveOutcome.ROLLED_BACK, "nobody would take it within 2 s", at="a")


def test_a_link_that_is_lost_rolls_it_back(scene: Scene) -> None:
    scene.until(Giving.OFFERING)
    restart(scene)
    scene.ended(MoveOutcome.ROLLED_BACK, "the link to b was lost", at="a")


def test_past_the_point_of_no_return_it_is_said_until_it_is_heard(scene: Scene) -> None:
    scene.until(Giving.GIVEN)
    restart(scene)
    scene.wired.pass_time(2.0)
    scene.ended(MoveOutcome.DONE, "", at="b")


def restart(scene: Scene) -> None:
    scene.wired.lose("a", "b")
    scene.wired.boot("b", 2, [scene.at["b"]])
    scene.install("b")
    scene.wired.heal("a", "b")


def stop(scene: Scene, state: Giving, between: Callable[[], None]) -> None:
    scene.until(state)
    scene.wired.lose("a", "b")
    scene.wired.tell("a", StopRequested())
    between()
    scene.wired.heal("a", "b")
    assert scene.wired.brokers["a"].stopped


def test_a_broker_that_stops_keeps_what_is_not_given(scene: Scene) -> None:
    stop(scene, Giving.OFFERING, lambda: None)
    scene.ended(MoveOutcome.ROLLED_BACK, "a is stopping", at="a")


def test_a_broker_does_not_stop_past_the_point_of_no_return(scene: Scene) -> None:
    engine = scene.wired.brokers["a"].engine
    stop(scene, Giving.GIVEN, lambda: None if not engine.may_stop() else pytest.fail("may stop"))
    scene.ended(MoveOutcome.DONE, "", at="b")


def test_a_broker_that_is_about_to_stop_begins_no_move(scene: Scene) -> None:
    def ask() -> None:
        scene.at["a"].tokens.add("other")
        another = MoveRequested(HandOver("other", "b", ("a", "b")))  # type: ignore[arg-type]
        scene.wired.tell("a", another)

    stop(scene, Giving.GIVEN, ask)
    assert scene.ends == [("refused", "a is stopping"), ("done", "")]
