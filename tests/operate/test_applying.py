"""The moves of a plan side by side: how many at once, in which order, and the way back."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_apply import plan_for, ran, relocation
from tests.cli.test_apply_killed import LINE, PLAN, named, undone, written
from tests.cli.test_apply_subscribers import reassignment
from tests.client.moving import client, live
from tests.client.test_following_subscribers import Ear, voices
from tests.serve.mqtt.talk import on_loop

from gravitate.config import plan as plans
from gravitate.errors import EnvironmentLack
from gravitate.model.moves import LOCKED, ClientMove, Move, MoveOutcome, client_of
from gravitate.operate import applying
from gravitate.operate.applying import LOCKED_MAX, carried_out
from gravitate.serve.node.moves import MoveRegister

CHAIN = ("b1", "b2", "b3", "b4")


class Brokers:
    """Carry moves out, and see how many are under way at once."""

    def __init__(self, undo: Path) -> None:
        self.begun: list[str] = []
        self.most = 0
        self.refusals: dict[str, int] = {}
        """How often whose moves find a lock."""
        self._undo = undo
        self._under_way = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def moving(self, move: Move) -> Iterator[str]:
        assert isinstance(move, ClientMove)
        who = client_of(move)
        with self._lock:
            assert who in named(self._undo)
            self.begun.append(who)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        yield who
        with self._lock:
            self._under_way -= 1

    def carry(self, move: Move) -> tuple[MoveOutcome, str]:
        with self.moving(move) as who:
            if self.refusals.get(who, 0):
                self.refusals[who] -= 1
                return MoveOutcome.REFUSED, f"b {LOCKED}"
            return MoveOutcome.DONE, ""


@pytest.fixture
def undo(tmp_path: Path) -> Path:
    return tmp_path / "undo.json"


@pytest.fixture
def brokers(undo: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(applying, "ASK_AGAIN_S", 0.0)
    return Brokers(undo)


def test_so_many_are_under_way_at_once_and_no_more(undo: Path, brokers: Brokers) -> None:
    together = threading.Barrier(4, timeout=60)

    def carry(move: Move) -> tuple[MoveOutcome, str]:
        with brokers.moving(move):
            together.wait()
            return MoveOutcome.DONE, ""

    plan = plan_for(LINE, *(relocation(f"p{n}", "a", "b") for n in range(12)))
    told: list[float] = []
    applied = carried_out(plan, carry, undo, tell=told.append, at_once=4)
    assert (applied.done, brokers.most) == (12, 4)
    assert told == [*range(1, 13)]
    assert [it.move for it in applied.carried] == [move.id for move in plan.moves]
    assert sorted(named(undo)) == sorted(f"p{n}" for n in range(12))


def test_two_moves_of_one_client_are_not_under_way_at_once(undo: Path, brokers: Brokers) -> None:
    plan = plan_for(LINE, *(relocation("p", *way) for way in ("ab", "bc", "cb", "ba")))
    applied = carried_out(plan, brokers.carry, undo, at_once=4)
    assert (applied.done, brokers.most) == (4, 1)
    backs = [(it.source, it.target) for it in plans.load(undo).moves]  # type: ignore[union-attr]
    assert backs == [("a", "b"), ("b", "c"), ("c", "b"), ("b", "a")]


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_move_that_finds_a_lock_is_asked_for_again(
    undo: Path, brokers: Brokers, at_once: int
) -> None:
    brokers.refusals = {"p": 3, "r": 1}
    applied = carried_out(PLAN, brokers.carry, undo, at_once=at_once)
    assert [it.outcome for it in applied.carried] == ["done"] * 3
    assert sorted(brokers.begun) == ["p"] * 4 + ["q"] + ["r"] * 2
    assert sorted(named(undo)) == ["p", "q", "r"]


def test_a_lock_that_stays_is_not_waited_for_without_end(undo: Path, brokers: Brokers) -> None:
    brokers.refusals = {"p": 1_000}
    applied = carried_out(PLAN, brokers.carry, undo)
    assert [it.outcome for it in applied.carried] == ["refused", "done", "done"]
    assert brokers.begun.count("p") == LOCKED_MAX
    assert sorted(named(undo)) == ["q", "r"]


@pytest.mark.parametrize("silent", [False, True])
def test_those_under_way_are_waited_for_when_one_is_not_done(
    undo: Path, brokers: Brokers, silent: bool
) -> None:
    failed = threading.Event()

    def carry(move: Move) -> tuple[MoveOutcome, str]:
        with brokers.moving(move) as who:
            if who == "p1":
                failed.set()
                if silent:
                    raise EnvironmentLack("broker 'a' does not answer")
                return MoveOutcome.ROLLED_BACK, "late"
            assert failed.wait(60)
            return MoveOutcome.DONE, ""

    plan = plan_for(LINE, *(relocation(f"p{n}", "a", "b") for n in range(50)))
    if silent:
        with pytest.raises(EnvironmentLack, match=r"[1-9]\d* moves were done, .* takes them back"):
            carried_out(plan, carry, undo, at_once=3)
    else:
        applied = carried_out(plan, carry, undo, at_once=3)
        assert applied.done == len(brokers.begun) - 1 == len(applied.carried) - 1
    assert sorted([*named(undo), "p1"]) == sorted(brokers.begun)
    assert len(brokers.begun) < 50


def test_side_by_side_on_real_brokers_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    registers: set[MoveRegister] = set()
    stepped = MoveRegister.stepped

    def counted(register: MoveRegister, *step: Any) -> None:
        nonlocal most
        stepped(register, *step)
        registers.add(register)
        places = [place for it in registers for place, _ in it.backwards()]
        most = max(most, sum(place.under_way for place in places))

    monkeypatch.setattr(MoveRegister, "stepped", counted)

    async def body() -> None:
        async with (
            live(*CHAIN, latency_ms=5.0) as running,
            contextlib.AsyncExitStack() as stack,
        ):
            ears = []
            moves: list[Move] = [relocation("p1", *CHAIN[:3]), relocation("p4", *CHAIN[:1:-1])]
            for number in range(12):
                # Every third stays connected where it is, as a stock client would.
                source, target = CHAIN[number % 4], CHAIN[(number + 1 + number // 4) % 4]
                one = client(running, source, f"s{number}", follow=number % 3 > 0)
                ears.append(Ear(await stack.enter_async_context(one)))
                await ears[-1].subscribe(number % 2)
                moves.append(reassignment(f"s{number}", source, target))
            plan, network = written(tmp_path, running, *moves)
            async with voices(running) as speakers:
                await speakers.reach(10)
                applied = await ran("apply", plan, network, "--json", "--at-once", "5")
                told = json.loads(applied.stdout)
                assert applied.exit_code == 0, told
                assert [it["outcome"] for it in told["carried"]] == ["done"] * 14
                assert 1 < most <= 5
                await speakers.reach(10)
                await undone(tmp_path / "plan.undo.json", network)
                published = await speakers.stop()
            for ear in ears:
                await ear.has_all(published)

    on_loop(body)
