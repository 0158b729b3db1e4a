"""Moves over HTTP: asked for once, told truly, and what is wrong is named."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.client.moving import address_of, asked, client, live
from tests.serve.mqtt.talk import on_loop

from gravitate.model.moves import MoveOutcome, OpenLink, Rationale, RelocatePublisher
from gravitate.serve.http.paging import PAGE_BYTES_MAX
from gravitate.serve.node.moves import (
    ENDED_BYTES_MAX,
    MOVES_REMEMBERED,
    UNDER_WAY_BYTES_MAX,
    MoveList,
    MoveRecord,
    MoveRegister,
)

WHY = Rationale("a test")


def relocation(id: str = "m", **changes: Any) -> RelocatePublisher:
    move = RelocatePublisher(id, "p", "b1", "b2", WHY, ("b1", "b2"))
    return msgspec.structs.replace(move, **changes)


def big(id: str, size: int = 60_000) -> RelocatePublisher:
    return relocation(id, publisher="nobody", why=Rationale("x" * size))


# The register -------------------------------------------------------------------------------------


def read(register: MoveRegister) -> tuple[list[MoveRecord], list[MoveRecord]]:
    """All moves under way, and all that ended, the latest last."""
    found: tuple[list[MoveRecord], list[MoveRecord]] = ([], [])
    for position, encoded in register.backwards():
        record = msgspec.json.decode(encoded, type=MoveRecord)
        found[0 if position.under_way else 1].insert(0, record)
    return found


def test_a_move_is_known_from_its_first_step_to_its_end() -> None:
    register = MoveRegister("b1")
    move = relocation()
    register.stepped(move, "asked", "", 1.0)
    register.stepped(move, "pausing", "", 2.0)
    assert read(register) == ([MoveRecord(move, "b1", "pausing", 1.0)], [])
    register.stepped(move, "rolled back", "late", 3.0)
    outcome = MoveOutcome.ROLLED_BACK
    record = MoveRecord(move, "b1", "rolled back", 1.0, outcome, "late", 3.0)
    assert read(register) == ([], [record])
    assert register.get("m") == record


def test_only_so_many_that_ended_are_remembered_and_all_that_are_under_way() -> None:
    register = MoveRegister("b1")
    for number in range(MOVES_REMEMBERED + 5):
        register.stepped(relocation(f"open-{number}"), "asked", "", 1.0)
        register.stepped(relocation(f"m-{number}"), "done", "", 2.0)
    under_way, ended = read(register)
    assert len(under_way) == MOVES_REMEMBERED + 5
    assert [record.move.id for record in ended] == [
        f"m-{number}" for number in range(5, MOVES_REMEMBERED + 5)
    ]
    assert register.get("m-4") is None


def test_of_large_moves_fewer_are_remembered() -> None:
    register = MoveRegister("b1")
    for number in range(200):
        register.stepped(big(f"m-{number}"), "refused", "no", 2.0)
        assert register.bytes_ended <= ENDED_BYTES_MAX
    _, ended = read(register)
    assert [record.move.id for record in ended] == [
        f"m-{number}" for number in range(200 - len(ended), 200)
    ]
    assert register.bytes_ended > ENDED_BYTES_MAX - 2 * 60_000
    register.stepped(big("m-199", 10), "done", "", 3.0)
    assert len(read(register)[1]) == len(ended)
    assert register.bytes_ended == sum(len(it) for _, it in register.backwards())


def test_moves_from_outside_wait_for_room_and_those_of_mechanisms_do_not() -> None:
    register = MoveRegister("b1")
    taken = [register.requested(big(f"m-{number}"), 1.0) for number in range(20)]
    assert 0 < register.bytes_under_way <= UNDER_WAY_BYTES_MAX
    assert taken == [True] * sum(taken) + [False] * (20 - sum(taken))
    for number in range(20):
        register.stepped(big(f"own-{number}"), "asked", "", 1.0)
    assert register.bytes_under_way > UNDER_WAY_BYTES_MAX
    assert len(read(register)[0]) == sum(taken) + 20
    assert not register.requested(relocation("small"), 1.0)
    for number in range(sum(taken)):
        register.stepped(big(f"m-{number}"), "refused", "no", 2.0)
    for number in range(20):
        register.stepped(big(f"own-{number}"), "done", "", 2.0)
    assert register.bytes_under_way == 0
    assert register.requested(relocation("small"), 1.0)


def test_who_waits_is_told_the_end_of_a_move_that_is_forgotten_at_once() -> None:
    async def body() -> None:
        register = MoveRegister("b1")
        assert register.requested(relocation(), 1.0)
        waiting = asyncio.create_task(register.ended("m", 60.0))
        await asyncio.sleep(0)
        register.stepped(relocation(), "done", "", 2.0)
        for number in range(MOVES_REMEMBERED):
            register.stepped(relocation(f"m-{number}"), "done", "", 2.0)
        assert register.get("m") is None
        record = await waiting
        assert record is not None
        assert record.outcome is MoveOutcome.DONE

    on_loop(body)


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
            listed = {"broker": "b1", "under_way": [], "ended": [first], "next": None}
            assert await asked(port, "GET", "/moves") == (200, listed)
            assert publisher.moves == 1

    on_loop(body)


def test_a_path_that_is_left_out_is_found_by_the_broker() -> None:
    async def body() -> None:
        async with live("b1", "b2", "b3") as running, client(running, "b1", "p") as publisher:
            await publisher.advertise("t")
            port = address_of(running, "b1").http
            move = msgspec.json.encode(relocation(target="b3", path=()))
            _, record = await asked(port, "POST", "/moves", move)
            assert (record["outcome"], record["move"]["path"]) == ("done", ["b1", "b2", "b3"])
            assert await asked(port, "POST", "/moves", move) == (200, record)

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
        (b'{"x": ' + b"[" * 60_000, 400, "the move is not accepted: maximum recursion depth"),
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
        (b" " * 2_000_000, 413, "a body of 2000000 bytes, 65536 are taken"),
        (b" " * 65_537, 413, "a body of 65537 bytes, 65536 are taken"),
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
            assert listed == {"broker": "b1", "under_way": [], "ended": [], "next": None}

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
            for path, said in (
                ("/moves/m?limit=3", "parameter 'limit' is not known: expected wait_s"),
                ("/moves?wait_s=3", "parameter 'wait_s' is not known: expected limit or before"),
                ("/moves?limit=0", "limit is '0', expected a whole number from 1 to 1000"),
                ("/moves?limit=1001", "limit is '1001', expected a whole number from 1 to 1000"),
                ("/moves?limit=", "limit is '', expected a whole number from 1 to 1000"),
                ("/moves?limit=%b2", "limit is '\ufffd', expected a whole number from 1 to 1000"),
                ("/moves?before=m", "before is 'm', expected what `next` of a page has"),
                ("/moves?before=", "before is '', expected what `next` of a page has"),
            ):
                assert await asked(port, "GET", path) == (400, {"error": said})
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


async def pages(port: int, path: str = "/moves") -> list[MoveList]:
    """All pages from one on."""
    found = []
    following: str | None = path
    while following is not None:
        status, page = await asked(port, "GET", following)
        assert status == 200, page
        found.append(msgspec.convert(page, MoveList))
        following = found[-1].next
    return found


def test_many_moves_are_told_in_pages_the_latest_first() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            register = running.nodes["b1"].moves
            for number in range(250):
                register.stepped(relocation(f"m-{number}"), "done", "", 2.0)
            for number in range(3):
                register.stepped(relocation(f"open-{number}"), "asked", "", 3.0)
            port = address_of(running, "b1").http
            first, second, third = await pages(port)
            assert [it.move.id for it in first.under_way] == ["open-0", "open-1", "open-2"]
            assert (second.under_way, third.under_way) == ([], [])
            told = [it.move.id for page in (third, second, first) for it in page.ended]
            assert told == [f"m-{number}" for number in range(250)]
            assert [len(page.ended) for page in (first, second, third)] == [97, 100, 53]
            small = await pages(port, "/moves?limit=1")
            assert [page.under_way[0].move.id for page in small[:3]] == [
                "open-2",
                "open-1",
                "open-0",
            ]
            assert len(small) == 253
            (whole,) = await pages(port, "/moves?limit=1000")
            assert (len(whole.under_way), len(whole.ended)) == (3, 250)

    on_loop(body)


def test_a_move_that_ends_between_two_pages_is_not_missed() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            register = running.nodes["b1"].moves
            for number in range(4):
                register.stepped(relocation(f"m-{number}"), "asked", "", 3.0)
            port = address_of(running, "b1").http
            _, first = await asked(port, "GET", "/moves?limit=2")
            assert [it["move"]["id"] for it in first["under_way"]] == ["m-2", "m-3"]
            register.stepped(relocation("m-1"), "done", "", 4.0)
            register.stepped(relocation("m-3"), "done", "", 4.0)
            second, third = await pages(port, first["next"])
            assert [it.move.id for it in second.under_way] == ["m-0"]
            assert [it.move.id for it in second.ended] == ["m-3"]
            assert [it.move.id for it in third.ended] == ["m-1"]

    on_loop(body)


def test_a_page_of_large_moves_is_short() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            port = address_of(running, "b1").http
            for number in range(100):
                move = msgspec.json.encode(big(f"m-{number}"))
                status, record = await asked(port, "POST", "/moves", move)
                assert (status, record["outcome"]) == (200, "refused")
            told = await pages(port, "/moves?limit=1000")
            sizes = [len(msgspec.json.encode(page)) for page in told]
            assert max(sizes) <= PAGE_BYTES_MAX + 1000
            assert sum(sizes) <= ENDED_BYTES_MAX + 1000 * len(told)
            latest = [it.move.id for page in reversed(told) for it in page.ended]
            assert latest == [f"m-{number}" for number in range(100 - len(latest), 100)]

    on_loop(body)


def test_a_move_for_which_there_is_no_room_is_told_so() -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            register = running.nodes["b1"].moves
            for number in range(20):
                register.stepped(big(f"own-{number}"), "asked", "", 1.0)
            port = address_of(running, "b1").http
            move = relocation(publisher="nobody")
            size, beside = len(msgspec.json.encode(move)), register.bytes_under_way
            status, page = await asked(port, "POST", "/moves", msgspec.json.encode(move))
            assert (status, page["error"]) == (
                429,
                f"a move of {size} bytes beside {beside} under way, 1048576 are taken: "
                "ask again when some have ended",
            )
            for number in range(20):
                register.stepped(big(f"own-{number}"), "done", "", 2.0)
            status, page = await asked(port, "POST", "/moves", msgspec.json.encode(move))
            assert (status, page["outcome"]) == (200, "refused")

    on_loop(body)
