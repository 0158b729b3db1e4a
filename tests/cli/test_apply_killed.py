"""`gravitate apply` that does not get to its end: killed, interrupted, without a disk. Whatever was
begun can be taken back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.cli.test_apply import answer_of, ending, plan_for, ran, record_of, relocation
from tests.cli.test_apply_subscribers import reassignment
from tests.client.moving import address_of, asked, client, live
from tests.client.test_following_subscribers import Ear, voices
from tests.serve.conftest import eventually
from tests.serve.mqtt.talk import on_loop

from gravitate import files
from gravitate.config import network as network_file
from gravitate.config import plan as plans
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.errors import FileError
from gravitate.model.moves import Move, MoveOutcome, ReassignSubscriber, client_of
from gravitate.operate import applying
from gravitate.operate.applying import carried_out
from gravitate.operate.undo_plan import next_path
from gravitate.serve.control.network import LiveNetwork
from gravitate.serve.node.moves import MoveRegister
from gravitate.serve.ports import free_ports

LATENCY_MS = 20.0
"""A move takes longer than it takes to begin to take it back."""
CHAIN = ("b1", "b2", "b3", "b4")
LINE = Network("line", tuple(map(BrokerSpec, "abc")), (LinkSpec(("a", "b")), LinkSpec(("b", "c"))))
PLAN = plan_for(
    LINE, relocation("p", "a", "b"), relocation("q", "a", "b", "c"), relocation("r", "c", "b")
)


def named(undo: Path | str) -> list[str]:
    """Whom an undo plan takes back, in its order."""
    return [client_of(back) for back in plans.load(undo).moves]  # type: ignore[arg-type]


async def started(*arguments: str | Path) -> Process:
    """A command as a process of its own, which Ctrl-C interrupts."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gravitate", *map(str, arguments)),
        stdout=PIPE,
        stderr=PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


# --- a broker that never answers ------------------------------------------------------------------


class MuteBroker:
    """Broker `a` of a plan: moves so many clients at once, and never answers for the next."""

    def __init__(self, plan: Path, network: Path, moves: int) -> None:
        self.files = plan, network
        self.asked = asyncio.Event()
        """For the move that it does not answer."""
        self._left = moves

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("POST"):
            (length,) = (
                int(line.split(":")[1])
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            )
            move = await reader.readexactly(length)
            if not self._left:
                self.asked.set()
                await reader.read()
            self._left -= 1
            writer.write(record_of(move, "done"))
        elif head.startswith("GET /clients"):
            writer.write(answer_of(b'{"broker": "a", "clients": ["p", "q", "r"], "next": null}'))
        else:
            writer.write(answer_of(b"{}", "404 Not Found"))
        writer.close()


@contextlib.asynccontextmanager
async def mute_broker(folder: Path, moves: int) -> AsyncIterator[MuteBroker]:
    (port,) = free_ports(1)
    planned = Network(
        "n",
        (BrokerSpec("a", network_file.Address(http=port)), BrokerSpec("b")),
        (LinkSpec(("a", "b"), 5.0),),
    )
    broker = MuteBroker(folder / "plan.json", folder / "network.toml", moves)
    network_file.save(planned, folder / "network.toml")
    plans.save(plan_for(planned, *(relocation(p, "a", "b") for p in "pqr")), folder / "plan.json")
    server = await asyncio.start_server(broker.answer, "127.0.0.1", port)
    try:
        yield broker
    finally:
        server.close()
        await server.wait_closed()


def test_a_move_that_apply_was_killed_in_is_in_the_undo_plan(tmp_path: Path) -> None:
    async def body() -> None:
        async with mute_broker(tmp_path, moves=1) as broker:
            process = await started("apply", *broker.files, "--at-once", "1")
            await broker.asked.wait()
            process.kill()
            await process.communicate()
        assert named(tmp_path / "plan.undo.json") == ["q", "p"]

    on_loop(body)


def test_ctrl_c_in_a_move_says_how_many_were_done_and_how_to_take_them_back(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with mute_broker(tmp_path, moves=1) as broker:
            process = await started("apply", *broker.files, "--at-once", "1")
            await broker.asked.wait()
            process.send_signal(signal.SIGINT)
            out, err = (text.decode() for text in await process.communicate())
        undo = tmp_path / "plan.undo.json"
        assert process.returncode == 130
        assert "Traceback" not in out + err
        assert "interrupted: 1 of 3 moves done, 1 not begun" in err
        assert f"move '{plans.load(broker.files[0]).moves[1].id}' may have been done" in err
        assert f"gravitate apply {undo} {tmp_path / 'network.toml'} --keep-going" in err
        assert named(undo) == ["q", "p"]

    on_loop(body)


def test_ctrl_c_is_told_to_programs_too(tmp_path: Path) -> None:
    async def body() -> None:
        async with mute_broker(tmp_path, moves=2) as broker:
            process = await started("apply", *broker.files, "--at-once", "1", "--json")
            await broker.asked.wait()
            process.send_signal(signal.SIGINT)
            out, _ = await process.communicate()
        told = json.loads(out)
        assert (process.returncode, told["interrupted"], told["done"]) == (130, True, 2)
        assert [it["outcome"] for it in told["carried"]] == ["done", "done", "unknown"]
        assert named(told["undo"]) == ["r", "q", "p"]

    on_loop(body)


def test_all_moves_that_ctrl_c_leaves_under_way_may_have_been_done(tmp_path: Path) -> None:
    async def body() -> None:
        async with mute_broker(tmp_path, moves=1) as broker:
            process = await started("apply", *broker.files, "--json")
            await broker.asked.wait()
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        told = json.loads(out)
        assert (process.returncode, told["interrupted"], b"Traceback" in err) == (130, True, False)
        outcomes = [it["outcome"] for it in told["carried"]]
        assert set(outcomes) <= {"done", "unknown"}
        assert named(told["undo"]) == ["r", "q", "p"][-len(outcomes) :]

    on_loop(body)


# --- one move after the other ---------------------------------------------------------------------


def test_the_undo_plan_names_a_move_before_its_broker_is_asked(tmp_path: Path) -> None:
    undo, begun = tmp_path / "undo.json", []

    def carry(move: Move) -> tuple[MoveOutcome, str]:
        begun.insert(0, client_of(move))  # type: ignore[arg-type]
        assert named(undo) == begun
        return MoveOutcome.DONE, ""

    assert carried_out(PLAN, carry, undo, at_once=1).done == 3
    assert named(undo) == ["r", "q", "p"]


@pytest.mark.parametrize("outcome", [MoveOutcome.REFUSED, MoveOutcome.ROLLED_BACK])
def test_a_move_that_was_not_done_is_taken_out_again(tmp_path: Path, outcome: MoveOutcome) -> None:
    carry, _ = ending(r=outcome)
    carried_out(PLAN, carry, tmp_path / "undo.json", at_once=1)
    assert named(tmp_path / "undo.json") == ["q", "p"]


def test_a_move_that_is_refused_is_asked_for_once_more_after_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "ASK_AGAIN_S", 0.0)
    asked: list[str] = []
    ids: set[str] = set()

    def carry(move: Move) -> tuple[MoveOutcome, str]:
        asked.append(client_of(move))  # type: ignore[arg-type]
        ids.add(move.id)
        settled = asked[-1] == "r" or asked.count(asked[-1]) == 2
        if asked[-1] == "p" or not settled:
            return MoveOutcome.REFUSED, "still arriving"
        assert asked[-1] in named(tmp_path / "undo.json")
        return MoveOutcome.DONE, ""

    applied = carried_out(PLAN, carry, tmp_path / "undo.json", keep_going=True, at_once=1)
    assert (asked, len(ids)) == (["p", "q", "r", "p", "q"], 5)
    assert [it.outcome for it in applied.carried] == ["refused", "done", "done"]
    assert named(applied.undo) == ["q", "r"]


def test_the_undo_plan_of_the_latest_run_has_the_highest_number(tmp_path: Path) -> None:
    first = tmp_path / "plan.undo.json"
    assert next_path(first) == first
    for name in ("plan.undo.json", "plan.undo-9.json", "plan.undo-10.json", "plan.undo.undo.json"):
        (tmp_path / name).touch()
    assert next_path(first) == tmp_path / "plan.undo-11.json"
    first.unlink()
    assert next_path(first) == tmp_path / "plan.undo-11.json"


def many(count: int) -> plans.Plan:
    return plan_for(LINE, *(relocation(f"p{n}", "a", "b") for n in range(count)))


def test_a_long_plan_writes_its_undo_plan_a_few_times_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once a move, which would be half a million moves written here."""
    count, written = 1_000, []
    undo = tmp_path / "undo.json"
    save = plans.save

    def saved(plan: plans.Plan, *rest: Any, **more: Any) -> None:
        written.append(len(plan.moves))
        save(plan, *rest, **more)

    monkeypatch.setattr(plans, "save", saved)
    asked = 0

    def carry(move: Move) -> tuple[MoveOutcome, str]:
        nonlocal asked
        asked += 1
        # What was not asked for yet and is named already is little beside what was.
        assert asked <= written[-1] <= asked * 9 / 8
        return MoveOutcome.DONE, ""

    carried_out(many(count), carry, undo, at_once=1)
    assert sum(written) < 12 * count
    assert len(named(undo)) == count


def test_what_was_named_ahead_is_taken_out_again(tmp_path: Path) -> None:
    stop = 51
    carry, asked = ending(**{f"p{stop}": MoveOutcome.REFUSED})
    carried_out(many(100), carry, tmp_path / "undo.json", at_once=1)
    assert len(asked) == stop + 1
    assert named(tmp_path / "undo.json") == [f"p{n}" for n in reversed(range(stop))]


def test_no_broker_is_asked_when_the_undo_plan_cannot_be_written(tmp_path: Path) -> None:
    carry, asked = ending()
    with pytest.raises(FileError, match=r"undo\.json: cannot be written.*; nothing was moved"):
        carried_out(PLAN, carry, tmp_path / "nowhere" / "undo.json", at_once=1)
    assert asked == []


def test_a_disk_that_fills_up_ends_it_with_all_that_was_done_in_the_undo_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carry(move: Move) -> tuple[MoveOutcome, str]:
        if client_of(move) == "q":  # type: ignore[arg-type]
            monkeypatch.setattr(files, "write_whole", full)
        return MoveOutcome.DONE, ""

    def full(path: Path, *rest: Any, **more: Any) -> None:
        raise FileError("cannot be written: No space left on device", str(path))

    undo = tmp_path / "undo.json"
    with pytest.raises(FileError, match=r"No space left.*; 2 moves were done, .* takes them back"):
        carried_out(PLAN, carry, undo, at_once=1)
    assert named(undo) == ["q", "p"]


# --- on a running network, under traffic ----------------------------------------------------------


Places = dict[str, list[tuple[str, str]]]


async def places(running: LiveNetwork) -> Places:
    """Of each client, the brokers that tell of it, and as what."""
    found: Places = {}
    for page in ("/clients", "/subscribers"):
        for broker in CHAIN:
            _, told = await asked(address_of(running, broker).http, "GET", page)
            for one in told["clients"]:
                found.setdefault(one, []).append((page, broker))
    return found


class Steps:
    """Sees every step of a move at any broker that is made after it, and does something at one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = 0
        self._then: Callable[[], None] = lambda: None
        for name in ("requested", "stepped"):
            monkeypatch.setattr(MoveRegister, name, self._counted(getattr(MoveRegister, name)))

    def at(self, number: int, then: Callable[[], None]) -> None:
        """Call `then` at this step from now."""
        self._left, self._then = number, then

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            answer = step(*arguments)
            self._left -= 1
            if not self._left:
                self._then()
            return answer

        return made


async def killed(steps: Steps, step: int, *arguments: str | Path) -> None:
    """Apply, and kill it when brokers have made so many steps; it may be through before."""
    process = await started("apply", *arguments)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    steps.at(step, kill)
    await process.communicate()


def written(folder: Path, running: LiveNetwork, *moves: Move) -> tuple[Path, Path]:
    """The plan and the network as files."""
    network_file.save(running.network, folder / "network.toml")
    plans.save(plan_for(running.network, *moves), folder / "plan.json")
    return folder / "plan.json", folder / "network.toml"


async def undone(undo: Path, network: Path) -> None:
    applied = await ran("apply", undo, network, "--keep-going", "--json")
    told = json.loads(applied.stdout)
    assert applied.exit_code == 0, told
    assert {it["outcome"] for it in told["carried"]} <= {"done", "skipped"}, told


@pytest.mark.parametrize(
    "move",
    [relocation("c", *CHAIN), reassignment("c", "b1", "b4")],
    ids=["publisher", "subscriber"],
)
@pytest.mark.parametrize("step", [1, 3])
def test_a_move_that_goes_on_after_apply_was_killed_is_waited_for_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Move, step: int
) -> None:
    steps = Steps(monkeypatch)

    async def body() -> None:
        async with (
            live(*CHAIN, latency_ms=LATENCY_MS) as running,
            client(running, "b1", "c") as one,
        ):
            if isinstance(move, ReassignSubscriber):
                await Ear(one).subscribe(1)
            else:
                await one.publish("t/x", b"0", qos=1)
                session = running.nodes["b1"].broker.clients.sessions["c"]
                await eventually(session.inbound.at_rest)
            before = await places(running)
            plan, network = written(tmp_path, running, move)
            await killed(steps, step, plan, network)
            await undone(tmp_path / "plan.undo.json", network)
            assert [node.moves.bytes_under_way for node in running.nodes.values()] == [0] * 4
            assert await places(running) == before

    on_loop(body)


@pytest.mark.parametrize(("seed", "runs"), [(1, 1), (2, 1), (3, 3)])
def test_killed_anywhere_and_undone_everybody_is_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, runs: int
) -> None:
    """The plan is applied and killed so many times, then the latest undo plan; then all undo plans
    are applied, the latest first."""
    random, steps = Random(seed), Steps(monkeypatch)
    moves: list[Move] = [relocation("p1", *CHAIN[:3]), relocation("p4", *CHAIN[:1:-1])]

    async def body() -> None:
        async with (
            live(*CHAIN, latency_ms=LATENCY_MS) as running,
            contextlib.AsyncExitStack() as stack,
        ):
            ears = []
            for number in range(6):
                # Every third stays connected where it is, as a stock client would.
                source, target = random.sample(CHAIN, 2)
                one = client(running, source, f"s{number}", follow=number % 3 > 0)
                ears.append(Ear(await stack.enter_async_context(one)))
                await ears[-1].subscribe(number % 2)
                moves.append(reassignment(f"s{number}", source, target))
            random.shuffle(moves)
            plan, network = written(tmp_path, running, *moves)
            async with voices(running) as speakers:
                await speakers.reach(10)
                before = await places(running)
                ends = [random.randint(1, 40 // runs) for _ in range(runs)]
                for end in ends:
                    await killed(steps, end, plan, network, "--keep-going")
                undos = sorted(tmp_path.glob("plan.undo*.json"), key=number_of, reverse=True)
                ends.append(random.randint(1, 20 // runs))
                await killed(steps, ends[-1], undos[0], network, "--keep-going")
                for undo in undos:
                    await undone(undo, network)
                assert await places(running) == before, f"seed {seed}: killed at steps {ends}"
                await speakers.reach(10)
                published = await speakers.stop()
            for ear in ears:
                await ear.has_all(published)

    on_loop(body)


def number_of(undo: Path) -> int:
    """Which of the runs of a plan an undo plan is of."""
    found = re.search(r"undo-(\d+)", undo.name)
    return int(found[1]) if found else 1
