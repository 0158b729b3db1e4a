"""Moves over HTTP: asked for once, told truly, and what is wrong is named."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.client.moving import address_of, asked, client, live
from tests.serve.mqtt.talk import on_loop

from gravitate.model.moves import MoveOutcome, OpenLink, Rationale, RelocatePublisher
from gravitate.serve.moves import MOVES_REMEMBERED, MoveList, MoveRecord, MoveRegister

WHY = Rationale("a test")


def relocation(id: str = "m", **changes: Any) -> RelocatePublisher:
    move = RelocatePublisher(id, "p", "b1", "b2", WHY, ("b1", "b2"))
    return msgspec.structs.replace(move, **changes)


# The register -------------------------------------------------------------------------------------


def test_a_move_is_known_from_its_first_step_to_its_end() -> None:
    register = MoveRegister("b1")
    move = relocation()
    register.stepped(move, "asked", "", 1.0)
    register.stepped(move, "pausing", "", 2.0)
    assert register.list() == MoveList("b1", [MoveRecord(move, "b1", "pausing", 1.0)], [])
    register.stepped(move, "rolled back", "late", 3.0)
    outcome = MoveOutcome.ROLLED_BACK
    record = MoveRecord(move, "b1", "rolled back", 1.0, outcome, "late", 3.0)
    assert register.list() == MoveList("b1", [], [record])
    assert register.get("m") == record


def test_only_so_many_that_ended_are_remembered_and_all_that_are_under_way() -> None:
    register = MoveRegister("b1")
    for number in range(MOVES_REMEMBERED + 5):
        register.stepped(relocation(f"open-{number}"), "asked", "", 1.0)
        register.stepped(relocation(f"m-{number}"), "done", "", 2.0)
    listed = register.list()
    assert len(listed.under_way) == MOVES_REMEMBERED + 5
    assert [record.move.id for record in listed.ended] == [
        f"m-{number}" for number in range(5, MOVES_REMEMBERED + 5)
    ]
    assert register.get("m-4") is None


def test_waiting_ends_with_the_move_or_with_patience() -> None:
    async def body() -> None:
        register = MoveRegister("b1")
        register.requested(relocation(), 1.0)
        record = await register.ended("m", 0.001)
        assert record is not None
        assert (record.step, record.outcome) == ("requested", None)
        waiting = asyncio.create_task(register.ended("m", 60.0))
        await asyncio.sleep(0)
        register.stepped(relocation(), "refused", "no", 2.0)
        ended = await waiting
        assert ended is not None
        assert (ended.outcome, ended.reason) == (MoveOutcome.REFUSED, "no")
        assert await register.ended("other", 60.0) is None

    on_loop(body)


# The pages ----------------------------------------------------------------------------------------


def test_a_move_is_carried_out_once_however_often_it_is_asked_for() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running, client(running, "b1", "p") as publisher:
            await publisher.advertise("t")
            port = address_of(running, "b1").http
            move = msgspec.json.encode(relocation())
            status, first = await asked(port, "POST", "/moves", move)
            assert (status, first["outcome"], first["step"]) == (200, "done", "done")
            assert first["began_at_s"] <= first["ended_at_s"]
            assert msgspec.convert(first, MoveRecord).move == relocation()
            assert await asked(port, "POST", "/moves", move) == (200, first)
            assert await asked(port, "GET", "/moves/m") == (200, first)
            listed = {"broker": "b1", "under_way": [], "ended": [first]}
            assert await asked(port, "GET", "/moves") == (200, listed)
            assert publisher.moves == 1

    on_loop(body)


def test_a_path_that_is_left_out_is_that_of_the_network_file() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, client(running, "b1", "p") as publisher:
            await publisher.advertise("t")
            port = address_of(running, "b1").http
            move = msgspec.json.encode(relocation(target="b3", path=()))
            _, record = await asked(port, "POST", "/moves", move)
            assert (record["outcome"], record["move"]["path"]) == ("done", ["b1", "b2", "b3"])

    on_loop(body)


def test_a_target_without_a_door_takes_only_those_that_stay_connected() -> None:
    async def body() -> None:
        async with (
            live("b1", "b2", without={"b2": "mqtt"}) as running,
            client(running, "b1", "p") as follows,
            client(running, "b1", "q") as stays,
        ):
            await follows.advertise("t")
            await stays.advertise("t")
            await (await stays.subscribe("u")).settled()
            port = address_of(running, "b1").http
            status, page = await asked(port, "POST", "/moves", msgspec.json.encode(relocation()))
            assert (status, page["error"]) == (
                400,
                "target is 'b2', which has no mqtt port in the network file: "
                "'p' cannot connect there",
            )
            move = relocation("other", publisher="q")
            _, record = await asked(port, "POST", "/moves", msgspec.json.encode(move))
            assert record["outcome"] == "done", record

    on_loop(body)


def test_whoever_does_not_wait_asks_again() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            port = address_of(running, "b1").http
            move = msgspec.json.encode(relocation(publisher="nobody"))
            status, record = await asked(port, "POST", "/moves?wait_s=0", move)
            assert (status, record["step"], record["outcome"]) == (202, "requested", None)
            status, record = await asked(port, "GET", "/moves/m?wait_s=20")
            assert (status, record["outcome"]) == (200, "refused")
            assert record["reason"] == "'nobody' is not attached to b1"

    on_loop(body)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "the move is not accepted: Input data was truncated"),
        (b"\xff", 400, "the move is not accepted: "),
        (b'{"type": "\xff"}', 400, "the move is not accepted: 'utf-8' codec"),
        (b'{"x": ' + b"[" * 100_000, 400, "the move is not accepted: maximum recursion depth"),
        (b'{"type": "teleport"}', 400, "Invalid value 'teleport' - at `$.type`"),
        (b'{"type": "relocate-publisher", "id": 5}', 400, "Expected `str`, got `int` - at `$.id`"),
        (msgspec.json.encode(relocation("")), 400, "a move needs an id"),
        (
            msgspec.json.encode(relocation(target="b9")),
            400,
            "target is 'b9', the brokers are b1, b2",
        ),
        (
            msgspec.json.encode(relocation(source="b2", target="b1")),
            400,
            "source is 'b2': ask that broker, this is 'b1' and moves its own clients",
        ),
        (
            msgspec.json.encode(relocation(target="b1")),
            400,
            "source and target are both 'b1': name another target",
        ),
        (b" " * 2_000_000, 413, "a body of 2000000 bytes, 1048576 are taken"),
    ],
)
def test_a_request_that_cannot_be_meant_is_told_what_is_wrong(
    body: bytes, status: int, said: str
) -> None:
    async def ask() -> None:
        async with live("b1", "b2") as running:
            port = address_of(running, "b1").http
            found, page = await asked(port, "POST", "/moves", body)
            assert found == status
            assert said in page["error"]
            _, listed = await asked(port, "GET", "/moves")
            assert listed == {"broker": "b1", "under_way": [], "ended": []}

    on_loop(ask)


def test_other_mistakes_have_their_status() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            port = address_of(running, "b1").http
            plain = await asked(port, "POST", "/moves", b"{}", content_type="text/plain")
            assert plain == (
                415,
                {"error": "Content-Type is 'text/plain', expected application/json"},
            )
            status, page = await asked(port, "GET", "/moves/none%20such")
            assert (status, page["error"]) == (404, "b1 knows no move 'none such' (any more)")
            status, page = await asked(port, "GET", "/moves/m?wait_s=soon")
            assert (status, page["error"]) == (
                400,
                "wait_s is 'soon', expected seconds from 0 to 120",
            )
            status, page = await asked(port, "GET", "/moves?limit=3")
            assert (status, page["error"]) == (400, "parameter 'limit' is not known: wait_s is")
            assert (await asked(port, "DELETE", "/moves"))[0] == 405
            unsupported = msgspec.json.encode(OpenLink("l", ("b1", "b2"), WHY))
            status, page = await asked(port, "POST", "/moves", unsupported)
            assert (status, page["outcome"]) == (200, "refused")
            assert page["reason"] == "brokers do not carry out this kind of move"
            other = msgspec.json.encode(OpenLink("l", ("b2", "b1"), WHY))
            status, page = await asked(port, "POST", "/moves", other)
            assert status == 409
            assert page["error"] == "another move has the id 'l': give it its own"

    on_loop(body)
