"""`gravitate apply`, `moves` and `explain` on a running network and away from one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import paho.mqtt.client as paho
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.routing import Route
from tests.client.moving import Speaker, address_of, at, audience, client, live
from tests.serve.mqtt.talk import on_loop
from tests.serve.mqtt.test_paho import Stock
from tests.support.scenes import GRAPE_LOAD, script
from typer.testing import CliRunner

from gravitate.cli.main import app
from gravitate.client import Client
from gravitate.config import network as network_file
from gravitate.config import plan as plans
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.errors import EnvironmentLack, FileError, InputError
from gravitate.model.moves import Move, MoveOutcome, Rationale, RelocatePublisher
from gravitate.operate import asking
from gravitate.operate.applying import carried_out
from gravitate.operate.standing import misplaced
from gravitate.serve.control.network import LiveNetwork, on_free_ports
from gravitate.serve.http.client_pages import client_pages
from gravitate.serve.http.pages import serve_pages
from gravitate.serve.node.moves import MoveList, MoveRecord
from gravitate.serve.ports import free_ports
from gravitate.simulate.run import run_scenario
from gravitate.trace.writer import TraceWriter

CHAIN = ("b1", "b2", "b3", "b4")
MUTE = network_file.Address()


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


async def ran(*arguments: str | Path) -> Any:
    """A command in a thread of its own, while this one runs the brokers."""
    return await asyncio.to_thread(run, *arguments)


async def comes_to(running: LiveNetwork, broker: str, one: Client) -> None:
    """A move is done when its client has been taken over; the client hears of it a moment later."""
    async with asyncio.timeout(10):
        while not at(running, broker, one):
            await asyncio.sleep(0.002)


def relocation(publisher: str, *path: str) -> RelocatePublisher:
    why = Rationale(
        "it is nearer to its audience", 7.0, float(len(path) - 1), {"messages_after": 3.0}
    )
    return RelocatePublisher("", publisher, path[0], path[-1], why, path)


def plan_for(network: Network, *moves: Move) -> plans.Plan:
    return plans.plan_of(
        kind="publishers",
        run="yesterday",
        network=network,
        parameters={},
        moves=moves,
        recorded={},
        before={"arrivals": 3.0},
        after={"arrivals": 1.0},
    )


def written(folder: Path, running: LiveNetwork, *moves: Move) -> tuple[Path, Path]:
    """The plan and the network as files."""
    network_file.save(running.network, folder / "network.toml")
    plans.save(plan_for(running.network, *moves), folder / "plan.json")
    return folder / "plan.json", folder / "network.toml"


def test_a_plan_is_carried_out_explained_and_taken_back_on_a_running_network(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with (
            live(*CHAIN) as running,
            audience(running, "b4") as everybody,
            client(running, "b1", "p") as publisher,
            client(running, "b2", "q") as other,
        ):
            speaker = Speaker(publisher, 200.0)
            await speaker.reaches(10)
            plan, network = written(
                tmp_path, running, relocation("p", *CHAIN), relocation("q", "b2", "b3")
            )

            dry = await ran("apply", plan, network, "--dry-run")
            assert (dry.exit_code, "nothing was moved" in dry.stdout) == (0, True)
            await comes_to(running, "b1", publisher)

            applied = await ran("apply", plan, network, "--json")
            told = json.loads(applied.stdout)
            assert applied.exit_code == 0, told
            assert [it["outcome"] for it in told["carried"]] == ["done", "done"]
            assert told["undo"] == str(tmp_path / "plan.undo.json")
            await comes_to(running, "b4", publisher)
            await comes_to(running, "b3", other)
            await speaker.reaches(10)

            listed = json.loads((await ran("moves", network, "--json")).stdout)
            made = plans.load(plan)
            assert [it["state"] for it in listed["moves"]] == ["done", "done"]
            by_broker = sorted(listed["moves"], key=lambda it: str(it["broker"]))
            assert [it["broker"] for it in by_broker] == ["b1", "b2"]  # either may begin first
            assert all(
                it["move"]["id"].startswith(move.id)
                for it, move in zip(by_broker, made.moves, strict=True)
            )
            explained = await ran("explain", made.moves[0].id, network)
            assert "it is nearer to its audience" in explained.stdout
            assert "messages after" in explained.stdout

            with pytest.raises(FileError, match="publisher 'p' is at b4, the plan has it at b1"):
                await ran("apply", plan, network)

            undone = await ran("apply", told["undo"], network)
            assert undone.exit_code == 0, undone.stdout
            await comes_to(running, "b1", publisher)
            await comes_to(running, "b2", other)
            again = await ran("apply", plan, network, "--json")
            assert json.loads(again.stdout)["done"] == 2
            await comes_to(running, "b4", publisher)
            # What takes back the first occasion is still there.
            assert json.loads(again.stdout)["undo"] == str(tmp_path / "plan.undo-2.json")
            await everybody.has_all(await speaker.stop())

    on_loop(body)


def test_a_publisher_that_has_gone_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            live("b1", "b2") as running,
            client(running, "b1", "p") as publisher,
        ):
            await publisher.publish("t/x", b"0", qos=1)
            plan, network = written(
                tmp_path, running, relocation("gone", "b1", "b2"), relocation("p", "b1", "b2")
            )
            with pytest.raises(FileError, match="'gone' is not connected, the plan has it at b1"):
                await ran("apply", plan, network)
            await comes_to(running, "b1", publisher)
            applied = await ran("apply", plan, network, "--keep-going", "--json")
            told = json.loads(applied.stdout)
            assert applied.exit_code == 1
            assert [it["outcome"] for it in told["carried"]] == ["skipped", "done"]
            await comes_to(running, "b2", publisher)
            (back,) = plans.load(told["undo"]).moves
            assert isinstance(back, RelocatePublisher)
            assert (back.publisher, back.source, back.target) == ("p", "b2", "b1")

    on_loop(body)


def test_a_stock_client_is_moved_and_taken_back_though_it_stays_connected(tmp_path: Path) -> None:
    def told(*arguments: str | Path) -> Any:
        return json.loads(run(*arguments, "--json").stdout)

    def moved(running: LiveNetwork, plan: Path, network: Path) -> None:
        stock = Stock("stock", paho.MQTTv311, address_of(running, "b1").mqtt)
        try:
            for number in range(3):
                stock.client.publish("t/x", b"%d" % number, qos=1).wait_for_publish(10)
            there = told("apply", plan, network)
            assert [it["outcome"] for it in there["carried"]] == ["done"], there
            assert "stock" in running.nodes["b3"].attached()
            assert "stock" not in running.nodes["b1"].attached()
            stock.client.publish("t/x", b"3", qos=1).wait_for_publish(10)
            back = told("apply", there["undo"], network)
            assert [it["outcome"] for it in back["carried"]] == ["done"], back
            assert "stock" in running.nodes["b1"].attached()
            stock.client.publish("t/x", b"4", qos=1).wait_for_publish(10)
        finally:
            stock.close()

    async def body() -> None:
        async with live("b1", "b2", "b3") as running, audience(running, "b3") as everybody:
            files = written(tmp_path, running, relocation("stock", "b1", "b2", "b3"))
            await asyncio.to_thread(moved, running, *files)
            await everybody.has_all(5)

    on_loop(body)


def test_more_moves_than_a_page_has_are_all_listed_in_order(tmp_path: Path) -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            network_file.save(running.network, tmp_path / "network.toml")
            for broker, node in running.nodes.items():
                move = relocation("p", "b1", "b2")
                for n in range(300):
                    ended = msgspec.structs.replace(move, id=f"{broker}-{n}")
                    node.moves.stepped(ended, "done", "", 1000.0 + n)
                    going = msgspec.structs.replace(move, id=f"{broker}-open-{n}")
                    node.moves.stepped(going, "asked", "", 1000.0 + n)
            listed = await ran("moves", tmp_path / "network.toml", "--json")
            told = [it["move"]["id"] for it in json.loads(listed.stdout)["moves"]]
            assert told[:600] == [f"{id}-open-{n}" for id in ("b1", "b2") for n in range(300)]
            assert told[600:] == [f"{id}-{n}" for n in range(300) for id in ("b1", "b2")]

    on_loop(body)


def test_a_move_that_ends_between_two_pages_is_listed_as_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move = relocation("p", "a", "b")
    going, ended = (MoveRecord(move, "a", step, 1.0) for step in ("asked", "done"))
    answers = {"/moves": MoveList("a", [going], [], "more"), "more": MoveList("a", [], [ended])}
    monkeypatch.setattr(asking, "ask", lambda spec, path, what: answers[path])
    network = Network("n", (BrokerSpec("a", network_file.Address(http=1)),), ())
    assert asking.all_moves(network) == ([MoveList("a", [], [ended])], [])


def test_more_clients_than_a_page_names_are_all_found() -> None:
    async def body() -> None:
        ids = [f"client-{n}" for n in range(2_500)]
        (port,) = free_ports(1)
        pages = [Route("/clients", client_pages("a", lambda: iter(ids)))]
        door = await serve_pages(lambda: None, "127.0.0.1", port, pages)  # type: ignore[arg-type, return-value]
        brokers = (BrokerSpec("a", network_file.Address(http=port)),)
        found = await asyncio.to_thread(asking.places, Network("n", brokers, ()))
        await door.close()
        assert found == (dict.fromkeys(ids, "a"), [])

    on_loop(body)


def test_a_plan_for_another_network_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    planned = Network("n", (BrokerSpec("a"), BrokerSpec("b")), (LinkSpec(("a", "b"), 5.0),))
    plans.save(plan_for(planned, relocation("p", "a", "b")), tmp_path / "plan.json")
    slower = msgspec.structs.replace(planned, links=(LinkSpec(("a", "b"), 7.0),))
    network_file.save(slower, tmp_path / "network.toml")
    with pytest.raises(
        FileError,
        match=r"plan\.json: was made for another network than .*: its link a - b has 7 ms",
    ):
        run("apply", tmp_path / "plan.json", tmp_path / "network.toml")


def test_a_network_that_is_down_or_cannot_be_asked_is_told_of(tmp_path: Path) -> None:
    planned = Network("n", (BrokerSpec("a"), BrokerSpec("b")), (LinkSpec(("a", "b"), 5.0),))
    plans.save(plan_for(planned, relocation("p", "a", "b")), tmp_path / "plan.json")
    network_file.save(planned, tmp_path / "network.toml")
    with pytest.raises(InputError, match="no broker of network 'n' has an http port"):
        run("moves", tmp_path / "network.toml")
    network_file.save(on_free_ports(planned), tmp_path / "network.toml")
    with pytest.raises(EnvironmentLack, match=r"'a' does not answer at 127.*nothing was moved"):
        run("apply", tmp_path / "plan.json", tmp_path / "network.toml")
    listed = run("moves", tmp_path / "network.toml", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)["silent"]) == (1, ["a", "b"])


def test_brokers_that_cannot_be_asked_for_their_moves_are_named(tmp_path: Path) -> None:
    line = Network("n", tuple(map(BrokerSpec, "abc")), (LinkSpec(("a", "b")), LinkSpec(("b", "c"))))
    made = plan_for(line, relocation("p", "a", "b"), relocation("q", "c", "b"))
    plans.save(made, tmp_path / "plan.json")
    brokers = on_free_ports(line).brokers
    mute = msgspec.structs.replace(
        line, brokers=(brokers[0], brokers[1], msgspec.structs.replace(brokers[2], address=MUTE))
    )
    network_file.save(mute, tmp_path / "network.toml")
    with pytest.raises(FileError, match=r"network\.toml: has no http port for c, where moves of"):
        run("apply", tmp_path / "plan.json", tmp_path / "network.toml")
    _, untold = asking.places(mute)
    assert untold == ["a", "b", "c"]


# --- a broker that was asked and does not tell ----------------------------------------------------


def record_of(asked: bytes, outcome: str | None = None) -> bytes:
    told = {"move": msgspec.json.decode(asked), "broker": "a", "began_at_s": 0.0}
    return answer_of(msgspec.json.encode({**told, "step": outcome or "quiet", "outcome": outcome}))


def answer_of(content: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


FORGOTTEN = answer_of(b"{}", "404 Not Found")


@pytest.mark.parametrize(
    ("posted", "asked_again", "sentence"),
    [
        (lambda body: b"", b"", "broker 'a' does not answer"),
        (lambda body: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"", "does not answer"),
        (lambda body: answer_of(b"{]"), b"", "answers what is not expected"),
        (lambda body: answer_of(b'{"broker": "\xff"}'), b"", "answers what is not expected"),
        (lambda body: answer_of(b'{"x": ' + b"[" * 100_000), b"", "answers what is not expected"),
        (lambda body: answer_of(b"", "504 Gateway Timeout"), b"", "has failed, or what stands"),
        (record_of, b"", "broker 'a' does not answer"),
        (record_of, answer_of(b"\xff", "400 Bad Request"), "broker 'a' refuses"),
        (record_of, FORGOTTEN, "has forgotten it: was it restarted?"),
    ],
)
def test_a_move_whose_end_nobody_tells_may_have_been_done(
    tmp_path: Path, posted: Callable[[bytes], bytes], asked_again: bytes, sentence: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET /clients"):
            writer.write(answer_of(b'{"broker": "a", "clients": ["p"], "next": null}'))
        elif head.startswith("POST"):
            (length,) = (
                int(line.split(":")[1])
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            )
            writer.write(posted(await reader.readexactly(length)))
        else:
            writer.write(asked_again)
        writer.close()

    async def body() -> None:
        (port,) = free_ports(1)
        planned = Network(
            "n",
            (BrokerSpec("a", network_file.Address(http=port)), BrokerSpec("b")),
            (LinkSpec(("a", "b"), 5.0),),
        )
        network_file.save(planned, tmp_path / "network.toml")
        made = plan_for(planned, relocation("p", "a", "b"))
        plans.save(made, tmp_path / "plan.json")
        server = await asyncio.start_server(answer, "127.0.0.1", port)
        try:
            files = tmp_path / "plan.json", tmp_path / "network.toml"
            applied = await ran("apply", *files, "--json")
            told = json.loads(applied.stdout)
            (carried,) = told["carried"]
            assert (applied.exit_code, carried["outcome"], told["done"]) == (1, "unknown", 0)
            assert sentence in carried["reason"]
            (back,) = plans.load(told["undo"]).moves
            assert (back.publisher, back.source) == ("p", "b")  # type: ignore[union-attr]
            shown = await ran("apply", *files)
            assert f"move '{made.moves[0].id}' may have been done" in shown.stderr
            assert "nothing was moved" not in shown.output
        finally:
            server.close()
            await server.wait_closed()

    on_loop(body)


def test_a_move_that_does_not_end_may_still_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOVE_S_MAX", 0.0)
    (move,) = plan_for(LINE, relocation("p", "a", "b")).moves

    def ask(spec: BrokerSpec, *rest: Any, **more: Any) -> MoveRecord:
        return MoveRecord(move, spec.id, "quiet", 0.0)

    monkeypatch.setattr(asking, "ask", ask)
    with pytest.raises(asking.OutcomeUnknown, match="not ended in 0 s: broker 'a' has it 'quie"):
        asking.carry_out(BrokerSpec("a"), move)


# --- one move after the other ---------------------------------------------------------------------

LINE = Network("line", tuple(map(BrokerSpec, "abc")), (LinkSpec(("a", "b")), LinkSpec(("b", "c"))))
PLAN = plan_for(
    LINE, relocation("p", "a", "b"), relocation("q", "a", "b", "c"), relocation("r", "c", "b")
)


def ending(**outcomes: MoveOutcome | None) -> Any:
    asked: list[str] = []

    def carry(move: Move) -> tuple[MoveOutcome | None, str]:
        assert isinstance(move, RelocatePublisher)
        asked.append(move.id)
        return outcomes.get(move.publisher, MoveOutcome.DONE), ""

    return carry, asked


@pytest.mark.parametrize("outcome", [MoveOutcome.REFUSED, MoveOutcome.ROLLED_BACK])
def test_the_first_move_that_is_not_done_ends_it(tmp_path: Path, outcome: MoveOutcome) -> None:
    carry, asked = ending(q=outcome)
    applied = carried_out(PLAN, carry, tmp_path / "undo.json", at_once=1)
    assert [it.outcome for it in applied.carried] == ["done", outcome.value]
    assert len(asked) == 2
    (back,) = plans.load(applied.undo).moves
    assert back.publisher == "p"  # type: ignore[union-attr]


def test_it_goes_on_when_told_to(tmp_path: Path) -> None:
    carry, asked = ending(q=MoveOutcome.ROLLED_BACK)
    applied = carried_out(PLAN, carry, tmp_path / "undo.json", keep_going=True, at_once=1)
    assert [it.outcome for it in applied.carried] == ["done", "rolled back", "done"]
    assert (applied.done, len(asked)) == (2, 3)
    backs = plans.load(applied.undo).moves
    assert [back.publisher for back in backs] == ["r", "p"]  # type: ignore[union-attr]


@pytest.mark.parametrize("keep_going", [False, True])
def test_what_may_have_been_done_is_taken_back_too(tmp_path: Path, keep_going: bool) -> None:
    carry, asked = ending(q=None)
    applied = carried_out(PLAN, carry, tmp_path / "undo.json", keep_going, at_once=1)
    assert [it.outcome for it in applied.carried][:2] == ["done", "unknown"]
    assert [it.move for it in applied.unknown] == [PLAN.moves[1].id]
    assert (applied.done, len(asked)) == ((2, 3) if keep_going else (1, 2))
    backs = [back.publisher for back in plans.load(applied.undo).moves]  # type: ignore[union-attr]
    assert backs == (["r", "q", "p"] if keep_going else ["q", "p"])


def test_every_occasion_has_its_own_ids(tmp_path: Path) -> None:
    carry, asked = ending()
    carried_out(PLAN, carry, tmp_path / "undo.json", at_once=1)
    assert all(id.rpartition("-")[0] == move.id for id, move in zip(asked, PLAN.moves, strict=True))


def test_nothing_done_leaves_nothing_to_take_back(tmp_path: Path) -> None:
    carry, _ = ending(p=MoveOutcome.REFUSED)
    applied = carried_out(PLAN, carry, tmp_path / "undo.json", at_once=1)
    assert (applied.done, applied.undo, list(tmp_path.iterdir())) == (0, "", [])


def test_a_broker_that_falls_silent_leaves_the_way_back(tmp_path: Path) -> None:
    def carry(move: Move) -> tuple[MoveOutcome, str]:
        if move.publisher == "q":  # type: ignore[union-attr]
            raise EnvironmentLack("broker 'a' does not answer")
        return MoveOutcome.DONE, ""

    undo = tmp_path / "undo.json"
    with pytest.raises(EnvironmentLack, match=r"1 moves were done, .*undo\.json takes them back"):
        carried_out(PLAN, carry, undo, at_once=1)
    assert [back.publisher for back in plans.load(undo).moves] == ["p"]  # type: ignore[union-attr]


def test_places_that_nobody_tells_are_left_to_the_broker() -> None:
    assert misplaced(PLAN, {"q": "a"}, ["c"]).keys() == {PLAN.moves[0].id}
    assert misplaced(PLAN, {"p": "a", "q": "a", "r": "c"}, []) == {}


def test_a_publisher_that_may_be_where_nobody_tells_is_not_said_to_be_away() -> None:
    (sentence,) = misplaced(PLAN, {"q": "a", "r": "c"}, ["b"]).values()
    assert sentence == "publisher 'p' is at no broker that tells, the plan has it at a"


# --- away from a network --------------------------------------------------------------------------


def test_moves_of_a_run_are_listed_in_the_order_they_ended(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "world") as writer:
        for at_s, move, outcome in (
            (9.0, PLAN.moves[1], MoveOutcome.ROLLED_BACK),
            (4.0, PLAN.moves[0], MoveOutcome.DONE),
        ):
            writer.on_move("a", move, outcome, at_s)
    listed = json.loads(run("moves", "--run", tmp_path, "--json").stdout)["moves"]
    assert [(it["move"]["publisher"], it["state"]) for it in listed] == [
        ("p", "done"),
        ("q", "rolled back"),
    ]
    shown = run("explain", "q", tmp_path)
    assert "it is nearer to its audience" in shown.stdout
    assert "rolled back" in shown.stdout


def test_a_move_that_brokers_made_by_themselves_is_explained_with_its_cost(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "world") as writer:
        scene = script([("a", "b"), ("b", "c")], GRAPE_LOAD, [("c", "x > 0")])
        run_scenario(scene, observers=[writer], checks=False)
    (told,) = json.loads(run("explain", "pub", tmp_path, "--json").stdout)
    assert (told["state"], told["move"]["why"]["cost"]) == ("done", 2.0)


def test_moves_of_a_run_that_cannot_be_read_are_told_of(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "world") as writer:
        writer.on_move("a", PLAN.moves[0], MoveOutcome.DONE, 1.0)
    (file,) = (tmp_path / "moves").glob("*.parquet")
    rows = pq.read_table(file)
    deep = pa.array(['{"x": ' + "[" * 100_000], pa.string())
    at_column = rows.schema.get_field_index("details")
    pq.write_table(rows.set_column(at_column, rows.schema.field(at_column), deep), file)
    with pytest.raises(FileError, match="has a move that cannot be read: maximum recursion"):
        run("moves", "--run", tmp_path)


def test_a_planned_move_is_explained_by_its_plan(tmp_path: Path) -> None:
    plans.save(PLAN, tmp_path / "plan.json")
    told = json.loads(run("explain", PLAN.moves[2].id, tmp_path / "plan.json", "--json").stdout)
    assert [it["move"]["publisher"] for it in told] == ["r"]
    assert told[0]["state"] == "planned"
    with pytest.raises(InputError, match=f"'x'; moves are {PLAN.moves[0].id} "):
        run("explain", "x", tmp_path / "plan.json")


def test_moves_are_of_a_network_or_of_a_run() -> None:
    with pytest.raises(InputError, match="either a network file, or --run RUN"):
        run("moves")


def test_a_port_where_somebody_else_answers_is_told_of(tmp_path: Path) -> None:
    """The peer port of a broker is not its http port."""

    async def body() -> None:
        async def gibberish(reader: Any, writer: Any) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]")
            writer.close()

        (port,) = free_ports(1)
        server = await asyncio.start_server(gibberish, "127.0.0.1", port)
        address = network_file.Address(http=port)
        network_file.save(Network("n", (BrokerSpec("a", address),)), tmp_path / "network.toml")
        try:
            listed = await ran("moves", tmp_path / "network.toml", "--json")
            assert json.loads(listed.stdout)["silent"] == ["a"]
        finally:
            server.close()
            await server.wait_closed()

    on_loop(body)
