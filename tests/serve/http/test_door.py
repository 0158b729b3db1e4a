"""A node tells how it is over HTTP, and takes nothing else from there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.serve.http.asking import request

from gravitate.broker.options import BrokerOptions
from gravitate.serve.http import door as doors
from gravitate.serve.http.pages import json_response, readiness_page, serve_pages
from gravitate.serve.node.status import NodeStatus, Readiness
from gravitate.serve.ports import free_ports


async def _asked(port: int, request: bytes) -> tuple[str, dict[str, str], bytes]:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def _open_page(lab: Any) -> int:
    """b1 - b2 with a session on b1, and the port where b1 tells about itself."""
    one, _ = await lab.start(lab.chain(2))
    subscriber = await lab.subscriber(one, "subscriber")
    publisher = lab.Client(one, "publisher")
    publisher.publish(b"1", b"2")
    await lab.eventually(lambda: len(subscriber.payloads) == 2)
    (port,) = free_ports(1)
    one.doors.append(await serve_pages(one.status, "127.0.0.1", port))
    return port


def test_status_tells_links_sessions_tables_and_counters(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, headers, page = await _asked(port, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"
        assert headers["content-type"] == "application/json"
        assert headers["content-length"] == str(len(page))
        status = msgspec.json.decode(page, type=NodeStatus)
        assert (status.broker, status.network, status.sessions) == ("b1", "lab", 2)
        assert [(link.peer, link.state) for link in status.links] == [("b2", "up")]
        assert status.tables["subscriptions"] == 1
        assert status.counters["events_delivered"] == 2
        quiet = ("events_overflowed", "frames_refused_again", "publishers_forgotten")
        assert [status.counters[name] for name in (*quiet, "deposits_refused")] == [0, 0, 0, 0]
        assert status.held == []

    run(body)


def test_metrics_are_in_the_format_of_prometheus(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, page = await _asked(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"
        lines = page.decode().splitlines()
        assert 'gravitate_sessions{broker="b1"} 2.0' in lines
        assert 'gravitate_events_delivered_total{broker="b1"} 2.0' in lines
        assert 'gravitate_link_up{broker="b1",peer="b2"} 1.0' in lines

    run(body)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /health HTTP/1.1", "200 OK"),
        (b"HEAD /status HTTP/1.1", "200 OK"),
        (b"GET /health?verbose HTTP/1.0", "200 OK"),
        (b"GET / HTTP/1.1", "404 Not Found"),
        (b"POST /status HTTP/1.1", "405 Method Not Allowed"),
        (b"nonsense", "400 Bad Request"),
        (b"\xff\xfe\x00", "400 Bad Request"),
    ],
)
def test_every_request_gets_its_answer(run: Any, request_line: bytes, status: str) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, page = await _asked(port, request_line + b"\r\nHost: x\r\n\r\n")
        assert line == f"HTTP/1.1 {status}"
        assert (page == b"") == request_line.startswith(b"HEAD")

    run(body)


def test_a_length_without_end_is_refused(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        for digits, status, said in (
            (20, 413, b"a body of 77777777777777777777 bytes, 65536 are taken"),
            (5000, 400, b"not HTTP/1.1: bad Content-Length"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"POST /moves HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % (
                b"7" * digits
            )
            writer.write(head)
            writer.write_eof()
            async with asyncio.timeout(10):
                answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert said in answer

    run(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"x" * 100_000, id="no end"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9_000 + b"\r\n\r\n", id="one long"
        ),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 2_000 + b"\r\n", id="many"
        ),
        pytest.param(b"GET /" + b"x" * 4_000_000 + b" HTTP/1.1\r\n\r\n", id="still sent"),
    ],
)
def test_a_head_that_is_too_long_is_told_so_and_harms_nobody(
    run: Any, request_bytes: bytes
) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, page = await _asked(port, request_bytes)
        assert line == "HTTP/1.1 431 Request Header Fields Too Large"
        assert msgspec.json.decode(page) == {"error": "more than 8192 bytes before the body"}
        line, _, _ = await _asked(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"

    run(body)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n", 400),
        (b"POST /moves HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n", 411),
        (b"POST /moves HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n", 413),
    ],
)
def test_who_sends_on_before_it_listens_still_hears_what_is_wrong(
    run: Any, head: bytes, status: int
) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, _ = await _asked(port, head + b"\r\n" + b" " * 3_000_000)
        assert line.startswith(f"HTTP/1.1 {status} ")

    run(body)


def test_silent_connections_are_bounded_and_who_asks_is_answered_beside_them(run: Any) -> None:
    async def body(lab: Any) -> None:
        (one,) = await lab.start(lab.chain(1))
        one.doorkeeper.readers_max = 30
        (port,) = free_ports(1)
        one.doors.append(
            await serve_pages(one.status, "127.0.0.1", port, doorkeeper=one.doorkeeper)
        )
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        line, _, _ = await _asked(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"
        async with asyncio.timeout(3):
            await asyncio.gather(*(_gone(reader) for reader, _ in silent[:20]))
        assert not any(reader.at_eof() for reader, _ in silent[21:])
        for _, writer in silent:
            writer.close()

    run(body)


async def _gone(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


def test_when_everybody_is_being_answered_newcomers_are_turned_away(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        ready = asyncio.Event()

        async def slow(request: Request) -> Response:
            await ready.wait()
            return json_response("answered")

        (one,) = await lab.start(lab.chain(1))
        one.doorkeeper.readers_max = 2
        (port,) = free_ports(1)
        door = await serve_pages(
            one.status, "127.0.0.1", port, [Route("/slow", slow)], one.doorkeeper
        )
        one.doors.append(door)
        asked = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
        answered = [asyncio.create_task(_asked(port, asked)) for _ in range(2)]
        await lab.eventually(lambda: [it.has_asked() for it in door.readers] == [True] * 2)
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await _gone(reader)
            writer.close()
        assert one.status().counters["connections_refused"] == 5
        ready.set()
        assert [(await task)[0] for task in answered] == ["HTTP/1.1 200 OK"] * 2
        said = [it.message for it in caplog.records if "HTTP connections away" in it.message]
        assert said == [
            "b1 turns HTTP connections away: 2 are connected (connections refused so far: 1)"
        ]

    run(body)


def test_who_does_not_read_its_answer_is_let_go(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "REQUEST_TIMEOUT_S", 0.1)

    async def body(lab: Any) -> None:
        async def long(request: Request) -> Response:
            return PlainTextResponse("x" * 30_000_000)

        (one,) = await lab.start(lab.chain(1))
        (port,) = free_ports(1)
        door = await serve_pages(one.status, "127.0.0.1", port, [Route("/long", long)])
        one.doors.append(door)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await lab.eventually(lambda: door.readers)
        await lab.eventually(lambda: not door.readers)
        got = 0
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1_000_000):
                got += len(data)
        writer.close()
        assert got < 30_000_000

    run(body)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /health HTT",
        b"GET /health HTTP/1.1\r\nHost: x\r\n",
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_who_does_not_finish_asking_is_let_go(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, begun: bytes
) -> None:
    monkeypatch.setattr(doors, "REQUEST_TIMEOUT_S", 0.1)

    async def body(lab: Any) -> None:
        async def page(request: Request) -> Response:
            return Response(await request.body())

        (one,) = await lab.start(lab.chain(1))
        (port,) = free_ports(1)
        routes = [Route("/body", page, methods=["POST"])]
        door = await serve_pages(one.status, "127.0.0.1", port, routes)
        one.doors.append(door)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        async with asyncio.timeout(10):
            await _gone(reader)
        writer.close()
        assert not door.readers
        assert caplog.records == []

    run(body)


def test_who_asks_and_says_no_more_is_answered(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.write_eof()
        async with asyncio.timeout(10):
            assert (await reader.read()).endswith(b"ok\n")
        writer.close()

    run(body)


def test_a_door_that_closes_lets_go_of_who_waits_for_an_answer(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        asked, stopped = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> Response:
            asked.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                stopped.set()
            raise AssertionError

        (one,) = await lab.start(lab.chain(1))
        (port,) = free_ports(1)
        door = await serve_pages(one.status, "127.0.0.1", port, [Route("/slow", slow)])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            await asked.wait()
            await door.close()
            await stopped.wait()
            await _gone(reader)
        writer.close()
        assert not door.readers
        assert caplog.records == []

    run(body)


def test_a_page_that_fails_is_logged_and_costs_its_reader_alone(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        async def broken(request: Request) -> Response:
            raise RuntimeError("lost count")

        (one,) = await lab.start(lab.chain(1))
        (port,) = free_ports(1)
        door = await serve_pages(one.status, "127.0.0.1", port, [Route("/broken", broken)])
        one.doors.append(door)
        line, _, _ = await _asked(port, b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 500 Internal Server Error"
        assert "lost count" in caplog.text
        line, _, _ = await _asked(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"

    run(body)


def test_a_broker_is_ready_when_all_neighbours_were_heard_and_those_there_have_answered(
    run: Any,
) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(3)
        (middle,) = await lab.start(network, "b2", options=BrokerOptions(retry_s_max=0.05))
        page = readiness_page(middle.readiness)

        async def ready() -> tuple[int, Readiness]:
            answer = await page(request("/ready"))
            return answer.status_code, msgspec.json.decode(answer.body, type=Readiness)

        status, told = await ready()
        assert (status, told.ready) == (503, False)
        assert sorted(told.awaited) == ["b1", "b3"]
        left, _ = await lab.start(network, "b1", "b3")
        await lab.eventually(lambda: middle.readiness().ready)
        assert (await ready())[0] == 200
        far = lab.Client(left, "far")
        far.publish(b"1")
        await lab.eventually(lambda: middle.broker.router.table.advertisements)
        await left.close()
        await lab.eventually(lambda: middle.readiness().down == ["b1"])
        # Who is away does not make it unready; what it cannot settle there is told.
        subscriber = lab.Client(middle, "s")
        subscriber.subscribe()

        def unsettled() -> dict[str, int]:
            return {link.peer: link.unsettled for link in middle.status().links}

        await lab.eventually(lambda: unsettled() == {"b1": 1, "b3": 0})
        assert middle.readiness() == Readiness("b2", True, {}, ["b1"])

    run(body)
